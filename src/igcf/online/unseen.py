"""Which items a session may still show: those not reacted to and not put aside."""

import threading

import numpy as np

from igcf.arrays import BoolArray, IntArray


class Unseen:
    """A mask of all items, which is kept: asked for at no cost."""

    def __init__(self, n_items: int, seen: list[int] | IntArray) -> None:
        self._mask: BoolArray = np.ones((1, n_items), dtype=np.bool_)
        self._mask[0, seen] = False
        self.n_left = int(np.count_nonzero(self._mask))

    def mask(self) -> BoolArray:
        """Return which items are left, (1, items), not to be written to."""
        return self._mask

    def set(self, row: int, is_left: bool) -> None:
        """Show or hide an item."""
        if self._mask.item(0, row) != is_left:
            self._mask[0, row] = is_left
            self.n_left += 1 if is_left else -1

    def extend(self, n_new: int) -> None:
        """Take in items that were added to the model."""
        self._mask = np.pad(self._mask, ((0, 0), (0, n_new)), constant_values=True)
        self.n_left += n_new


class FewSeen(Unseen):
    """The hidden items alone, for large catalogues; the mask is one per thread, adapted when it is asked for."""

    def __init__(self, n_items: int, seen: list[int] | IntArray) -> None:
        self._n_items, self._hidden = n_items, set(map(int, seen))

    @property
    def n_left(self) -> int:  # type: ignore[override]
        """Number of items that are left."""
        return self._n_items - len(self._hidden)

    def mask(self) -> BoolArray:
        """Return which items are left, (1, items), until another session is asked in this thread."""
        return _scratch.mask_without(self._hidden, self._n_items)

    def set(self, row: int, is_left: bool) -> None:
        """Show or hide an item."""
        if is_left:
            self._hidden.discard(row)
        else:
            self._hidden.add(row)

    def extend(self, n_new: int) -> None:
        """Take in items that were added to the model."""
        self._n_items += n_new


class _Scratch(threading.local):
    """A mask per thread: to make one of a million items for every answer takes as long as to choose the items."""

    def __init__(self) -> None:
        self._mask: BoolArray = np.ones((1, 0), dtype=np.bool_)
        self._hidden: list[int] = []

    def mask_without(self, hidden: set[int], n_items: int) -> BoolArray:
        """Return a mask of `n_items` without those hidden."""
        if self._mask.shape[1] != n_items:
            self._mask, self._hidden = np.ones((1, n_items), dtype=np.bool_), []
        self._mask[0, self._hidden] = True
        self._hidden = list(hidden)
        self._mask[0, self._hidden] = False
        return self._mask


_scratch = _Scratch()
