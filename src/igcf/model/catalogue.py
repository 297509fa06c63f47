"""The items of a model as they are described now, and which of them may be shown at a moment."""

from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import cached_property
from typing import Any, TypeVar, cast

import numpy as np

from igcf.arrays import BoolArray, IntArray
from igcf.attributes import Attributes
from igcf.errors import ModelError
from igcf.item import Item

T = TypeVar("T")
MOST_COMPILED = 1_000
"""What was computed from a catalogue and is kept with it, at most."""
COMPILED_BYTES, BYTES_PER_ITEM = 64_000_000, 24
"""Memory that this may take, about; compiled rules have some numbers and flags per item."""


class Catalogue:
    """Descriptions of items, one per row of a model; immutable, so that an answer sees exactly one state of it."""

    def __init__(
        self,
        item_ids: Sequence[str],
        titles: Sequence[str] | None = None,
        categories: Sequence[Sequence[str]] | None = None,
        attributes: Attributes | None = None,
    ) -> None:
        self.item_ids = tuple(item_ids)
        self.titles = None if titles is None else tuple(titles)
        self.categories = None if categories is None else tuple(map(tuple, categories))
        self.attributes = attributes if attributes is not None else Attributes(len(self.item_ids))
        if self.attributes.n_items != len(self.item_ids):
            raise ModelError(f"attributes has {self.attributes.n_items} items, expected {len(self.item_ids)}")
        self._mask: tuple[float, float, BoolArray | None] = (np.inf, -np.inf, None)
        self._compiled: dict[Hashable, Any] = {}

    def __len__(self) -> int:
        return len(self.item_ids)

    def item(self, row: int) -> Item:
        """Return one item as it is described."""
        return Item(
            self.item_ids[row],
            title=None if self.titles is None else self.titles[row],
            categories=() if self.categories is None else self.categories[row],
            **self.attributes.of(row),
        )

    def changed(self, items: Mapping[int, Item]) -> "Catalogue":
        """Return a catalogue in which the items at some rows are described anew."""
        if not items:
            return self
        titles, categories = self.titles, self.categories
        if titles is not None or any(item.title is not None for item in items.values()):
            titles = _replaced(titles or self.item_ids, {row: item.title or item.id for row, item in items.items()})
        if categories is not None or any(item.categories for item in items.values()):
            own = {row: tuple(item.categories) for row, item in items.items()}
            categories = _replaced(categories or ((),) * len(self), own)
        other = Catalogue(self.item_ids, titles, categories, self.attributes.replaced(items))
        other.__dict__["row_of"] = self.row_of
        if all(self._reads_alike(row, item) for row, item in items.items()):  # only what may be shown when has changed
            for name in ("labels", "category_rows"):
                other.__dict__[name] = getattr(self, name)
            other._compiled = self._compiled
        return other

    def _reads_alike(self, row: int, new: Item) -> bool:
        """Whether an item keeps all that rules and searches ask for."""
        old = self.item(row)
        title = old.title or old.id
        return (title, old.categories, old.tags, old.numbers) == (
            new.title or new.id, tuple(new.categories), tuple(new.tags), dict(new.numbers),
        )  # fmt: skip

    def appended(self, items: Sequence[Item]) -> "Catalogue":
        """Return a catalogue with further items after those it has."""
        if not items:
            return self
        n = len(self)
        ids = [*self.item_ids, *(item.id for item in items)]
        longer = Catalogue(
            ids,
            None if self.titles is None else [*self.titles, *(item.title or item.id for item in items)],
            None if self.categories is None else [*self.categories, *((),) * len(items)],
            self.attributes.taken([*range(n), *(-1,) * len(items)]),
        )
        return longer.changed({n + number: item for number, item in enumerate(items)})

    def available(self, now: float) -> BoolArray | None:
        """Return which items may be shown at `now`, (items,), not to be written to; None: all of them.

        The answer is kept until the next moment at which an item comes or goes.
        """
        since, until, mask = self._mask
        if since <= now < until:
            return mask
        columns = self.attributes
        allowed = np.ones(len(self), dtype=np.bool_)
        start, end = -np.inf, np.inf
        if columns.hidden is not None:
            allowed &= ~columns.hidden
        for times, is_past in ((columns.available_from, True), (columns.available_until, False)):
            if times is not None:
                has_passed = times <= now
                allowed &= has_passed if is_past else ~has_passed
                start = max(start, float(times[has_passed].max(initial=-np.inf)))
                end = min(end, float(times[~has_passed].min(initial=np.inf)))
        found = None if allowed.all() else allowed
        self._mask = start, end, found
        return found

    @cached_property
    def labels(self) -> dict[str, IntArray]:
        """The rows of the items that carry each category or tag, by name."""
        return _rows_by_name(self.categories, self.attributes.tags)

    @cached_property
    def category_rows(self) -> dict[str, IntArray]:
        """The rows of the items of each category, by name."""
        return _rows_by_name(self.categories)

    @cached_property
    def row_of(self) -> dict[str, int]:
        """Row of each item by its id."""
        return {item_id: row for row, item_id in enumerate(self.item_ids)}

    def labels_of(self, row: int) -> tuple[str, ...]:
        """Return categories and tags of an item, each once."""
        own = () if self.categories is None else self.categories[row]
        tags = self.attributes.tags
        return own if tags is None or not tags[row] else tuple(dict.fromkeys((*own, *tags[row])))

    def computed(self, key: Hashable, compute: Callable[[], T]) -> T:
        """Return what `compute` makes of this catalogue, which is kept under `key`; the oldest makes room."""
        if (found := self._compiled.get(key)) is None:
            found = compute()
            most = max(1, min(MOST_COMPILED, COMPILED_BYTES // (BYTES_PER_ITEM * max(1, len(self)))))
            while len(self._compiled) >= most:
                self._compiled.pop(next(iter(self._compiled)), None)
            self._compiled[key] = found
        return cast("T", found)


def _rows_by_name(*columns: Sequence[Sequence[str]] | None) -> dict[str, IntArray]:
    """Return the rows that carry each name in some of the columns, each once and in order."""
    rows: dict[str, dict[int, None]] = {}
    for column in columns:
        for row, names in enumerate(column or ()):
            for name in names:
                rows.setdefault(name, {})[row] = None
    return {name: np.array(list(own), dtype=np.int64) for name, own in rows.items()}


def _replaced(column: Sequence[T], new: Mapping[int, T]) -> tuple[T, ...]:
    return tuple(new.get(row, entry) for row, entry in enumerate(column))
