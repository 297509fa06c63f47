"""What is known of the items of a catalogue besides ids, titles and categories, as columns."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from igcf.arrays import BoolArray, FloatArray
from igcf.errors import DataError
from igcf.item import Item

Texts = tuple[str | None, ...]
Labels = tuple[tuple[str, ...], ...]
COLUMNS: dict[str, tuple[str, Any]] = {
    "tags": ("tags", ()),
    "texts": ("text", None),
    "images": ("image", None),
    "available_from": ("available_from", -np.inf),
    "available_until": ("available_until", np.inf),
    "hidden": ("hidden", False),
}
"""Columns beside the numbers: the field of an item that each holds, and the entry of an item without one."""


@dataclass(frozen=True, eq=False)
class Attributes:
    """Columns with one entry per item, in the order of the items; None where no item has that attribute."""

    n_items: int
    tags: Labels | None = None
    """Free labels of each item."""
    numbers: Mapping[str, FloatArray] = field(default_factory=dict)
    """Numbers by name, each of shape (items,); NaN where an item has none of this name."""
    texts: Texts | None = None
    """Description of each item."""
    images: Texts | None = None
    """Path or address of a picture of each item, as plain text."""
    available_from: FloatArray | None = None
    """Seconds since 1970 from which on an item may be shown, (items,); minus infinity: it always could."""
    available_until: FloatArray | None = None
    """Seconds since 1970 from which on an item is no longer shown, (items,); infinity: never."""
    hidden: BoolArray | None = None
    """Whether an item is kept out of every answer, (items,)."""

    def __post_init__(self) -> None:
        """Refuse columns of another length, and numbers that are not finite."""
        for name, column in self._columns():
            if len(column) != self.n_items:
                raise DataError(f"the column {name} has {len(column)} entries, there are {self.n_items} items")
        for name, column in self.numbers.items():
            for row in np.flatnonzero(np.isinf(column))[:1]:
                raise DataError(f"the number {name!r} of item row {row} is {column[row]}; expected a finite number")

    def _columns(self) -> Iterator[tuple[str, Any]]:
        columns = [(name, getattr(self, name)) for name in COLUMNS] + list(self.numbers.items())
        return ((name, column) for name, column in columns if column is not None)

    @classmethod
    def from_items(cls, items: Sequence[Item]) -> "Attributes":
        """Build the columns from items."""
        names = sorted({name for item in items for name in item.numbers})
        numbers = {name: np.array([item.numbers.get(name, np.nan) for item in items], dtype=float) for name in names}
        columns = {}
        for column, (name, missing) in COLUMNS.items():
            entries = [missing if (own := getattr(item, name)) is None else own for item in items]
            if any(entry != missing for entry in entries):
                columns[column] = _column(entries, missing)
        return cls(len(items), numbers=numbers, **columns)

    def of(self, row: int) -> dict[str, Any]:
        """Return the attributes of one item, under the names of `Item`."""
        numbers = {name: float(own[row]) for name, own in self.numbers.items() if not np.isnan(own[row])}
        found: dict[str, Any] = {"numbers": numbers}
        for column, (name, missing) in COLUMNS.items():
            entry = missing if (own := getattr(self, column)) is None else own[row]
            if isinstance(missing, float):
                entry = float(entry) if np.isfinite(entry) else None
            found[name] = bool(entry) if isinstance(missing, bool) else entry
        return found

    def taken(self, rows: Sequence[int]) -> "Attributes":
        """Return the columns of the items at `rows`, in this order; -1 stands for an item without attributes."""

        def taken(column: Any, missing: Any) -> Any:
            if isinstance(column, np.ndarray):
                return np.append(column, missing)[np.asarray(rows, dtype=np.int64)]
            return None if column is None else tuple(missing if row < 0 else column[row] for row in rows)

        numbers = {name: taken(column, np.nan) for name, column in self.numbers.items()}
        columns = {name: taken(getattr(self, name), missing) for name, (_, missing) in COLUMNS.items()}
        return Attributes(len(rows), numbers=numbers, **columns)

    def replaced(self, items: Mapping[int, Item]) -> "Attributes":
        """Return the columns with other items at some rows."""
        rows, new = list(items), Attributes.from_items(list(items.values()))

        def replaced(old: Any, own: Any, missing: Any) -> Any:
            if old is None and own is None:
                return None
            column = [missing] * self.n_items if old is None else list(old)
            for place, row in enumerate(rows):
                column[row] = missing if own is None else own[place]
            return _column(column, missing)

        names = dict.fromkeys((*self.numbers, *new.numbers))
        numbers = {name: replaced(self.numbers.get(name), new.numbers.get(name), np.nan) for name in names}
        columns = {
            name: replaced(getattr(self, name), getattr(new, name), missing) for name, (_, missing) in COLUMNS.items()
        }
        return Attributes(self.n_items, numbers=numbers, **columns)

    @property
    def is_empty(self) -> bool:
        """Whether no item has any attribute."""
        return next(self._columns(), None) is None


def _column(entries: Sequence[Any], missing: Any) -> Any:
    """Return entries as a column: an array where `missing` is a number, otherwise a tuple."""
    if isinstance(missing, float | bool):
        return np.array(entries, dtype=type(missing))
    return tuple(map(tuple, entries)) if missing == () else tuple(entries)
