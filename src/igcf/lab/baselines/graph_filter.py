"""`graph-filter`: a closed-form polynomial of the normalised adjacency plus an ideal low-pass."""

import numpy as np

from igcf.graph.filter import FilterSettings, fit_graph_filter
from igcf.lab.baselines.logged import HistoryLearner, training_successes
from igcf.lab.baselines.task import Settings, Task

DEFAULTS = {
    "user_exponent": 0.4,
    "item_exponent": 0.5,
    "rank": 256,
    "low_pass": 0.2,
    "sharpening": 0.8,
    "popularity": 0.1,
}
GRID = {
    "user_exponent": (0.3, 0.5),
    "item_exponent": (0.4, 0.5),
    "rank": (64, 128, 256, 512),
    "low_pass": (0.1, 0.2, 0.4),
    "sharpening": (0.0, 0.5, 0.8),
    "popularity": (0.0, 0.1),
}


def fit_filter(task: Task, settings: Settings, rng: np.random.Generator) -> HistoryLearner:
    """Filter the graph of the training users' successes; other users enter by their own successes."""
    fitted = fit_graph_filter(training_successes(task), FilterSettings(**settings), rng=rng)
    return HistoryLearner(lambda successes: fitted.scores(successes).astype(np.float64), task)
