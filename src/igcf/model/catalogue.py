"""The items of a model as they are described now, and which of them may be shown at a moment."""

from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import cached_property
from typing import Any, TypeVar

import numpy as np

from igcf.arrays import BoolArray, IntArray
from igcf.attributes import Attributes
from igcf.errors import ModelError
from igcf.item import Item

T = TypeVar("T")
MOST_COMPILED = 1_000
"""What was computed from a catalogue and is kept with it, at most."""


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
        self.categories = None if categories is None else tuple(tuple(each) for each in categories)
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
        replaced = [items.get(row) for row in range(len(self))]
        fresh = Attributes.from_items([item for item in replaced if item is not None])
        place = {row: number for number, row in enumerate(sorted(items))}
        titles: list[str] | None = None
        if self.titles is not None or any(item.title is not None for item in items.values()):
            own = self.titles or self.item_ids
            titles = [own[row] if item is None else item.title or item.id for row, item in enumerate(replaced)]
        categories = None
        if self.categories is not None or any(item.categories for item in items.values()):
            known = self.categories or ((),) * len(self)
            categories = [known[row] if item is None else item.categories for row, item in enumerate(replaced)]
        attributes = _merged(self.attributes, fresh, place)
        return Catalogue(self.item_ids, titles, categories, attributes)

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
        rows: dict[str, list[int]] = {}
        for column in (self.categories, self.attributes.tags):
            for row, names in enumerate(column or ()):
                for name in names:
                    rows.setdefault(name, []).append(row)
        return {name: np.array(own, dtype=np.int64) for name, own in rows.items()}

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
        found = self._compiled.get(key)
        if found is None:
            found = compute()
            while len(self._compiled) >= MOST_COMPILED:
                self._compiled.pop(next(iter(self._compiled)), None)
            self._compiled[key] = found
        result: T = found
        return result


def _merged(old: Attributes, new: Attributes, place: Mapping[int, int]) -> Attributes:
    """Return `old` where the row of an item leads to a row of `new`, given by `place`, instead."""
    n = old.n_items
    from_new = new.taken([place.get(row, -1) for row in range(n)])
    from_old = old.taken([-1 if row in place else row for row in range(n)])
    is_new = np.zeros(n, dtype=np.bool_)
    is_new[list(place)] = True

    def joined(first: Any, second: Any, missing: Any) -> Any:
        if first is None and second is None:
            return None
        if isinstance(first if first is not None else second, np.ndarray):
            return np.where(is_new, missing if second is None else second, missing if first is None else first)
        pairs = zip(first or (missing,) * n, second or (missing,) * n, is_new.tolist(), strict=True)
        return tuple(theirs if chosen else ours for ours, theirs, chosen in pairs)

    names = sorted({*from_old.numbers, *from_new.numbers})
    return Attributes(
        n,
        tags=joined(from_old.tags, from_new.tags, ()),
        numbers={name: joined(from_old.numbers.get(name), from_new.numbers.get(name), np.nan) for name in names},
        texts=joined(from_old.texts, from_new.texts, None),
        images=joined(from_old.images, from_new.images, None),
        available_from=joined(from_old.available_from, from_new.available_from, -np.inf),
        available_until=joined(from_old.available_until, from_new.available_until, np.inf),
        hidden=joined(from_old.hidden, from_new.hidden, False),
    )
