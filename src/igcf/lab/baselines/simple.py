"""Baselines that learn nothing from the user: chance and popularity."""

import numpy as np

from igcf.arrays import BoolArray, Float32Array, FloatArray, IntArray
from igcf.errors import DataError
from igcf.lab.baselines.task import Task
from igcf.online import top_k


class RandomItems:
    """Learner that shows every item that is left with the same probability."""

    def begin(self, n_users: int, *, rng: np.random.Generator) -> None:
        """Start a session; random numbers come from `rng`."""
        self._rng = rng

    def select(self, available: BoolArray, k: int) -> IntArray:
        """Select the items with the largest random scores."""
        return top_k(self._rng.random(available.shape), available, k, rng=self._rng)

    def know(self, logged: object) -> None:
        """Learn nothing from what a user did before."""

    def observe(self, rows: IntArray, values: Float32Array) -> None:
        """Learn nothing."""


class RankedItems:
    """Learner that shows everybody the same list, largest count first; equal counts in the order of the catalogue."""

    def __init__(self, counts: FloatArray) -> None:
        order = np.argsort(-counts, kind="stable")
        self._score = np.empty(len(counts))
        self._score[order] = -np.arange(len(counts), dtype=np.float64)

    def begin(self, n_users: int, *, rng: np.random.Generator) -> None:
        """Start a session; random numbers come from `rng`."""
        self._rng = rng

    def select(self, available: BoolArray, k: int) -> IntArray:
        """Select the next `k` items of the list."""
        return top_k(np.broadcast_to(self._score, available.shape), available, k, rng=self._rng)

    def know(self, logged: object) -> None:
        """Learn nothing from what a user did before."""

    def observe(self, rows: IntArray, values: Float32Array) -> None:
        """Learn nothing."""


def interaction_counts(task: Task) -> FloatArray:
    """Count the training users who reacted to each item at all."""
    return np.bincount(task.train.item_idx, minlength=task.train.n_items).astype(np.float64)


def recent_counts(task: Task, days: float) -> FloatArray:
    """Count the training users who were satisfied with each item in the last days of the log."""
    train = task.train
    if train.timestamps is None:
        raise DataError(f"{train.name} has no timestamps; pop-recent needs them")
    is_recent = train.timestamps >= train.timestamps.max() - days * 86_400
    happy = (train.values >= task.satisfied) & is_recent
    return np.bincount(train.item_idx[happy], minlength=train.n_items).astype(np.float64)


def satisfied_counts(task: Task) -> FloatArray:
    """Count the training users who were satisfied with each item."""
    happy = task.train.values >= task.satisfied
    return np.bincount(task.train.item_idx[happy], minlength=task.train.n_items).astype(np.float64)
