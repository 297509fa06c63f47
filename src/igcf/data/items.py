"""Tables of items: titles, categories and further attributes by id, from a file or a frame."""

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import polars as pl

from igcf.data.columns import Columns, Times, cast_or_null, id_text, numbers_of
from igcf.data.findings import CONTROL, Defect, Findings, Piece
from igcf.data.interactions import Interactions
from igcf.data.layout import ITEM_NAMES, named, plain
from igcf.data.log_files import WholeTable, read_whole
from igcf.errors import DataError, refuse_other_than_file
from igcf.item import Item, parse_items

LIST_SIGNS = ("|", ";", ",")
"""Signs that may stand between two categories of an item; the one that occurs in most rows counts."""
TRUTHS = {"true": True, "1": True, "yes": True, "1.0": True, "false": False, "0": False, "no": False, "0.0": False}


@dataclass(frozen=True)
class ItemTable:
    """What is known of items, and what was taken for it."""

    items: tuple[Item, ...]
    """Items in the order of the rows."""
    sentence: str
    """One line for people: `items: id = movieId, title = title, categories = genres; separator: comma`."""
    defects: tuple[Defect, ...] = ()
    """What was noticed while the table was read."""

    @cached_property
    def by_id(self) -> dict[str, Item]:
        """Items by id; of several rows with the same id the last counts."""
        return {item.id: item for item in self.items}

    def describe(self, log: Interactions) -> Interactions:
        """Return a log with these descriptions; an item that is not in the table keeps its own, or its id as title."""
        known, in_log = self.by_id, [*log.item_ids, *(item.id for item in log.rare_items)]
        if known and not any(each in known for each in in_log):
            raise DataError(
                f"no item of the log is in the table of items; the log has {log.item_ids[0]!r}, the table "
                f"{next(iter(known))!r}: expected the same ids in both"
            )
        defects, notes = (*log.defects, *self._compared(in_log)), (*log.notes, self.sentence)
        return replace(log.described(known), defects=defects, notes=notes)

    def _compared(self, in_log: Sequence[str]) -> tuple[Defect, ...]:
        """Return how many items of a log have no title, how many of the table are not in it, and other defects."""
        findings, ids = Findings(is_strict=False), set(in_log)
        for defect in self.defects:
            findings.add(defect.kind, f"table of items: {defect.message}", defect.count, defect.rows)
        titled = {item.id for item in self.items if item.title}
        if titled and (without := sum(item_id not in titled for item_id in in_log)):
            message = f"{without:,} of {len(in_log):,} items of the log have no title in the table; their ids are shown"
            findings.add("items-without-title", message, without)
        if unknown := sum(item_id not in ids for item_id in self.by_id):
            message = f"{unknown:,} of {len(self.by_id):,} items of the table are not in the log; they are left out"
            findings.add("unknown-items", message, unknown)
        return findings.defects


def read_batch(file: Path) -> list[Item]:
    """Read and check items of a file: JSON (a list), one item per line (`.jsonl`), or a table as `read_items` reads."""
    try:
        refuse_other_than_file(file)
        if file.suffix not in (".json", ".jsonl"):
            return parse_items(read_items(file).items)
        text = file.read_text(encoding="utf-8")
        is_lines = file.suffix == ".jsonl"
        given = [json.loads(line) for line in text.split("\n") if line.strip()] if is_lines else json.loads(text)
    except (OSError, ValueError, RecursionError) as error:
        raise DataError(f"cannot read the items of {file}: {error}; expected JSON or a table of items") from error
    given = given.get("items") if isinstance(given, dict) else given
    if not isinstance(given, list):
        raise DataError(f'{file} holds no list of items; expected [{{"id": ...}}, ...]')
    return parse_items(given)


def read_items(items: "str | Path | object", columns: Columns | None = None, id_name: str = "id") -> ItemTable:
    """Read a table of items from a text or Parquet file, or a frame; the columns are found by name, or by place.

    Without common names they are id, title and categories in this order. Categories are lists, or text with `|`, `;`
    or commas between them. `columns` may say how a text file is to be read, `id_name` how the log calls the ids.
    """
    id_names = (plain(id_name), *ITEM_NAMES["id"])
    table = read_whole(items, "the table of items", id_names, columns)
    found = _found_columns(table, id_names)
    column = id_text(table.frame[found["id"]])
    _check_ids(column, found["id"], table)
    frame = table.frame.filter(column.is_not_null())
    entries: dict[str, Sequence[Any]] = {
        what: _entries(what, frame[name], table.source) for what, name in found.items() if what != "id"
    }
    entries["id"] = column.drop_nulls().to_list()
    others = [name for name in frame.columns if name not in found.values()]
    found_numbers = ((name, numbers_of(frame[name], table.source)) for name in others)
    if numbers := {name: column.to_list() for name, column in found_numbers if column is not None}:
        entries["numbers"] = [
            {name: value for name, value in zip(numbers, row, strict=True) if value is not None}
            for row in zip(*numbers.values(), strict=True)
        ]
    sentences = (
        f"items: {', '.join(f'{what} = {name}' for what, name in found.items())}",
        f"numbers: {', '.join(numbers)}" if numbers else "",
        f"not used: {', '.join(name for name in others if name not in numbers)}" if len(numbers) < len(others) else "",
        table.sentence,
    )
    sentence = "; ".join(filter(None, sentences))
    rows = (dict(zip(entries, row, strict=True)) for row in zip(*entries.values(), strict=True))
    return ItemTable(tuple(Item(**row) for row in rows), sentence, table.findings.defects)


def _found_columns(table: WholeTable, id_names: Sequence[str]) -> dict[str, str]:
    """Return the column of each part of an item."""
    frame, found = table.frame, dict[str, str]()
    for what, names in (ITEM_NAMES | {"id": id_names}).items():
        name = named([each for each in _candidates(frame, what) if each not in found.values()], names)
        if name is not None:
            found[what] = name
    if "id" not in found or len(found) == 1:
        for what, name in zip(("id", "title", "categories"), _candidates(frame, "id"), strict=False):
            if what not in found and name not in found.values():
                found[what] = name
    if len(found) < 2:
        columns = ", ".join(frame.columns)
        raise DataError(f"{table.source} has the columns {columns}; expected an id and a title or categories")
    return found


def _candidates(frame: pl.DataFrame, what: str) -> list[str]:
    """Return the columns that may hold something of an item: lists only where there may be several."""
    has_lists = what in ("categories", "tags")
    kinds = ((name, frame[name].dtype) for name in frame.columns)
    return [name for name, kind in kinds if not kind.is_nested() or (has_lists and isinstance(kind, pl.List))]


def _check_ids(ids: pl.Series, column: str, table: WholeTable) -> None:
    """Refuse ids with control characters; note rows without an id, and ids that stand in several rows."""
    mask, piece = ids.str.contains(CONTROL).fill_null(False), Piece(table.frame, table.source)
    message = f"{column!r} holds a control character; an id is plain text on one line"
    Findings().rows("control-in-id", message, mask, piece, found=ids)
    table.findings.rows("item-without-id", f"{column!r} is empty; the row is left out", ids.is_null(), piece)
    again = ids.is_not_null() & ~ids.is_first_distinct()
    table.findings.rows("duplicate-item", f"{column!r} is that of an earlier row; the last row counts", again, piece)


def _entries(what: str, column: pl.Series, source: str) -> Sequence[Any]:
    """Return one part of the items, in the order of the rows."""
    if what in ("categories", "tags"):
        return _lists(column)
    if what in ("available_from", "available_until"):
        times, has_fractions = Times()(column)
        if times.null_count() > column.null_count():
            wrong = column.filter(times.is_null() & column.is_not_null())[0]
            raise DataError(f"{source}: {what} is {wrong!r}; expected seconds since 1970 or a date like 2026-11-16")
        return (times.cast(pl.Float64) / (1e6 if has_fractions else 1.0)).to_list()
    if what == "hidden":
        words = ["" if each is None else str(each).strip().lower() for each in column.to_list()]
        wrong = next((word for word in words if word and word not in TRUTHS), None)
        if wrong is not None:
            raise DataError(f"{source}: hidden is {wrong!r}; expected true or false")
        return [TRUTHS.get(word, False) for word in words]
    return cast_or_null(column, pl.String()).to_list()


def _lists(column: pl.Series) -> list[tuple[str, ...]]:
    """Return the categories of each item, from a column of lists or of text."""
    if isinstance(column.dtype, pl.List):
        return [tuple(str(each) for each in entry or ()) for entry in column.to_list()]
    texts = cast_or_null(column, pl.String()).fill_null("").str.strip_chars("[]() ").to_list()
    signs = Counter(sign for text in texts for sign in LIST_SIGNS if sign in text)
    sign = signs.most_common(1)[0][0] if signs else "|"
    return [tuple(part.strip(" '\"") for part in text.split(sign) if part.strip(" '\"")) for text in texts]
