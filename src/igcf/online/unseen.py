"""Which items a session may still show: those not reacted to and not put aside."""

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
        self.n_left += int(is_left) - int(self._mask[0, row])
        self._mask[0, row] = is_left

    def extend(self, n_new: int) -> None:
        """Take in items that were added to the model."""
        self._mask = np.pad(self._mask, ((0, 0), (0, n_new)), constant_values=True)
        self.n_left += n_new


class FewSeen(Unseen):
    """The hidden items alone, for large catalogues: the mask is made when it is asked for."""

    def __init__(self, n_items: int, seen: list[int] | IntArray) -> None:
        self._n_items, self._hidden = n_items, set(map(int, seen))

    @property
    def n_left(self) -> int:  # type: ignore[override]
        """Number of items that are left."""
        return self._n_items - len(self._hidden)

    def mask(self) -> BoolArray:
        """Return which items are left, (1, items)."""
        mask = np.ones((1, self._n_items), dtype=np.bool_)
        mask[0, list(self._hidden)] = False
        return mask

    def set(self, row: int, is_left: bool) -> None:
        """Show or hide an item."""
        if is_left:
            self._hidden.discard(row)
        else:
            self._hidden.add(row)

    def extend(self, n_new: int) -> None:
        """Take in items that were added to the model."""
        self._n_items += n_new
