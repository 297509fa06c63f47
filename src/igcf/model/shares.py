"""The share of satisfied reactions of each item, and what is unknown of it (docs/maths.md, section Chance).

The share of an item with n reactions, s of them satisfied, is Beta(K p + s, K (1 - p) + n - s), where p, the mean of
items that are as well known, is sigmoid(intercept + slope log(1 + n)). Intercept, slope and the strength K maximise the
likelihood of all items of the log.
"""

from typing import NamedTuple

import numpy as np

from igcf.arrays import FloatArray, IntArray
from igcf.model.channel import sigmoid

MOST_STRENGTH = 1e4


class SharePrior(NamedTuple):
    """What is believed of an item's share before the first reaction to it."""

    intercept: float
    slope: float
    strength: float
    """Reactions that the prior is worth."""

    def of(self, reactions: IntArray) -> tuple[FloatArray, FloatArray]:
        """Return the parameters of each item's Beta, from reactions and successes, (items, 2)."""
        n, successes = reactions[:, 0].astype(np.float64), reactions[:, 1].astype(np.float64)
        mean = sigmoid(self.intercept + self.slope * np.log1p(n))
        return self.strength * mean + successes, self.strength * (1.0 - mean) + n - successes


def fit_shares(reactions: IntArray) -> SharePrior | None:
    """Fit the prior to reactions and successes, (items, 2); None where no item has both kinds of reactions."""
    from scipy.optimize import minimize
    from scipy.special import betaln

    pairs, times = np.unique(reactions[reactions[:, 0] > 0], axis=0, return_counts=True)
    if not len(pairs) or pairs[:, 1].sum() == 0 or (pairs[:, 0] == pairs[:, 1]).all():
        return None

    def loss(numbers: FloatArray) -> float:
        prior = SharePrior(float(numbers[0]), float(numbers[1]), float(np.exp(min(numbers[2], np.log(MOST_STRENGTH)))))
        alpha, beta = prior.of(pairs)
        own = betaln(alpha, beta) - betaln(alpha - pairs[:, 1], beta - (pairs[:, 0] - pairs[:, 1]))
        return float(-(times * own).sum() + 0.5 * (numbers[1] ** 2 + (numbers[2] - 2.0) ** 2))

    found = minimize(loss, [0.0, 0.0, 2.0], method="Nelder-Mead").x
    return SharePrior(float(found[0]), float(found[1]), float(np.exp(min(found[2], np.log(MOST_STRENGTH)))))


def logits(alpha: FloatArray, beta: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the logit of each mean share, and the variance of the logit to first order."""
    return np.log(alpha / beta), (alpha + beta) ** 2 / (alpha * beta * (alpha + beta + 1.0))
