"""The package `implicit`, and its nearest neighbours as a baseline: `implicit-bm25`."""

import warnings
from importlib import import_module
from typing import Any

import numpy as np
import scipy.sparse as sp

from igcf.errors import ConfigError
from igcf.lab.baselines.history import HistoryLearner, training_successes
from igcf.lab.baselines.task import Settings, Task
from igcf.threads import at_most_threads


def implicit_module(name: str) -> Any:
    """Import a module of the package."""
    try:
        with at_most_threads(1):
            return import_module(f"implicit.{name}")
    except ImportError as error:
        raise ConfigError(
            f"implicit.{name} needs the package implicit; install it with `pip install 'igcf[lab]'`"
        ) from error


def fit_bm25(task: Task, settings: Settings, rng: np.random.Generator) -> HistoryLearner:
    """Fit a model of similar items; a user's scores are the sums over what satisfied them."""
    model = implicit_module("nearest_neighbours").BM25Recommender(**settings, num_threads=1)
    with at_most_threads(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the package warns of a conversion of its own
        model.fit(sp.csr_matrix(training_successes(task).astype(np.float32)), show_progress=False)
    similarity = sp.csr_array(model.similarity)
    return HistoryLearner(lambda successes: (successes @ similarity).toarray(), task)
