"""Chances from what a belief says of some items, in NumPy (docs/maths.md, section Chance)."""

from math import erf, sqrt

import numpy as np
import numpy.typing as npt

from igcf.arrays import AnyFloatArray, FloatArray
from igcf.model.channel import sigmoid

WIDTH = 1.2815515655446004
"""Standard deviations around the mean within which a normal variable lies with probability 0.8. Native: the same."""
Triple = tuple[FloatArray, FloatArray, FloatArray]
"""The same as arrays."""
Columns = tuple[list[float], list[float], list[float]]
"""Chances, lower and upper ends of their intervals."""


def chances_of_logits(
    rows: list[int], z: AnyFloatArray, variances: AnyFloatArray, slope: float, shift: float, spread: float
) -> Columns:
    """Chances, lows and highs of a few items from the means and variances (items,) of the logit."""
    chance, low, high = logit_chances(z[rows], variances[rows], slope, shift, spread)
    return chance.tolist(), low.tolist(), high.tolist()


def logit_chances(m: npt.ArrayLike, v: npt.ArrayLike, slope: float, shift: float, spread: float) -> Triple:
    """E[sigmoid(a z + b)] of z ~ N(m, s^2 v), by the probit approximation, and its quantiles."""
    mean, var = np.asarray(m, dtype=np.float64), np.asarray(v, dtype=np.float64)
    middle = slope * mean + shift
    chance = sigmoid(middle / np.sqrt(1.0 + np.pi / 8.0 * (slope * spread) ** 2 * var))
    return chances_around(chance, middle, slope * spread * WIDTH * np.sqrt(var))


def chances_around(chance: FloatArray, middle: FloatArray, half: FloatArray) -> Triple:
    """The chance with the interval whose logits are `middle` -+ `half`, widened to contain it."""
    return chance, np.minimum(sigmoid(middle - half), chance), np.maximum(sigmoid(middle + half), chance)


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
