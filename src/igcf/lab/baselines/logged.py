"""Learners that can be told what a user did before the first round, and those that score by nothing else."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from igcf.arrays import BoolArray, Float32Array, FloatArray, IntArray
from igcf.lab.baselines.simple import satisfied_counts
from igcf.lab.baselines.task import Task
from igcf.online import top_k

Scores = Callable[[sp.csr_array], FloatArray]
"""Function from the successes of some users, (users, items) of ones, to a score of every item for each of them."""


@dataclass(frozen=True, eq=False)
class Logged:
    """Reactions of one user that a log holds: every item that is not among them drew none."""

    rows: IntArray
    values: Float32Array


class HistoryLearner:
    """Learner that scores all items by those that satisfied the user, whether they were logged or shown.

    Whoever was satisfied by nothing yet is shown what satisfied most training users.
    """

    def __init__(self, scores: Scores, task: Task) -> None:
        self._scores, self._satisfied = scores, task.satisfied
        self._popular = satisfied_counts(task)

    def begin(self, n_users: int, *, rng: np.random.Generator) -> None:
        """Forget everybody; random numbers for ties come from `rng`."""
        self._rng = rng
        self._successes = np.zeros((n_users, len(self._popular)), dtype=np.float32)

    def know(self, logged: Sequence[Logged]) -> None:
        """Take over what each user did before."""
        for user, each in enumerate(logged):
            self._successes[user, each.rows[each.values >= self._satisfied]] = 1.0

    def select(self, available: BoolArray, k: int) -> IntArray:
        """Select the items with the largest scores."""
        scores = np.array(self._scores(sp.csr_array(self._successes)), dtype=np.float64)
        scores[~self._successes.any(axis=1)] = self._popular
        return top_k(scores, available, k, rng=self._rng)

    def observe(self, rows: IntArray, values: Float32Array) -> None:
        """Remember the items that satisfied."""
        users = np.arange(len(rows))[:, None]
        self._successes[users, rows] = np.where(values >= self._satisfied, 1.0, self._successes[users, rows])


def training_successes(task: Task) -> sp.csr_array:
    """Return training users x items, 1 where the item satisfied the user and nothing stored elsewhere."""
    matrix = task.train.matrix((task.train.values >= task.satisfied).astype(np.float64))
    matrix.eliminate_zeros()
    return matrix
