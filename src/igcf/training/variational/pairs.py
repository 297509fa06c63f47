"""Observed user-item pairs of a training step, in the two orders that the sparse products need."""

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from igcf.arrays import AnyFloatArray, Float32Array, IntArray


@dataclass(frozen=True, eq=False)
class Pairs:
    """User-item pairs with targets, sorted by user; `by_item` holds the same pairs sorted by item."""

    indptr: IntArray
    """Start of each user's pairs, shape (users + 1,)."""
    items: IntArray
    """Item row of each pair."""
    targets: Float32Array
    """Reward of each pair."""
    item_indptr: IntArray
    """Start of each item's pairs in item order, shape (items + 1,)."""
    item_users: IntArray
    """User row of each pair in item order."""
    by_item: IntArray
    """Position in user order of each pair of the item order."""

    def __len__(self) -> int:
        return len(self.items)

    @property
    def n_users(self) -> int:
        """Number of users, including those without a pair."""
        return len(self.indptr) - 1

    @property
    def n_items(self) -> int:
        """Number of items, including those without a pair."""
        return len(self.item_indptr) - 1

    @property
    def users(self) -> IntArray:
        """Return the user row of each pair."""
        return np.repeat(np.arange(self.n_users, dtype=np.int32), np.diff(self.indptr))

    @classmethod
    def from_arrays(
        cls, n_users: int, n_items: int, user_idx: IntArray, item_idx: IntArray, targets: AnyFloatArray
    ) -> "Pairs":
        """Sort the given pairs; no pair may occur twice."""
        order = np.arange(len(user_idx), dtype=np.int32)
        rows = sp.csr_array((order, (user_idx, item_idx)), shape=(n_users, n_items))
        order = rows.data
        rows.data = np.arange(len(order), dtype=np.int32)
        columns = rows.tocsc()
        return cls(
            indptr=rows.indptr,
            items=rows.indices,
            targets=np.asarray(targets, dtype=np.float32)[order],
            item_indptr=columns.indptr,
            item_users=columns.indices,
            by_item=columns.data,
        )
