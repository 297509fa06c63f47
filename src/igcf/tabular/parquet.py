"""Parquet files become tables, some rows and columns at a time, and tables become Parquet files."""

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from igcf.tabular.columns import Kind, Table
from igcf.tabular.engine import Session, identifier, literal, plain_path, session
from igcf.tabular.text_files import column_of_rows

MARK = "\u200b"
"""Stands behind a name that differs from another one in case alone, which Parquet allows and the database does not."""
WHOLE = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER")


class ParquetFile:
    """A Parquet file, of which only names, types and the number of rows are known."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with session() as opened:
            self._names = [name.rstrip(MARK) for name in _top_names(opened, path)]
            described = opened.rows(f"DESCRIBE SELECT * FROM {SOURCE}", plain_path(path))
            self._kinds = [str(row[1]).replace('"', "") for row in described]
            ((n_rows,),) = opened.rows("SELECT num_rows FROM parquet_file_metadata(?)", plain_path(path))
            self.n_rows = int(n_rows)

    @property
    def types(self) -> dict[str, str]:
        """Types of the columns by name, as the database calls them."""
        return dict(zip(self._names, self._kinds, strict=True))

    def read(self, wanted: Collection[str] | None = None, first: int = 0, n: int | None = None) -> Table:
        """Read columns, all or some, of all rows or of `n` from `first` on, in the order of the file."""
        places = [place for place, name in enumerate(self._names) if wanted is None or name in wanted]
        last = self.n_rows if n is None else min(first + n, self.n_rows)
        if not places:
            return Table((), max(last - first, 0))
        with session() as opened:
            own = ", ".join(_loaded(f"c{place}", self._kinds[place]) for place in places)
            part, given = self._part(first, last) if n is not None else (f"SELECT * FROM {SOURCE}", ())
            query = f"CREATE TEMP TABLE rows AS SELECT {own} FROM ({part}) AS file({self._aliases})"
            opened.rows(query, plain_path(self.path), *given)
            columns = [
                column_of_rows(opened, f"c{place}", self._names[place], _kind(self._kinds[place])) for place in places
            ]
            return Table(columns, max(last - first, 0))

    def rows(self) -> list[tuple[Any, ...]]:
        """Read all rows as Python objects; structures become dictionaries."""
        with session() as opened:
            return opened.rows(f"SELECT * FROM {SOURCE}", plain_path(self.path))

    def text_bytes(self) -> int:
        """Count the bytes of all text in the file, that in lists too, without keeping any."""
        sums = [
            f"coalesce(sum({_size(f'c{place}', kind)}), 0)"
            for place, kind in enumerate(self._kinds)
            if "VARCHAR" in kind
        ]
        if not sums:
            return 0
        with session() as opened:
            ((size,),) = opened.rows(
                f"SELECT {' + '.join(sums)} FROM (SELECT * FROM {SOURCE}) AS file({self._aliases})",
                plain_path(self.path),
            )
            return int(size)

    @property
    def _aliases(self) -> str:
        return ", ".join(f"c{place}" for place in range(len(self._kinds)))

    def _part(self, first: int, last: int) -> tuple[str, tuple[int, int]]:
        """Say in a query which rows are read; by their numbers, so that groups of others are not unpacked."""
        if ROW_NUMBER in map(str.lower, self._names):
            return f"SELECT * FROM {SOURCE} LIMIT ? OFFSET ?", (last - first, first)
        numbered = f"read_parquet(?, hive_partitioning = false, {ROW_NUMBER} = true)"
        where = f"WHERE {ROW_NUMBER} >= ? AND {ROW_NUMBER} < ?"
        return f"SELECT * EXCLUDE ({ROW_NUMBER}) FROM {numbered} {where}", (first, last)


SOURCE = "read_parquet(?, hive_partitioning = false)"
ROW_NUMBER = "file_row_number"
"""What the database calls the number of a row."""


def _kind(held: str) -> Kind:
    """Return the kind of a column of a type of the database."""
    if held in WHOLE or held == "NULL":
        return "whole"
    if held in ("FLOAT", "DOUBLE") or held.startswith("DECIMAL"):
        return "float"
    if held == "DATE" or held.startswith("TIMESTAMP"):
        return "time"
    return "truth" if held == "BOOLEAN" else "list" if held.endswith("[]") else "text"


def _loaded(own: str, held: str) -> str:
    """Say how a column of the file is held in memory."""
    types = {"whole": "BIGINT", "float": "DOUBLE", "truth": "BOOLEAN", "list": "VARCHAR[]", "text": "VARCHAR"}
    if _kind(held) == "time":
        return f"epoch_us({own}) AS {own}"
    return f"decode({own}) AS {own}" if held == "BLOB" else f"CAST({own} AS {types[_kind(held)]}) AS {own}"


def _size(own: str, kind: str) -> str:
    return f"strlen(array_to_string({own}, ''))" if kind == "VARCHAR[]" else f"strlen({own}::VARCHAR)"


def _top_names(opened: Session, path: Path) -> Iterator[str]:
    """Return the names of the columns as the file has them, those inside of others left out."""
    elements = opened.rows("SELECT name, coalesce(num_children, 0) FROM parquet_schema(?)", plain_path(path))
    place = 1
    while place < len(elements):
        yield elements[place][0]
        open_children = elements[place][1]
        place += 1
        while open_children:
            open_children += elements[place][1] - 1
            place += 1


def write_parquet(path: Path, columns: Mapping[str, tuple[str, Any]], order: Sequence[str] = ()) -> None:
    """Write columns of equal length as a Parquet file.

    Args:
        path: The file; one that is there is overwritten, in place.
        columns: By name the type, as the database calls it, and the entries: an array of numbers, or a sequence of
            Python objects in which None is missing. Those of lists and structures are what `json.dumps` writes.
        order: Columns to sort the rows by.
    """
    with session() as opened:
        given, query = {}, []
        for place, (name, (kind, entries)) in enumerate(zip(_distinct(list(columns)), columns.values(), strict=True)):
            own = f"c{place}"
            given[own] = _given(kind, entries)
            query.append(f"{_stored(own, kind, given[own])} AS {identifier(name)}")
        opened.lend("given", given)
        sort = f"ORDER BY {', '.join(map(identifier, order))}" if order else ""
        opened.write(f"SELECT {', '.join(query)} FROM given {sort}", path)


def _given(kind: str, entries: Any) -> npt.NDArray[Any]:
    if isinstance(entries, np.ndarray) and entries.dtype.kind in "biuf":
        return entries
    if kind == "BLOB":
        return np.array([None if entry is None else entry.hex() for entry in entries], dtype=object)
    if kind.endswith("]"):
        return np.array([None if entry is None else json.dumps(entry) for entry in entries], dtype=object)
    texts = np.empty(len(entries), dtype=object)
    texts[:] = [
        entry if entry is None else repr(entry) if isinstance(entry, float) else str(entry) for entry in entries
    ]
    return texts


def _stored(own: str, kind: str, array: npt.NDArray[Any]) -> str:
    """Say how entries become those of the file; NaN in an array is a number, not a missing entry."""
    if array.dtype.kind == "f":
        return f"coalesce({own}, 'nan')::{kind}"
    if kind == "BLOB":
        return f"unhex({own})"
    if kind.endswith("]"):
        return f"from_json({own}, {literal(_structure(kind))})"
    return f"{own}::{kind}"


def _structure(kind: str) -> str:
    """Describe a list to the reader of JSON: VARCHAR[] is `["VARCHAR"]`."""
    inner = kind.removesuffix("[]")
    if not inner.startswith("STRUCT("):
        return json.dumps([inner])
    fields = (field.rsplit(" ", 1) for field in inner.removeprefix("STRUCT(").removesuffix(")").split(", "))
    return json.dumps([{name.strip('"'): each for name, each in fields}])


def _distinct(names: list[str]) -> list[str]:
    """Mark names that others before them differ from in case alone."""
    seen: set[str] = set()
    found = []
    for name in names:
        while name.lower() in seen:
            name += MARK
        seen.add(name.lower())
        found.append(name)
    return found
