"""`als`: implicit matrix factorisation (Hu, Koren and Volinsky, 2008), trained by the package `implicit`."""

from importlib import import_module
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.linalg import cho_factor, cho_solve

from igcf.arrays import FloatArray
from igcf.errors import ConfigError
from igcf.lab.baselines.logged import HistoryLearner, training_successes
from igcf.lab.baselines.task import Settings, Task
from igcf.threads import at_most_threads

DEFAULTS = {"factors": 64, "regularization": 20.0, "alpha": 5.0, "iterations": 12}
GRID = {"factors": (32, 128, 256), "regularization": (20.0, 60.0, 150.0), "alpha": (3.0, 6.0, 10.0, 20.0)}


def fit_als(task: Task, settings: Settings, rng: np.random.Generator) -> HistoryLearner:
    """Learn item factors from the successes of the training users; others are folded in exactly."""
    package = _implicit()
    successes = training_successes(task).astype(np.float32)
    with at_most_threads(1):
        model = package.AlternatingLeastSquares(**settings, num_threads=1, random_state=int(rng.integers(2**31)))
        model.fit(sp.csr_matrix(successes), show_progress=False)
    items = np.asarray(model.item_factors, dtype=np.float64)
    penalty, alpha = settings["regularization"], settings["alpha"]
    return HistoryLearner(lambda liked: user_factors(items, liked, penalty, alpha) @ items.T, task)


def user_factors(items: FloatArray, successes: sp.csr_array, penalty: float, alpha: float) -> FloatArray:
    """Return the factors of users outside the training data, shape (users, factors).

    A user's u minimises alpha sum_liked (1 - u.v)^2 + sum_others (u.v)^2 + penalty |u|^2.
    """
    everything = items.T @ items + penalty * np.eye(items.shape[1])
    found = np.zeros((successes.shape[0], items.shape[1]))
    for user in range(len(found)):
        liked = items[successes.indices[successes.indptr[user] : successes.indptr[user + 1]]]
        if len(liked):
            gram = everything + (alpha - 1.0) * liked.T @ liked
            found[user] = cho_solve(cho_factor(gram), alpha * liked.sum(axis=0))
    return found


def _implicit() -> Any:
    try:
        with at_most_threads(1):
            return import_module("implicit.als")
    except ImportError as error:
        raise ConfigError("als needs the package implicit; install it with `pip install igcf[bench]`") from error
