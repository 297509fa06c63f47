"""What the graph model is trained on: pairs with rewards, and the graph."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from igcf.arrays import Float32Array, IntArray
from igcf.config import GraphConfig
from igcf.graph import Propagation
from igcf.training.variational.pairs import Pairs


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
