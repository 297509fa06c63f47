"""Metrics of the experiments, counted from the items shown (docs/protocols.md, Metrics)."""

import numpy as np

from igcf.arrays import BoolArray, FloatArray, IntArray
from igcf.online.environment import rewards


def cumulative_precision(satisfied: BoolArray) -> FloatArray:
    """Count satisfied items up to each round: (users, rounds, slate) -> (users, rounds)."""
    return np.cumsum(satisfied.sum(axis=2), axis=1, dtype=np.float64)


def cumulative_recall(satisfied: BoolArray, n_satisfied: IntArray) -> FloatArray:
    """Divide the precision by the number of all items that satisfy the user; NaN for a user whom nothing satisfies."""
    total = np.where(n_satisfied > 0, n_satisfied, np.nan)
    return np.asarray(cumulative_precision(satisfied) / total[:, None])


def cumulative_ndcg(satisfied: BoolArray) -> FloatArray:
    """Sum nDCG_k up to each round, binary gains over the constant ideal of k ones; shape (users, rounds)."""
    return np.cumsum(rewards(satisfied), axis=1)


def after_drift(satisfied: BoolArray) -> FloatArray:
    """Count satisfied items in the second half of the rounds alone, up to each of them; shape (users, rounds // 2)."""
    return cumulative_precision(satisfied[:, satisfied.shape[1] // 2 :])


def coverage(rows: IntArray, n_items: int) -> float:
    """Return the share of the catalogue that was shown to anybody."""
    return len(np.unique(rows)) / n_items


def novelty(rows: IntArray, item_shares: FloatArray) -> float:
    """Return the mean surprise in bits of the items shown: -log2 of the share of training users who know them.

    An item without reactions counts as known to half of the smallest share.
    """
    known = item_shares[item_shares > 0]
    floor = known.min() / 2 if len(known) else 1.0
    return float(-np.log2(np.maximum(item_shares, floor))[rows].mean())


def ranking_curves(found: BoolArray, n_hidden: IntArray) -> dict[str, FloatArray]:
    """Return nDCG@k and Recall@k of each user for every k, from whether the item at each rank was hidden.

    Args:
        found: (users, ranks).
        n_hidden: number of hidden items of each user; at least 1.

    Returns:
        `ndcg`: binary gains over those of the best possible list of k items; `recall`: found among the first k over
        min(k, hidden), so that 1 can be reached at every k. Both (users, ranks).
    """
    ranks = np.arange(1, found.shape[1] + 1)
    discount = 1.0 / np.log2(1.0 + ranks)
    reachable = np.minimum(ranks, n_hidden[:, None])
    ideal = np.cumsum(discount)[reachable - 1]
    return {
        "ndcg": np.cumsum(found * discount, axis=1) / ideal,
        "recall": np.cumsum(found, axis=1) / reachable,
    }


def reciprocal_ranks(found: BoolArray) -> FloatArray:
    """Return 1 / rank of each user's first hidden item, 0 where the list holds none."""
    return np.where(found.any(axis=1), 1.0 / (1.0 + found.argmax(axis=1)), 0.0)
