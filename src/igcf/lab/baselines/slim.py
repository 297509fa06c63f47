"""`slim`: sparse linear methods, a non-negative elastic net per item (Ning and Karypis, 2011)."""

# mypy: disable-error-code="untyped-decorator"

import numpy as np
import scipy.sparse as sp
from numba import njit

from igcf.arrays import FloatArray, IntArray
from igcf.errors import ConfigError
from igcf.lab.baselines.history import HistoryLearner, training_successes, weighted
from igcf.lab.baselines.task import Settings, Task

TOLERANCE = 1e-4
"""Change of a weight below which a sweep has changed nothing."""
FIRST = 100
"""Number of similar items whose weights are found first: most of the others then stay zero."""


def fit_slim(task: Task, settings: Settings, rng: np.random.Generator) -> HistoryLearner:
    """Regress every item on all others from the successes of the training users."""
    return weighted(slim_weights(training_successes(task), settings["l1"], settings["l2"]), task)


def slim_weights(successes: sp.csr_array, l1: float, l2: float, tolerance: float = TOLERANCE) -> FloatArray:
    """Return the B >= 0 of zero diagonal that minimises |Y - Y B|^2 / 2 + l2 |B|^2 / 2 + l1 |B|_1."""
    if not (l1 >= 0 and l2 > 0):
        raise ConfigError(f"slim needs l1 of at least 0 and a positive l2, got {l1} and {l2}")
    gram = (successes.T @ successes).toarray()
    return np.asarray(_columns(gram, l1, l2, tolerance).T)


@njit(nogil=True, cache=True)
def _columns(gram: FloatArray, l1: float, l2: float, tolerance: float) -> FloatArray:
    """Return B' by coordinate descent: sweeps over the non-zero weights of an item until they rest, then over all."""
    n = len(gram)
    found = np.zeros((n, n))
    scale = np.diag(gram) + l2
    for item in range(n):
        weights = found[item]
        rest = gram[item] - l1  # what each weight has still to explain, its own ridge penalty aside
        likely = gram[item] / np.sqrt(scale)
        likely[item] = 0.0
        least = np.partition(likely, max(n - FIRST, 0))[max(n - FIRST, 0)]
        active = np.flatnonzero((likely >= least) & (likely > 0.0))
        changed = np.inf
        while changed >= tolerance:
            _settle(gram, weights, rest, scale, active, tolerance)
            changed = _sweep(gram, item, weights, rest, scale)
            active = np.flatnonzero(weights)
    return found


@njit(nogil=True, cache=True)
def _sweep(gram: FloatArray, item: int, weights: FloatArray, rest: FloatArray, scale: FloatArray) -> float:
    """Set all weights of an item once, in place; returns the largest change."""
    changed = 0.0
    for other in range(len(weights)):
        if other == item or (weights[other] == 0.0 and rest[other] <= 0.0):
            continue
        step = max(0.0, (rest[other] + gram[other, other] * weights[other]) / scale[other]) - weights[other]
        if step != 0.0:
            changed = max(changed, abs(step))
            weights[other] += step
            _subtract(rest, step, gram[other])
    return changed


@njit(nogil=True, cache=True)
def _settle(
    gram: FloatArray, weights: FloatArray, rest: FloatArray, scale: FloatArray, active: IntArray, tolerance: float
) -> None:
    """Sweep over the active weights alone until they rest, in place."""
    k = len(active)
    own = np.empty((k, k))
    left, before = np.empty(k), np.empty(k)
    for a in range(k):
        left[a], before[a] = rest[active[a]], weights[active[a]]
        for b in range(k):
            own[a, b] = gram[active[a], active[b]]
    changed = np.inf
    while changed >= tolerance:
        changed = 0.0
        for a in range(k):
            old = weights[active[a]]
            new = max(0.0, (left[a] + own[a, a] * old) / scale[active[a]])
            if new != old:
                changed = max(changed, abs(new - old))
                _subtract(left, new - old, own[a])
                weights[active[a]] = new
    for a in range(k):
        step = weights[active[a]] - before[a]
        if step != 0.0:
            _subtract(rest, step, gram[active[a]])


@njit(nogil=True, cache=True)
def _subtract(total: FloatArray, factor: float, row: FloatArray) -> None:
    """Compute `total -= factor * row` without a temporary."""
    for place in range(len(total)):
        total[place] -= factor * row[place]
