"""Columns of a table in memory: numbers as they are, text as places in a list of different words."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from igcf.arrays import BoolArray, IntArray

Kind = Literal["text", "whole", "float", "time", "truth", "list"]


@dataclass(frozen=True, eq=False)
class Column:
    """Entries of one kind, some of which may be missing."""

    name: str
    kind: Kind
    entries: npt.NDArray[Any]
    """text: row of `words` (int32); whole: int64; float: float64; time: microseconds since 1970; truth: bool; list:
    Python lists of text. What stands where an entry is missing has no meaning."""
    missing: BoolArray | None = None
    """None: no entry is missing."""
    words: Sequence[str] = ()
    """The different words of a column of text, in the order of their characters."""

    def __len__(self) -> int:
        return len(self.entries)

    @property
    def is_missing(self) -> BoolArray:
        """Tell of each entry whether it is missing."""
        return np.zeros(len(self), dtype=np.bool_) if self.missing is None else self.missing

    @property
    def n_missing(self) -> int:
        """Count the missing entries."""
        return 0 if self.missing is None else int(self.missing.sum())

    def __getitem__(self, row: int) -> Any:
        """Return one entry as a Python object."""
        if self.missing is not None and self.missing[row]:
            return None
        entry = self.entries[row]
        return self.words[int(entry)] if self.kind == "text" else entry.item() if hasattr(entry, "item") else entry

    def to_list(self) -> list[Any]:
        """Return all entries as Python objects."""
        found: list[Any]
        if self.kind == "text":
            words = np.array([*self.words, None], dtype=object)
            found = words[np.where(self.is_missing, len(self.words), self.entries)].tolist()
        else:
            found = self.entries.tolist()
            for row in np.flatnonzero(self.is_missing).tolist():
                found[row] = None
        return found

    def taken(self, rows: BoolArray | IntArray | slice) -> "Column":
        """Return some of the entries."""
        return replace(self, entries=self.entries[rows], missing=None if self.missing is None else self.missing[rows])

    def filled(self, value: float) -> npt.NDArray[Any]:
        """Return the entries with a value in the place of missing ones."""
        return self.entries if self.missing is None else np.where(self.missing, value, self.entries)


class Table:
    """Columns of equal length, by name."""

    def __init__(self, columns: Iterable[Column], n_rows: int | None = None) -> None:
        self._columns = {column.name: column for column in columns}
        lengths = {len(column) for column in self._columns.values()}
        self.n_rows = n_rows if n_rows is not None else lengths.pop() if lengths else 0

    def __len__(self) -> int:
        return self.n_rows

    def __iter__(self) -> Iterator[Column]:
        return iter(self._columns.values())

    def __getitem__(self, name: str) -> Column:
        return self._columns[name]

    @property
    def names(self) -> list[str]:
        """Names of the columns."""
        return list(self._columns)

    def head(self, n: int) -> "Table":
        """Return the first rows."""
        return Table((column.taken(slice(0, n)) for column in self), min(n, self.n_rows))

    def filtered(self, mask: BoolArray) -> "Table":
        """Return the rows where `mask` holds."""
        return Table((column.taken(mask) for column in self), int(mask.sum()))

    def with_column(self, column: Column) -> "Table":
        """Return the table with one more column, or with another one in the place of that of its name."""
        return Table((self._columns | {column.name: column}).values(), self.n_rows)


def column_of(name: str, entries: Any) -> Column:
    """Make a column of an array or of Python objects: numbers, text, dates, lists; a mix of them is text."""
    array = entries if isinstance(entries, np.ndarray) else None
    if array is None or array.dtype == object:
        return _of_objects(name, entries.tolist() if array is not None else list(entries))
    missing: BoolArray | None = None
    if isinstance(array, np.ma.MaskedArray):
        missing, array = np.ma.getmaskarray(array), np.ma.getdata(array)
        missing = missing if missing.any() else None
    if array.dtype.kind == "M":
        absent = np.isnat(array)
        times = array.astype("datetime64[us]").astype(np.int64)
        return Column(name, "time", times, absent if absent.any() else missing)
    if array.dtype.kind == "b":
        return Column(name, "truth", array, missing)
    if array.dtype.kind == "f":
        return Column(name, "float", array.astype(np.float64, copy=False), missing)
    if array.dtype.kind in "iu":
        if array.dtype == np.uint64 and len(array) and array.max() > np.iinfo(np.int64).max:
            unique, codes = np.unique(array, return_inverse=True)
            return text_column(name, list(map(str, unique.tolist())), codes.astype(np.int32), missing)
        return Column(name, "whole", array.astype(np.int64, copy=False), missing)
    return _of_objects(name, array.tolist())


def _of_objects(name: str, entries: list[Any]) -> Column:
    missing = np.fromiter((entry is None for entry in entries), dtype=np.bool_, count=len(entries))
    kinds = {type(entry) for entry in entries if entry is not None}
    if kinds and kinds <= {list, tuple}:
        lists = np.empty(len(entries), dtype=object)
        lists[:] = [list(entry or ()) for entry in entries]
        return Column(name, "list", lists, missing if missing.any() else None)
    if kinds and str not in kinds:
        known = [entry for entry in entries if entry is not None]
        try:
            kind = "datetime64[us]" if kinds <= {datetime, date} else np.int64 if kinds == {int} else None
            array = np.array(known, dtype=kind)
        except (ValueError, OverflowError):  # of unequal lengths, or too large
            array = np.empty(0, dtype=object)
        if array.dtype.kind in "biufM" and array.ndim == 1:
            column = column_of(name, array)
            if not missing.any():
                return column
            spread = np.zeros(len(entries), dtype=column.entries.dtype)
            spread[~missing] = column.entries
            absent = missing.copy()
            absent[~missing] = column.is_missing
            return replace(column, entries=spread, missing=absent)
    places: dict[str, int] = {}
    codes = np.zeros(len(entries), dtype=np.int32)
    codes[:] = [0 if entry is None else places.setdefault(_text(entry), len(places)) for entry in entries]
    return text_column(name, list(places), codes, missing if missing.any() else None)


def _text(entry: object) -> str:
    if isinstance(entry, str):
        return str(entry)
    return entry.decode(errors="replace") if isinstance(entry, bytes) else str(entry)


def text_column(name: str, words: Sequence[str], codes: IntArray, missing: BoolArray | None = None) -> Column:
    """Make a column of text; the words may be in any order."""
    order = sorted(range(len(words)), key=words.__getitem__)
    place = np.empty(len(words) or 1, dtype=np.int32)
    place[order] = np.arange(len(words), dtype=np.int32)
    return Column(name, "text", place[codes] if len(words) else codes, missing, [words[row] for row in order])


def as_text(column: Column) -> Column:
    """Return the same entries as text."""
    if column.kind == "text":
        return column
    if column.kind == "list":
        return _of_objects(column.name, [None if entry is None else str(entry) for entry in column.to_list()])
    unique, codes = np.unique(column.entries, return_inverse=True)
    if column.kind == "time":
        words = [str(each).replace("T", " ") for each in unique.astype("datetime64[us]")]
    elif column.kind == "truth":
        words = [str(each).lower() for each in unique.tolist()]
    else:
        words = list(map(str, unique.tolist()))
    return text_column(column.name, words, codes.astype(np.int32), column.missing)


def joined(name: str, parts: Sequence[Column]) -> Column:
    """Put columns one behind the other; where their kinds differ, whole numbers become floats, and others text."""
    known = [part for part in parts if part.n_missing < len(part)]
    kinds: set[Kind] = {part.kind for part in known} or {parts[0].kind}
    missing = np.concatenate([part.is_missing for part in parts])
    absent = missing if missing.any() else None
    if kinds == {"whole", "float"}:
        kinds = {"float"}
    elif len(kinds) > 1:
        kinds = {"text"}
    (kind,) = kinds
    if kind == "text":
        texts = [
            as_text(part) if part.n_missing < len(part) else replace(part, kind="text", words=()) for part in parts
        ]
        places: dict[str, int] = {}
        codes = []
        for part in texts:
            own = np.array([places.setdefault(word, len(places)) for word in part.words] or [0], dtype=np.int32)
            codes.append(own[part.filled(0).astype(np.int64)] if part.words else np.zeros(len(part), dtype=np.int32))
        return text_column(name, list(places), np.concatenate(codes), absent)
    dtype = known[0].entries.dtype if kind != "float" and known else np.dtype(np.float64)
    entries = [part.entries if part.n_missing < len(part) else np.zeros(len(part), dtype=dtype) for part in parts]
    return Column(name, kind, np.concatenate(entries), absent)
