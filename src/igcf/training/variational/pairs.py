"""User-item pairs with rewards: all that the graph model is trained on, and its batches."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.sparse as sp

from igcf.arrays import AnyFloatArray, Float32Array, IntArray
from igcf.config import GraphConfig
from igcf.graph import Propagation


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


@dataclass(frozen=True, eq=False)
class TrainingPairs:
    """User-item pairs with their rewards, and the graph of all users and items."""

    n_users: int
    n_items: int
    user_idx: IntArray
    """User row of each pair."""
    item_idx: IntArray
    """Item row of each pair."""
    targets: Float32Array
    """Reward of each pair."""
    propagation: Propagation
    fingerprint: str
    """Hash of the log, so that a checkpoint is only continued on the data that it began with."""

    @property
    def n_pairs(self) -> int:
        """Number of pairs."""
        return len(self.targets)

    @property
    def n_nodes(self) -> int:
        """Number of users and items together."""
        return self.n_users + self.n_items

    @cached_property
    def all_pairs(self) -> Pairs:
        """Return all pairs as one batch."""
        return self._pairs(slice(None))

    def batches(self, config: GraphConfig, epoch: int) -> Iterator[Pairs]:
        """Yield the batches of one epoch; their order depends on the seed and the epoch only."""
        if config.batch_size is None:
            yield self.all_pairs
            return
        order = np.arange(self.n_pairs)
        if config.shuffle:
            order = np.random.default_rng([config.seed, epoch]).permutation(len(order))
        for start in range(0, len(order), config.batch_size):
            yield self._pairs(order[start : start + config.batch_size])

    def _pairs(self, rows: slice | IntArray) -> Pairs:
        return Pairs.from_arrays(
            self.n_users, self.n_items, self.user_idx[rows], self.item_idx[rows], self.targets[rows]
        )
