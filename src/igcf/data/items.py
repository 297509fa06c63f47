"""Tables of items: titles and categories by id, from a file or a frame."""

from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from igcf.data.columns import id_text
from igcf.data.interactions import Interactions
from igcf.data.layout import ITEM_NAMES, SEPARATORS, named
from igcf.errors import DataError

LIST_SIGNS = ("|", ";", ",")
"""Signs that may stand between two categories of an item; the one that occurs in most rows counts."""


@dataclass(frozen=True)
class ItemTable:
    """Titles and categories of items by id, and what was taken for them."""

    titles: dict[str, str]
    categories: dict[str, tuple[str, ...]]
    sentence: str
    """One line for people: `items: id = movieId, title = title, categories = genres; separator: comma`."""

    def describe(self, log: Interactions) -> Interactions:
        """Return a log with these titles and categories; an item that is not in the table keeps its id as title."""
        known = self.titles or self.categories
        if known and not any(item_id in known for item_id in log.item_ids):
            raise DataError(
                f"no item of the log is in the table of items; the log has {log.item_ids[0]!r}, the table "
                f"{next(iter(known))!r}: expected the same ids in both"
            )
        return log.with_catalogue(
            tuple(self.titles.get(each, each) for each in log.item_ids) if self.titles else log.titles,
            tuple(self.categories.get(each, ()) for each in log.item_ids) if self.categories else log.categories,
        )


def read_items(items: "str | Path | object") -> ItemTable:
    """Read a table of items from a text or Parquet file, or a frame; the columns are found by name, or by place.

    Without common names they are id, title and categories in this order. Categories are lists, or text with `|`, `;`
    or commas between them.
    """
    if not isinstance(items, str | Path):
        from igcf.data.frames import as_polars

        return _item_table(as_polars(items), "the table of items", "")
    path = Path(items)
    from igcf.data.table_files import is_parquet, text_sample, text_table

    if is_parquet(path):
        try:
            frame = pl.read_parquet(path)
        except (pl.exceptions.PolarsError, OSError) as error:
            raise DataError(f"{path} cannot be read as Parquet: {error}") from error
        return _item_table(frame, str(path), "")
    _, separator, has_header = text_sample(path)
    frame = text_table(path, str(path), separator=separator, has_header=has_header)
    layout = f"; separator: {SEPARATORS.get(separator, separator)}" + ("" if has_header else "; no header")
    return _item_table(frame, str(path), layout)


def _item_table(frame: pl.DataFrame, source: str, layout: str) -> ItemTable:
    found: dict[str, str] = {}
    for what, names in ITEM_NAMES.items():
        name = named([each for each in frame.columns if each not in found.values()], names)
        if name is not None:
            found[what] = name
    if "id" not in found or len(found) == 1:
        for what, name in zip(ITEM_NAMES, frame.columns, strict=False):
            if what not in found and name not in found.values():
                found[what] = name
    if len(found) < 2:
        raise DataError(
            f"{source} has the columns {', '.join(frame.columns)}; expected an id and a title or categories"
        )
    ids = id_text(frame[found["id"]]).to_list()
    titles = (
        {} if "title" not in found else dict(zip(ids, frame[found["title"]].cast(pl.String).to_list(), strict=True))
    )
    categories = {} if "categories" not in found else dict(zip(ids, _lists(frame[found["categories"]]), strict=True))
    unused = [name for name in frame.columns if name not in found.values()]
    sentence = f"items: {', '.join(f'{what} = {name}' for what, name in found.items())}"
    sentence += f"; not used: {', '.join(unused)}" if unused else ""
    return ItemTable(
        {each: title for each, title in titles.items() if each is not None and title is not None},
        {each: tags for each, tags in categories.items() if each is not None},
        sentence + layout,
    )


def _lists(column: pl.Series) -> list[tuple[str, ...]]:
    """Return the categories of each item, from a column of lists or of text."""
    if isinstance(column.dtype, pl.List):
        return [tuple(str(each) for each in entry or ()) for entry in column.to_list()]
    texts = column.cast(pl.String).fill_null("").str.strip_chars("[]() ").to_list()
    signs = Counter(sign for text in texts for sign in LIST_SIGNS if sign in text)
    sign = signs.most_common(1)[0][0] if signs else "|"
    return [tuple(part.strip(" '\"") for part in text.split(sign) if part.strip(" '\"")) for text in texts]
