"""Implicit matrix factorisation by alternating least squares: `als` by the package `implicit`, and `ials`."""

from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.linalg import cho_factor, cho_solve

from igcf.arrays import FloatArray
from igcf.lab.baselines.history import HistoryLearner, training_successes
from igcf.lab.baselines.implicit_models import implicit_module
from igcf.lab.baselines.task import Settings, Task
from igcf.threads import at_most_threads


def fit_als(task: Task, settings: Settings, rng: np.random.Generator) -> HistoryLearner:
    """Learn item factors (Hu, Koren and Volinsky, 2008) from the training users; others are folded in exactly."""
    package = implicit_module("als")
    successes = training_successes(task).astype(np.float32)
    with at_most_threads(1):
        model = package.AlternatingLeastSquares(**settings, num_threads=1, random_state=int(rng.integers(2**31)))
        model.fit(sp.csr_matrix(successes), show_progress=False)
    items = np.asarray(model.item_factors, dtype=np.float64)
    penalty, alpha = settings["regularization"], settings["alpha"]
    return HistoryLearner(lambda liked: als_users(items, liked, penalty, alpha) @ items.T, task)


def als_users(items: FloatArray, successes: sp.csr_array, penalty: float, alpha: float) -> FloatArray:
    """Return the factors of users outside the training data, shape (users, factors).

    A user's u minimises alpha sum_liked (1 - u.v)^2 + sum_others (u.v)^2 + penalty |u|^2.
    """
    return solved_rows(items, successes, Weights(1.0, alpha - 1.0, alpha), np.full(successes.shape[0], penalty))


def fit_ials(task: Task, settings: Settings, rng: np.random.Generator) -> HistoryLearner:
    """Learn with penalties that grow with the number of pairs (Rendle et al., 2022).

    The objective is sum_liked (1 - u.v)^2 + unobserved sum_all (u.v)^2 + penalty (sum_u n_u |u|^2 + sum_v n_v |v|^2)
    with n_u = (likes of u + unobserved x items)^exponent, n_v alike.
    """
    by_user = training_successes(task)
    by_item = sp.csr_array(by_user.T)
    dim = settings["factors"]
    items = rng.normal(0.0, 0.1 / np.sqrt(dim), (by_user.shape[1], dim))
    for _ in range(settings["iterations"]):
        items = ials_rows(ials_rows(items, by_user, settings), by_item, settings)
    return HistoryLearner(lambda liked: ials_rows(items, liked, settings) @ items.T, task)


def ials_rows(fixed: FloatArray, successes: sp.csr_array, settings: Settings) -> FloatArray:
    """Return the best vectors of one side given those of the other, shape (rows, factors)."""
    unobserved = settings["unobserved"]
    frequencies = (np.diff(successes.indptr) + unobserved * len(fixed)) ** settings["exponent"]
    return solved_rows(fixed, successes, Weights(unobserved, 1.0, 1.0), settings["regularization"] * frequencies)


class Weights(NamedTuple):
    """Weights of squares: of all pairs, further of liked ones, and of the target 1 of liked ones."""

    everywhere: float
    liked: float
    target: float


def solved_rows(fixed: FloatArray, successes: sp.csr_array, weights: Weights, penalties: FloatArray) -> FloatArray:
    """Solve the weighted least squares of every row of `successes` given the vectors of its columns."""
    everything, identity = weights.everywhere * (fixed.T @ fixed), np.eye(fixed.shape[1])
    found = np.zeros((successes.shape[0], fixed.shape[1]))
    for row in range(len(found)):
        own = fixed[successes.indices[successes.indptr[row] : successes.indptr[row + 1]]]
        if len(own):
            gram = everything + penalties[row] * identity + weights.liked * own.T @ own
            found[row] = cho_solve(cho_factor(gram), weights.target * own.sum(axis=0))
    return found
