"""Baselines that learn nothing from the user: chance and popularity."""

import numpy as np

from igcf.arrays import BoolArray, Float32Array, FloatArray, IntArray
from igcf.baselines.task import Task
from igcf.online import top_k


class RandomItems:
    """Every item that is left has the same chance."""

    def begin(self, n_users: int, *, rng: np.random.Generator) -> None:
        """Keep the source of chance."""
        self._rng = rng

    def select(self, available: BoolArray, k: int) -> IntArray:
        """The best of random scores."""
        return top_k(self._rng.random(available.shape), available, k, rng=self._rng)

    def observe(self, rows: IntArray, values: Float32Array) -> None:
        """Nothing is learned."""


class RankedItems:
    """The same list for everybody, most wanted first; equal counts in the order of the catalogue."""

    def __init__(self, counts: FloatArray) -> None:
        order = np.argsort(-counts, kind="stable")
        self._score = np.empty(len(counts))
        self._score[order] = -np.arange(len(counts), dtype=np.float64)

    def begin(self, n_users: int, *, rng: np.random.Generator) -> None:
        """Keep the source of chance."""
        self._rng = rng

    def select(self, available: BoolArray, k: int) -> IntArray:
        """The next `k` of the list."""
        return top_k(np.broadcast_to(self._score, available.shape), available, k, rng=self._rng)

    def observe(self, rows: IntArray, values: Float32Array) -> None:
        """Nothing is learned."""


def interaction_counts(task: Task) -> FloatArray:
    """How many training users reacted to each item at all."""
    return np.bincount(task.train.item_idx, minlength=task.train.n_items).astype(np.float64)


def satisfied_counts(task: Task) -> FloatArray:
    """How many training users were satisfied with each item."""
    happy = task.train.values >= task.satisfied
    return np.bincount(task.train.item_idx[happy], minlength=task.train.n_items).astype(np.float64)
