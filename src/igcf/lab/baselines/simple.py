"""Baselines that learn nothing from the user: chance, popularity, and the share of likes."""

import numpy as np

from igcf.arrays import BoolArray, Float32Array, FloatArray, IntArray
from igcf.errors import DataError
from igcf.lab.baselines.task import Task
from igcf.online import top_k

SHARE_WEIGHT = 5.0  # reactions of the population's own share of likes that are added to every item's


class RankedItems:
    """Learner that shows everybody the same list, largest count first; equal counts in the order of the catalogue."""

    def __init__(self, counts: FloatArray) -> None:
        order = np.argsort(-counts, kind="stable")
        self._score = np.empty(len(counts))
        self._score[order] = -np.arange(len(counts), dtype=np.float64)

    def begin(self, n_users: int, *, rng: np.random.Generator) -> None:
        """Start a session; random numbers come from `rng`."""
        self._rng = rng

    def know(self, logged: object) -> None:
        """Learn nothing from what a user did before."""

    def select(self, available: BoolArray, k: int) -> IntArray:
        """Select the next `k` items of the list."""
        return top_k(np.broadcast_to(self._score, available.shape), available, k, rng=self._rng)

    def observe(self, rows: IntArray, values: Float32Array) -> None:
        """Learn nothing."""


class RandomItems(RankedItems):
    """Learner that shows every item that is left with the same probability."""

    def __init__(self) -> None:
        """Need no counts."""

    def select(self, available: BoolArray, k: int) -> IntArray:
        """Select the items with the largest random scores."""
        return top_k(self._rng.random(available.shape), available, k, rng=self._rng)


def interaction_counts(task: Task) -> FloatArray:
    """Count the training users who reacted to each item at all."""
    return np.bincount(task.train.item_idx, minlength=task.train.n_items).astype(np.float64)


def satisfied_counts(task: Task, days: float | None = None) -> FloatArray:
    """Count the training users who were satisfied with each item, ever or in the last days of the log."""
    train = task.train
    happy = train.values >= task.satisfied
    if days is not None:
        if train.timestamps is None:
            raise DataError(f"{train.name} has no timestamps; pop-recent needs them")
        happy &= train.timestamps >= train.timestamps.max() - days * 86_400
    return np.bincount(train.item_idx[happy], minlength=train.n_items).astype(np.float64)


def like_shares(task: Task) -> FloatArray:
    """Return the share of likes among the reactions to each item, drawn toward that of all reactions."""
    train = task.train
    is_liked = (train.values >= task.satisfied).astype(np.float64)
    count = np.bincount(train.item_idx, minlength=train.n_items)
    likes = np.bincount(train.item_idx, is_liked, minlength=train.n_items)
    return np.asarray((likes + SHARE_WEIGHT * is_liked.mean()) / (count + SHARE_WEIGHT))
