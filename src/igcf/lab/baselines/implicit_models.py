"""Models of the package `implicit` as baselines: `implicit-cosine`, `-tfidf`, `-bm25` and `-bpr`."""

import warnings
from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import Any

import numpy as np
import scipy.sparse as sp

from igcf.errors import ConfigError
from igcf.lab.baselines.history import HistoryLearner, Scores, training_successes
from igcf.lab.baselines.task import Method, Settings, Task
from igcf.threads import at_most_threads

Fit = Callable[[Task, Settings, np.random.Generator], HistoryLearner]


def implicit_module(name: str) -> Any:
    """Import a module of the package."""
    try:
        with at_most_threads(1):
            return import_module(f"implicit.{name}")
    except ImportError as error:
        raise ConfigError(
            f"implicit.{name} needs the package implicit; install it with `pip install 'igcf[lab]'`"
        ) from error


def fit_neighbours(kind: str, task: Task, settings: Settings, rng: np.random.Generator) -> HistoryLearner:
    """Fit a model of similar items; a user's scores are the sums over what satisfied them."""
    model = getattr(implicit_module("nearest_neighbours"), kind)(**settings, num_threads=1)
    similarity = sp.csr_array(_fitted(model, task).similarity)
    return HistoryLearner(lambda successes: (successes @ similarity).toarray(), task)


def fit_factors(module: str, kind: str, task: Task, settings: Settings, rng: np.random.Generator) -> HistoryLearner:
    """Fit a factor model; a user who is not in it is the mean of what satisfied them."""
    cls = getattr(implicit_module(module), kind)
    model = _fitted(cls(**settings, num_threads=1, random_state=int(rng.integers(2**31))), task)
    items = np.asarray(model.item_factors, dtype=np.float64)

    def scores(successes: sp.csr_array) -> Any:
        return (successes @ items) / np.maximum(successes.sum(axis=1), 1.0)[:, None] @ items.T

    found: Scores = scores
    return HistoryLearner(found, task)


def _fitted(model: Any, task: Task) -> Any:
    with at_most_threads(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the package warns of a conversion of its own
        model.fit(sp.csr_matrix(training_successes(task).astype(np.float32)), show_progress=False)
    return model


def _method(name: str, fit: Fit, defaults: Settings, grid: Settings) -> Method:
    how = {"uses_logged": True, "needs_logged": True, "is_refitted": True, "packages": ("implicit",)}
    return Method(f"implicit-{name}", fit, lambda learner, settings: learner, defaults, grid=grid, **how)  # type: ignore[arg-type]


IMPLICIT = (
    *(
        _method(name, partial(fit_neighbours, kind), {"K": 100}, {"K": (20, 50, 100, 200)})
        for name, kind in (("cosine", "CosineRecommender"), ("tfidf", "TFIDFRecommender"), ("bm25", "BM25Recommender"))
    ),
    _method(
        "bpr",
        partial(fit_factors, "bpr", "BayesianPersonalizedRanking"),
        {"factors": 63, "learning_rate": 0.05, "regularization": 0.01, "iterations": 100},
        {"factors": (31, 63, 127), "regularization": (0.001, 0.01, 0.1)},
    ),
)
"""Methods by the package's models; `als` folds users in exactly and lives in als.py."""
