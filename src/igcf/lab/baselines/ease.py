"""`ease`: linear regression of every item on all others, in closed form (Steck, 2019)."""

import numpy as np
import scipy.sparse as sp
from scipy.linalg import cho_factor, cho_solve

from igcf.arrays import FloatArray
from igcf.errors import ConfigError
from igcf.lab.baselines.logged import HistoryLearner, training_successes
from igcf.lab.baselines.task import Settings, Task

DEFAULTS = {"penalty": 300.0}
GRID = {"penalty": (10.0, 30.0, 100.0, 300.0, 600.0, 1000.0, 2000.0, 4000.0, 10000.0, 30000.0)}


def fit_ease(task: Task, settings: Settings, rng: np.random.Generator) -> HistoryLearner:
    """Learn item-item weights from the successes of the training users."""
    weights = ease_weights(training_successes(task), settings["penalty"]).astype(np.float32)
    return HistoryLearner(lambda successes: np.asarray(successes @ weights), task)


def ease_weights(successes: sp.csr_array, penalty: float) -> FloatArray:
    """Return the B of zero diagonal that minimises |Y - Y B|^2 + penalty |B|^2, shape (items, items).

    With P = (Y'Y + penalty I)^-1 it is B_ij = -P_ij / P_jj off the diagonal.
    """
    if not penalty > 0:
        raise ConfigError(f"the penalty of ease must be positive, got {penalty}")
    gram = (successes.T @ successes).toarray()
    gram[np.diag_indices_from(gram)] += penalty
    inverse = cho_solve(cho_factor(gram, overwrite_a=True), np.eye(len(gram)), overwrite_b=True)
    weights = -inverse / np.diag(inverse)
    np.fill_diagonal(weights, 0.0)
    return np.asarray(weights)
