"""Tables of items: titles, categories and further attributes by id, from a file or a frame."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import polars as pl

from igcf.arrays import BoolArray, FloatArray
from igcf.attributes import Attributes
from igcf.data.columns import Columns, Times, cast_or_null, id_text
from igcf.data.findings import CONTROL, Defect, Findings, Piece
from igcf.data.interactions import Interactions
from igcf.data.layout import ITEM_NAMES, named
from igcf.data.log_files import is_parquet
from igcf.data.reading import as_polars
from igcf.data.text_tables import TextTable, check_readable, first_line
from igcf.errors import DataError
from igcf.item import Item

LIST_SIGNS = ("|", ";", ",")
"""Signs that may stand between two categories of an item; the one that occurs in most rows counts."""


@dataclass(frozen=True)
class ItemTable:
    """What is known of items by id, and what was taken for it."""

    titles: dict[str, str]
    categories: dict[str, tuple[str, ...]]
    ids: tuple[str, ...]
    """Ids of the rows of `attributes`."""
    attributes: Attributes
    sentence: str
    """One line for people: `items: id = movieId, title = title, categories = genres; separator: comma`."""
    defects: tuple[Defect, ...] = ()
    """What was noticed while the table was read."""

    def compared(self, log: Interactions) -> list[Defect]:
        """Return how many items of a log have no title, how many of the table are not in it, and other defects."""
        findings = Findings(is_strict=False)
        for defect in self.defects:
            findings.add(defect.kind, f"table of items: {defect.message}", defect.count, defect.rows)
        in_log = [*log.item_ids, *(item.id for item in log.rare_items)]
        known = set(in_log)
        without = sum(item_id not in self.titles for item_id in in_log) if self.titles else 0
        unknown = sum(item_id not in known for item_id in self.ids)
        if without:
            message = f"{without:,} of {len(in_log):,} items of the log have no title in the table; their ids are shown"
            findings.add("items-without-title", message, without)
        if unknown:
            message = f"{unknown:,} of {len(self.ids):,} items of the table are not in the log; they are left out"
            findings.add("unknown-items", message, unknown)
        return list(findings.defects)

    def describe(self, log: Interactions) -> Interactions:
        """Return a log with these descriptions; an item that is not in the table keeps its own, or its id as title."""
        known = {each: row for row, each in enumerate(self.ids)}
        if known and not any(each in known for each in (*log.item_ids, *(item.id for item in log.rare_items))):
            raise DataError(
                f"no item of the log is in the table of items; the log has {log.item_ids[0]!r}, the table "
                f"{next(iter(known))!r}: expected the same ids in both"
            )
        titles, categories = log.titles, log.categories
        if self.titles:
            titles = tuple(map(self.titles.get, log.item_ids, titles or log.item_ids))
        if self.categories:
            categories = tuple(map(self.categories.get, log.item_ids, categories or ((),) * log.n_items))
        attributes = self.attributes.taken([known.get(each, -1) for each in log.item_ids])
        described = log.with_catalogue(titles, categories, None if self.attributes.is_empty else attributes)
        return replace(
            described,
            rare_items=tuple(self._item(known[each.id]) if each.id in known else each for each in log.rare_items),
            defects=(*log.defects, *self.compared(log)),
            notes=(*log.notes, self.sentence),
        )

    def items(self) -> list[Item]:
        """Return the items of the table."""
        return [self._item(row) for row in range(len(self.ids))]

    def _item(self, row: int) -> Item:
        item_id = self.ids[row]
        return Item(
            item_id,
            title=self.titles.get(item_id),
            categories=self.categories.get(item_id, ()),
            **self.attributes.of(row),
        )


def read_items(items: "str | Path | object", columns: Columns | None = None) -> ItemTable:
    """Read a table of items from a text or Parquet file, or a frame; the columns are found by name, or by place.

    Without common names they are id, title and categories in this order. Categories are lists, or text with `|`, `;`
    or commas between them. `columns` may say how a text file is to be read.
    """
    if not isinstance(items, str | Path):
        return _item_table(as_polars(items), "the table of items", "")
    path = Path(items)
    if is_parquet(path) or path.is_dir():
        if not path.is_dir():
            check_readable(path, text=False)
        try:
            frame = pl.read_parquet(path, glob=path.is_dir())
        except (pl.exceptions.PolarsError, OSError) as error:
            raise DataError(f"{path} cannot be read as Parquet: {first_line(error)}") from error
        return _item_table(frame, str(path), "")
    table = TextTable(path, columns)
    named_id, findings = named(table.names, ITEM_NAMES["id"]), Findings(is_strict=False)
    frame = pl.concat(table.frames(ids=table.names[:1] if named_id is None else [named_id], findings=findings))
    return _item_table(frame, str(path), f"; {table.sentence}", findings)


def _item_table(frame: pl.DataFrame, source: str, layout: str, findings: Findings | None = None) -> ItemTable:
    found: dict[str, str] = {}
    for what, names in ITEM_NAMES.items():
        name = named([each for each in _candidates(frame, what) if each not in found.values()], names)
        if name is not None:
            found[what] = name
    if "id" not in found or len(found) == 1:
        for what, name in zip(("id", "title", "categories"), _candidates(frame, "id"), strict=False):
            if what not in found and name not in found.values():
                found[what] = name
    if len(found) < 2:
        raise DataError(
            f"{source} has the columns {', '.join(frame.columns)}; expected an id and a title or categories"
        )
    id_column = id_text(frame[found["id"]])
    check_table_ids(id_column, found["id"], source)
    ids = id_column.to_list()
    titles = {} if "title" not in found else dict(zip(ids, _text(frame[found["title"]]).to_list(), strict=True))
    categories = {} if "categories" not in found else dict(zip(ids, _lists(frame[found["categories"]]), strict=True))
    is_row = frame[found["id"]].is_not_null()
    numbers = _numbers(frame.filter(is_row), [name for name in frame.columns if name not in found.values()], source)
    attributes = _attributes(frame.filter(is_row), found, numbers, source)
    unused = [name for name in frame.columns if name not in found.values() and name not in numbers]
    sentence = f"items: {', '.join(f'{what} = {name}' for what, name in found.items())}"
    sentence += f"; numbers: {', '.join(numbers)}" if numbers else ""
    sentence += f"; not used: {', '.join(unused)}" if unused else ""
    return ItemTable(
        {each: title for each, title in titles.items() if each is not None and title is not None},
        {each: tags for each, tags in categories.items() if each is not None},
        tuple(each for each in ids if each is not None),
        attributes,
        sentence + layout,
        () if findings is None else findings.defects,
    )


def check_table_ids(ids: pl.Series, column: str, source: str) -> None:
    """Refuse ids with control characters."""
    mask = ids.str.contains(CONTROL).fill_null(False)
    message = f"{column!r} holds a control character; an id is plain text on one line"
    Findings().rows("control-in-id", message, mask, Piece(pl.DataFrame(), source), found=ids)


def _candidates(frame: pl.DataFrame, what: str) -> list[str]:
    """Return the columns that may hold something of an item: lists only where there may be several."""
    has_lists = what in ("categories", "tags")
    kinds = ((name, frame[name].dtype) for name in frame.columns)
    return [name for name, kind in kinds if not kind.is_nested() or (has_lists and isinstance(kind, pl.List))]


def _text(column: pl.Series) -> pl.Series:
    return cast_or_null(column, pl.String())


def _numbers(frame: pl.DataFrame, names: Sequence[str], source: str) -> dict[str, FloatArray]:
    """Return the columns whose entries are all numbers, by name; NaN where an item has none."""
    found = {}
    for name in names:
        column = frame[name]
        if not (column.dtype.is_numeric() or column.dtype == pl.String) or column.null_count() == len(column):
            continue
        numbers = column.cast(pl.Float64, strict=False)
        if numbers.null_count() > column.null_count():
            continue
        if numbers.is_infinite().any():
            raise DataError(f"{source}: the column {name!r} has an infinite number; expected finite ones")
        found[name] = numbers.fill_null(np.nan).to_numpy().astype(np.float64)
    return found


def _attributes(frame: pl.DataFrame, found: dict[str, str], numbers: dict[str, FloatArray], source: str) -> Attributes:
    """Return the further attributes that columns were found for."""

    def texts(what: str) -> tuple[str | None, ...] | None:
        return tuple(_text(frame[found[what]]).to_list()) if what in found else None

    def times(what: str, missing: float) -> FloatArray | None:
        if what not in found:
            return None
        given = frame[found[what]]
        column, has_fractions = Times()(given)
        if column.null_count() > given.null_count():
            wrong = given.filter(column.is_null() & given.is_not_null())[0]
            raise DataError(f"{source}: {what} is {wrong!r}; expected seconds since 1970 or a date like 2026-11-16")
        whole = column.cast(pl.Float64).fill_null(missing).to_numpy().astype(np.float64)
        return whole / 1e6 if has_fractions else whole

    return Attributes(
        frame.height,
        tags=tuple(_lists(frame[found["tags"]])) if "tags" in found else None,
        numbers=numbers,
        texts=texts("text"),
        images=texts("image"),
        available_from=times("available_from", -np.inf),
        available_until=times("available_until", np.inf),
        hidden=_truths(frame[found["hidden"]], source) if "hidden" in found else None,
    )


def _truths(column: pl.Series, source: str) -> BoolArray:
    """Return a column of yes and no, in any of the usual spellings; nothing is no."""
    words = ["" if each is None else str(each).strip().lower() for each in column.to_list()]
    known = {"true": True, "1": True, "yes": True, "1.0": True, "false": False, "0": False, "no": False, "": False}
    wrong = next((word for word in words if word not in known and word != "0.0"), None)
    if wrong is not None:
        raise DataError(f"{source}: hidden is {wrong!r}; expected true or false")
    return np.array([known.get(word, False) for word in words], dtype=np.bool_)


def _lists(column: pl.Series) -> list[tuple[str, ...]]:
    """Return the categories of each item, from a column of lists or of text."""
    if isinstance(column.dtype, pl.List):
        return [tuple(str(each) for each in entry or ()) for entry in column.to_list()]
    texts = _text(column).fill_null("").str.strip_chars("[]() ").to_list()
    signs = Counter(sign for text in texts for sign in LIST_SIGNS if sign in text)
    sign = signs.most_common(1)[0][0] if signs else "|"
    return [tuple(part.strip(" '\"") for part in text.split(sign) if part.strip(" '\"")) for text in texts]
