"""Chances from what a belief says of some items, in NumPy (docs/maths.md, section Chance)."""

from math import erf, sqrt
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from igcf.arrays import AnyFloatArray, FloatArray, IntArray
from igcf.model.channel import sigmoid

WIDTH = 1.2815515655446004
"""Standard deviations around the mean within which a normal variable lies with probability 0.8. Native: the same."""
CLIPPED = 0.005
"""Smallest and, from 1, largest probability whose logit is taken."""
Triple = tuple[FloatArray, FloatArray, FloatArray]
"""The same as arrays."""
Columns = tuple[list[float], list[float], list[float]]
"""Chances, lower and upper ends of their intervals."""


class ItemTerms(NamedTuple):
    """What items add to the logits that their chances are read from, arrays of shape (items,)."""

    offset: FloatArray
    """Added to slope z."""
    missing: FloatArray
    """Variance of what is unknown of how tastes differ on the item."""
    own: FloatArray
    """Variance of what is unknown of the share of users whom it satisfies."""

    def at(self, rows: IntArray | list[int]) -> "ItemTerms":
        """Return the terms of some items."""
        return ItemTerms(self.offset[rows], self.missing[rows], self.own[rows])


def chances_of_logits(
    rows: list[int], z: AnyFloatArray, variances: AnyFloatArray, slope: float, spread: float, items: ItemTerms
) -> Columns:
    """Chances, lows and highs of a few items from the means and variances (items,) of the logit."""
    chance, low, high = logit_chances(z[rows], variances[rows], slope, spread, items.at(rows))
    return chance.tolist(), low.tolist(), high.tolist()


def logit_chances(m: npt.ArrayLike, v: npt.ArrayLike, slope: float, spread: float, items: ItemTerms) -> Triple:
    """E[sigmoid(a z + offset)] of z ~ N(m, s^2 v), by the probit approximation, and its quantiles."""
    mean, var = np.asarray(m, dtype=np.float64), np.asarray(v, dtype=np.float64)
    middle, of_user = slope * mean + items.offset, (slope * spread) ** 2 * var + items.missing
    chance = sigmoid(middle / np.sqrt(1.0 + np.pi / 8.0 * of_user))
    return chances_around(chance, middle, WIDTH * np.sqrt(of_user + items.own))


def chances_around(chance: FloatArray, middle: FloatArray, half: FloatArray) -> Triple:
    """The chance with the interval whose logits are `middle` -+ `half`, widened to contain it."""
    return chance, np.minimum(sigmoid(middle - half), chance), np.maximum(sigmoid(middle + half), chance)


def chances_of_probabilities(
    means: list[float], stds: list[float], slope: float, shift: float, spread: float
) -> Columns:
    """Chances, lows and highs of a few items whose expected reward is a probability."""
    chance, low, high = probability_chances(np.array(means), np.array(stds), slope, shift, spread)
    return chance.tolist(), low.tolist(), high.tolist()


def probability_chances(means: FloatArray, stds: FloatArray, slope: float, shift: float, spread: float) -> Triple:
    """Chances from expected probabilities, which need no further averaging; intervals of a Beta of the same moments."""
    from scipy.special import betaincinv

    p = np.clip(means, CLIPPED, 1.0 - CLIPPED)
    chance = sigmoid(slope * np.log(p / (1.0 - p)) + shift)
    most = chance * (1.0 - chance)
    variance = np.clip((slope * spread * stds * most / (p * (1.0 - p))) ** 2, 1e-9 * most, 0.9 * most)
    weight = most / variance - 1.0
    low, high = (betaincinv(chance * weight, (1.0 - chance) * weight, level) for level in (0.1, 0.9))
    return chance, np.minimum(low, chance), np.maximum(high, chance)


def chances_of_values(
    rows: list[int], means: list[float], stds: list[float], noise: FloatArray, line: float
) -> Columns:
    """P(value >= line) of a value ~ N(mean, std^2 + noise[row]), with an interval for what is not noise."""
    found = []
    for row, mean, std in zip(rows, means, stds, strict=True):
        own = float(noise[row])
        half, inside = WIDTH * std, 1.0 / sqrt(2.0 * own)
        chance = 0.5 * (1.0 + erf((mean - line) / sqrt(2.0 * (std * std + own))))
        low, high = (0.5 * (1.0 + erf((mean + side - line) * inside)) for side in (-half, half))
        found.append((chance, min(low, chance), max(high, chance)))
    return tuple(map(list, zip(*found, strict=True)))  # type: ignore[return-value]
