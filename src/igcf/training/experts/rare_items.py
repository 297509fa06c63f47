"""Items with too few reactions for the factor models: which they are, and what the model believes of them.

A rare item is as popular as its reactions say, and liked like the average item; its vectors say nothing about taste.
"""

from dataclasses import replace

import numpy as np

from igcf.arrays import FloatArray, IntArray
from igcf.training.experts.assembling import Experts
from igcf.training.experts.shared_log import SharedLog

MOST_ITEMS = 50_000  # items of the factor models, at most, unless the caller says how many reactions an item needs
MOST_JUDGED = 20_000
"""Items among which validation users are played and of the graph of known users, at most: the most frequent ones."""


def frequent_items(log: SharedLog, least: int | None) -> IntArray | None:
    """Return the rows of the items with at least so many reactions; None: all have.

    Without a number it is the smallest that leaves at most `MOST_ITEMS` items.
    """
    counts = log.item_counts()
    if least is None:
        least = 1
        if len(counts) > MOST_ITEMS:
            least = int(np.sort(counts)[-MOST_ITEMS - 1]) + 1
    rows = np.flatnonzero(counts >= least)
    return rows if 0 < len(rows) < np.count_nonzero(counts) else None


def judged_items(log: SharedLog, frequent: IntArray | None) -> IntArray | None:
    """Return the rows of the most frequent items; None: the log has no more than are judged."""
    if log.n_items <= MOST_JUDGED:
        return frequent
    counts = log.item_counts()
    most = np.sort(np.argsort(-counts, kind="stable")[:MOST_JUDGED])
    return most if frequent is None else np.intersect1d(most, frequent)


def with_rare_items(experts: Experts, log: SharedLog, everything: SharedLog, satisfied: float) -> Experts:
    """Return experts of all items from those of the frequent ones, `log.items`."""
    rows, n_items, n_users = log.items, everything.n_items, len(everything.users)
    assert rows is not None  # noqa: S101
    thresholds = (-np.inf, satisfied, *experts.above, *experts.below)
    counts = np.stack([everything.item_counts(threshold) for threshold in thresholds]).astype(np.float64)
    linear, n_tables = experts.linear, 2 + len(experts.above)
    means = counts[[1, 0, *range(2, n_tables)]] / max(n_users, 1)
    loadings = np.zeros((n_tables, n_items, linear.loadings.shape[1]))
    residuals = means * (1.0 - means)
    for whole, own in ((means, linear.means), (residuals, linear.residuals)):
        whole[:, rows] = own.reshape(n_tables, -1)
    loadings[:, rows] = linear.loadings.reshape(n_tables, len(rows), -1)
    vectors = np.zeros((len(thresholds), n_items, experts.logistic.vectors.shape[2]))
    vectors[0, :, -1] = _logit((counts[0] + 0.5) / (n_users + 1.0))
    vectors[1:, :, -1] = _logit(counts[1:].sum(axis=1) / max(counts[0].sum(), 1.0))[:, None]
    vectors[:, rows] = experts.logistic.vectors
    return replace(
        experts,
        linear=replace(
            linear, means=means.ravel(), loadings=loadings.reshape(-1, loadings.shape[2]), residuals=residuals.ravel()
        ),
        logistic=replace(experts.logistic, vectors=vectors),
        appeared=everything.first_appearances(),
    )


def _logit(p: FloatArray) -> FloatArray:
    p = np.clip(p, 1e-6, 1.0 - 1e-6)
    return np.asarray(np.log(p / (1.0 - p)))
