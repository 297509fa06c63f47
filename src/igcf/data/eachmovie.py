"""EachMovie in its two forms; scores are returned on the scale 0 to 5, so that four or more counts as satisfied.

The owner's `Vote.txt` has scores 0.0, 0.2, ... 1.0 (person, movie, score, weight, date; tab-separated, no header);
`eachmovie_triple` has the same scores as 1 ... 6 (movie, user, score; blanks between them).
"""

import gzip
import re
from pathlib import Path

import polars as pl

from igcf.data.columns import first_rows
from igcf.data.frames import interactions_from_frame
from igcf.data.interactions import Interactions
from igcf.data.table_files import text_table
from igcf.errors import DataError

TRIPLE = ("eachmovie_triple", "eachmovie_triple.gz")
VOTES = ("Vote.txt", "vote.txt")
DATE_FORMATS = (
    "%m/%d/%y %H:%M:%S",
    "%m/%d/%y",
    "%m/%d/%Y %H:%M:%S",
    "%Y-%m-%d %H:%M:%S",
)  # %Y would take 96 for the year 96


def read_eachmovie(path: Path) -> Interactions:
    """Read `eachmovie_triple[.gz]` or `Vote.txt`, or the folder that holds one of them."""
    file = path
    if path.is_dir():
        found = next((path / name for name in (*VOTES, *TRIPLE) if (path / name).exists()), None)
        if found is None:
            raise DataError(f"{path} holds no eachmovie_triple, eachmovie_triple.gz or Vote.txt")
        file = found
    frame = _votes(file) if file.name in VOTES else _triples(file)
    return interactions_from_frame(frame, name="eachmovie", source=str(file))


def _triples(path: Path) -> pl.DataFrame:
    table = re.sub(rb"[ \t]+", b"\t", _content(path))
    frame = text_table(table, str(path), separator="\t", names=("item", "user", "score"))
    return _with_values(path, frame, pl.col("score") - 1.0, lowest=1.0, highest=6.0)


def _votes(path: Path) -> pl.DataFrame:
    names = ("user", "item", "score", "weight", "date")
    frame = text_table(_content(path), str(path), separator="\t", names=names)
    frame = _with_values(path, frame, pl.col("score") * 5.0, lowest=0.0, highest=1.0)
    if "date" not in frame.columns:
        return frame
    dates = (frame["date"].str.to_datetime(form, strict=False, time_unit="us") for form in DATE_FORMATS)
    known = next((date for date in dates if date.null_count() == frame["date"].null_count()), None)
    return frame if known is None else frame.with_columns(timestamp=known)


def _with_values(path: Path, frame: pl.DataFrame, value: pl.Expr, *, lowest: float, highest: float) -> pl.DataFrame:
    scores = frame["score"].cast(pl.Float64, strict=False)
    bad = ~scores.is_between(lowest, highest).fill_null(False)
    if bad.any():
        row = first_rows(bad)[0]
        raise DataError(
            f"{path}: {bad.sum()} scores are not between {lowest} and {highest}, "
            f"first {frame['score'][row - 1]!r} in row {row}"
        )
    return frame.with_columns(score=scores).with_columns(value=value)


def _content(path: Path) -> bytes:
    try:
        content = path.read_bytes()
        return gzip.decompress(content) if content[:2] == b"\x1f\x8b" else content
    except (OSError, EOFError) as error:
        raise DataError(f"{path} cannot be read: {error}") from error
