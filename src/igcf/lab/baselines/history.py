"""Methods that score items by what satisfied the user before: `item-knn`, `ease` and `graph-filter`."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.linalg import cho_factor, cho_solve

from igcf.arrays import AnyFloatArray, BoolArray, Float32Array, FloatArray, IntArray
from igcf.errors import ConfigError
from igcf.graph.filter import FilterSettings, GraphFilter, fit_graph_filter
from igcf.lab.baselines.simple import satisfied_counts
from igcf.lab.baselines.task import Settings, Task
from igcf.online import top_k

Scores = Callable[[sp.csr_array], AnyFloatArray]
"""Function from the successes of some users, (users, items) of ones, to a score of every item for each of them."""
KNN_BLOCK = 1024  # number of items per search for neighbours


@dataclass(frozen=True, eq=False)
class Logged:
    """Reactions of one user that a log holds: every item that is not among them drew none."""

    rows: IntArray
    values: Float32Array


class FittedFilter(NamedTuple):
    """A graph filter with the task that it was fitted on."""

    graph_filter: GraphFilter
    task: Task


class HistoryLearner:
    """Learner that scores all items by those that satisfied the user, whether they were logged or shown.

    Users whom nothing satisfied yet are shown what satisfied most training users.
    """

    weights: Float32Array | None = None  # what the scores are multiplied by where they are positive; None: by 1

    def __init__(self, scores: Scores, task: Task) -> None:
        self._scores, self._satisfied = scores, task.satisfied
        self._popular = satisfied_counts(task)

    def begin(self, n_users: int, *, rng: np.random.Generator) -> None:
        """Start `n_users` users without a history; `rng` breaks ties."""
        self._rng = rng
        self._successes = np.zeros((n_users, len(self._popular)), dtype=np.float32)

    def know(self, logged: Sequence[Logged]) -> None:
        """Start each user from a logged record."""
        for user, each in enumerate(logged):
            self._successes[user, each.rows[each.values >= self._satisfied]] = 1.0

    def select(self, available: BoolArray, k: int) -> IntArray:
        """Select the items with the largest scores."""
        scores = np.array(self._scores(sp.csr_array(self._successes)), dtype=np.float64)
        scores[~self._successes.any(axis=1)] = self._popular
        if self.weights is not None:
            scores = np.where(scores > 0, scores * self.weights, scores)
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


def fit_item_knn(task: Task, settings: Settings, rng: np.random.Generator) -> HistoryLearner:
    """Learn the neighbours of every item from the successes of the training users."""
    similarity = item_neighbours(training_successes(task), settings["k"], settings["shrink"])
    return HistoryLearner(lambda successes: (successes @ similarity).toarray(), task)


def item_neighbours(successes: sp.csr_array, k: int, shrink: float) -> sp.csr_array:
    """Return the similarities of each item (column) to its `k` most similar items, shape (items, items).

    The similarity of items that n_i and n_j users liked, and n_ij both, is n_ij / (sqrt(n_i n_j) + shrink).
    """
    if k < 1 or shrink < 0:
        raise ConfigError(f"item-knn needs k of at least 1 and shrink of at least 0, got {k} and {shrink}")
    columns, n_items = sp.csc_array(successes), successes.shape[1]
    size = np.sqrt(np.maximum(columns.power(2).sum(axis=0), 1.0))
    parts = []
    for start in range(0, n_items, KNN_BLOCK):
        own = np.arange(start, min(start + KNN_BLOCK, n_items))
        both: FloatArray = (columns.T @ columns[:, own]).toarray()
        both[own, np.arange(len(own))] = 0.0
        similarity = both / (np.outer(size, size[own]) + shrink)
        order = np.argsort(-similarity, axis=0, kind="stable")[:k]
        chosen = np.zeros(both.shape, dtype=np.bool_)
        np.put_along_axis(chosen, order, True, axis=0)
        parts.append(sp.csc_array(np.where(chosen, similarity, 0.0)))
    return sp.csr_array(sp.hstack(parts))


def fit_ease(task: Task, settings: Settings, rng: np.random.Generator) -> HistoryLearner:
    """Regress every item on all others (Steck, 2019), from the successes of the training users."""
    return weighted(ease_weights(training_successes(task), settings["penalty"]), task)


def ease_weights(successes: sp.csr_array, penalty: float) -> FloatArray:
    """Return the B of zero diagonal that minimises |Y - Y B|^2 + penalty |B|^2, shape (items, items).

    With P = (Y'Y + penalty I)^-1 it is B_ij = -P_ij / P_jj off the diagonal.
    """
    if not penalty > 0:
        raise ConfigError(f"the penalty of ease must be positive, got {penalty}")
    inverse = _ridge_inverse((successes.T @ successes).toarray(), penalty)
    weights = -inverse / np.diag(inverse)
    np.fill_diagonal(weights, 0.0)
    return np.asarray(weights)


def _ridge_inverse(gram: FloatArray, penalty: float) -> FloatArray:
    """Return (gram + penalty I)^-1; overwrites `gram`."""
    gram[np.diag_indices_from(gram)] += penalty
    return np.asarray(cho_solve(cho_factor(gram, overwrite_a=True), np.eye(len(gram)), overwrite_b=True))


def weighted(weights: FloatArray, task: Task) -> HistoryLearner:
    """Return the learner whose scores are the successes of a user times `weights`, (items, items)."""
    single = weights.astype(np.float32)
    return HistoryLearner(lambda successes: np.asarray(successes @ single), task)


def fit_filter(task: Task, settings: Settings, rng: np.random.Generator) -> FittedFilter:
    """Normalise the graph of the training users' successes and find its leading directions."""
    return FittedFilter(fit_graph_filter(training_successes(task), FilterSettings(**settings), rng=rng), task)


def play_filter(fitted: FittedFilter, settings: Settings) -> HistoryLearner:
    """Filter by a polynomial and an ideal low-pass, in closed form."""
    own = replace(fitted.graph_filter, settings=FilterSettings(**settings))
    return HistoryLearner(own.scores, fitted.task)
