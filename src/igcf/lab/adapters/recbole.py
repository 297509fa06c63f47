"""RecBole's atomic files: `read_recbole("dataset/ml-100k")` reads `.inter`, and `.item` and `.user` if they exist."""

from pathlib import Path

import polars as pl

from igcf.data import Interactions
from igcf.data.layout import ITEM_NAMES, named
from igcf.errors import DataError

TYPES = ("token", "token_seq", "float", "float_seq")
"""Types of columns, which the header has behind the names: `movie_title:token_seq`."""


def read_recbole(folder: str | Path, name: str | None = None) -> Interactions:
    """Return the log of a data set of RecBole, with attributes of its items and users.

    Sequences of tokens become categories, except that of the title, which is text again.

    Args:
        folder: folder with the files `NAME.inter`, `NAME.item` and `NAME.user`; only the first must exist.
        name: name of the files; by default that of the folder.
    """
    stem = Path(folder) / (name or Path(folder).name)
    log = Interactions.from_frame(_frame(Path(f"{stem}.inter")), name=stem.name)
    items, users = Path(f"{stem}.item"), Path(f"{stem}.user")
    log = log.with_items(_with_categories(_frame(items))) if items.exists() else log
    return log.with_users(_frame(users)) if users.exists() else log


def _frame(path: Path) -> pl.DataFrame:
    """Read one file; columns get the names and types that its header says."""
    try:
        frame = pl.read_csv(path, separator="\t", quote_char=None, infer_schema=False)
        columns = []
        for header in frame.columns:
            column, _, kind = header.rpartition(":")
            if kind not in TYPES or not column:
                raise DataError(f"{path}: column {header!r} has no type; expected a header such as user_id:token")
            entry = pl.col(header).cast(pl.Float64 if kind == "float" else pl.String)
            is_list = kind.endswith("_seq") and named([column], ITEM_NAMES["title"]) is None
            columns.append((entry.str.split(" ") if is_list else entry).alias(column))
        return frame.select(columns)
    except (OSError, pl.exceptions.PolarsError) as error:
        raise DataError(f"cannot read {path}: {error}; expected an atomic file of RecBole") from error


def _with_categories(items: pl.DataFrame) -> pl.DataFrame:
    """Let the first sequence be the categories where no column is called so."""
    lists = [column for column, kind in items.schema.items() if kind == pl.List(pl.String)]
    if not lists or named(lists, (*ITEM_NAMES["categories"], *ITEM_NAMES["tags"])) is not None:
        return items
    return items.rename({lists[0]: "categories"})
