"""Training data of one worker: its users' pairs with rewards, and the graph of everybody."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from igcf.arrays import Float32Array, IntArray
from igcf.config import GraphConfig
from igcf.graph import Propagation
from igcf.training.variational.pairs import Pairs


@dataclass(frozen=True, eq=False)
class TrainingPairs:
    """User-item pairs of some or all users with their rewards, and the graph of all users and items."""

    n_users: int
    n_items: int
    user_idx: IntArray
    """User of each pair, counted from the first of `users`."""
    item_idx: IntArray
    """Item row of each pair."""
    targets: Float32Array
    """Reward of each pair."""
    propagation: Propagation
    fingerprint: str
    """Hash of the log, so that a checkpoint is only continued on the data that it began with."""
    users: range
    """Rows of the users whose pairs these are."""
    n_pairs: int
    """Number of pairs of all users together."""
    rows: IntArray | None = None
    """Position of each pair among those of all users, ascending; None where these are all pairs."""

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
            yield self._pairs(self._own(order[start : start + config.batch_size]))

    def for_users(self, users: range) -> "TrainingPairs":
        """Return the same graph with the pairs of a range of users only."""
        if users == self.users:
            return self
        rows = np.flatnonzero((self.user_idx >= users.start) & (self.user_idx < users.stop))
        return replace(
            self,
            user_idx=self.user_idx[rows] - np.int32(users.start),
            item_idx=self.item_idx[rows],
            targets=self.targets[rows],
            users=users,
            rows=rows,
        )

    def _own(self, batch: IntArray) -> IntArray:
        """Return which of these pairs are in a batch of all users' pairs."""
        if self.rows is None:
            return batch
        place = np.searchsorted(self.rows, batch)
        place, batch = place[place < len(self.rows)], batch[place < len(self.rows)]
        own: IntArray = place[self.rows[place] == batch]
        return own

    def _pairs(self, rows: slice | IntArray) -> Pairs:
        return Pairs.from_arrays(
            len(self.users), self.n_items, self.user_idx[rows], self.item_idx[rows], self.targets[rows]
        )
