"""Metrics of the experiments, counted from the items shown (docs/protocols.md, Metrics)."""

import numpy as np

from igcf.arrays import BoolArray, FloatArray, IntArray


def cumulative_precision(satisfied: BoolArray) -> FloatArray:
    """Count satisfied items up to each round: (users, rounds, slate) -> (users, rounds)."""
    return np.cumsum(satisfied.sum(axis=2), axis=1, dtype=np.float64)


def cumulative_recall(satisfied: BoolArray, n_satisfied: IntArray) -> FloatArray:
    """Divide the precision by the number of all items that satisfy the user; NaN for a user whom nothing satisfies."""
    total = np.where(n_satisfied > 0, n_satisfied, np.nan)
    return np.asarray(cumulative_precision(satisfied) / total[:, None])


def cumulative_ndcg(satisfied: BoolArray) -> FloatArray:
    """Sum nDCG_k up to each round, binary gains over the constant ideal of k ones; shape (users, rounds)."""
    discount = 1.0 / np.log2(2.0 + np.arange(satisfied.shape[2]))
    return np.cumsum(satisfied @ discount / discount.sum(), axis=1)


def after_drift(satisfied: BoolArray) -> FloatArray:
    """Count satisfied items in the second half of the rounds alone, up to each of them; shape (users, rounds // 2)."""
    return cumulative_precision(satisfied[:, satisfied.shape[1] // 2 :])


def coverage(rows: IntArray, n_items: int) -> float:
    """Return the share of the catalogue that was shown to anybody."""
    return len(np.unique(rows)) / n_items


def novelty(rows: IntArray, item_shares: FloatArray) -> float:
    """Return the mean surprise in bits of the items shown: -log2 of the share of training users who know them.

    An item that nobody knows counts as known to half of the smallest share.
    """
    known = item_shares[item_shares > 0]
    floor = known.min() / 2 if len(known) else 1.0
    return float(-np.log2(np.maximum(item_shares, floor))[rows].mean())
