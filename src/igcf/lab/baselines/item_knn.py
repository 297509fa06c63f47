"""`item-knn`: the items that are most similar to what satisfied the user, by shrunk cosine."""

import numpy as np
import scipy.sparse as sp

from igcf.arrays import FloatArray
from igcf.errors import ConfigError
from igcf.lab.baselines.logged import HistoryLearner, training_successes
from igcf.lab.baselines.task import Settings, Task

BLOCK = 1024
"""Items whose neighbours are sought at a time."""
DEFAULTS = {"k": 100, "shrink": 10.0}
GRID = {"k": (20, 50, 100, 200, 400), "shrink": (0.0, 10.0, 50.0, 200.0)}


def fit_item_knn(task: Task, settings: Settings, rng: np.random.Generator) -> HistoryLearner:
    """Learn the neighbours of every item from the successes of the training users."""
    similarity = neighbours(training_successes(task), settings["k"], settings["shrink"])
    return HistoryLearner(lambda successes: (successes @ similarity).toarray(), task)


def neighbours(successes: sp.csr_array, k: int, shrink: float) -> sp.csr_array:
    """Return the similarities of each item (column) to its `k` most similar items, shape (items, items).

    The similarity of items that n_i and n_j users liked, and n_ij both, is n_ij / (sqrt(n_i n_j) + shrink).
    """
    if k < 1 or shrink < 0:
        raise ConfigError(f"item-knn needs k of at least 1 and shrink of at least 0, got {k} and {shrink}")
    columns, n_items = sp.csc_array(successes), successes.shape[1]
    size = np.sqrt(np.maximum(columns.power(2).sum(axis=0), 1.0))
    parts = []
    for start in range(0, n_items, BLOCK):
        own = np.arange(start, min(start + BLOCK, n_items))
        both: FloatArray = (columns.T @ columns[:, own]).toarray()
        both[own, np.arange(len(own))] = 0.0
        similarity = both / (np.outer(size, size[own]) + shrink)
        order = np.argsort(-similarity, axis=0, kind="stable")[:k]
        chosen = np.zeros(both.shape, dtype=np.bool_)
        np.put_along_axis(chosen, order, True, axis=0)
        parts.append(sp.csc_array(np.where(chosen, similarity, 0.0)))
    return sp.csr_array(sp.hstack(parts))
