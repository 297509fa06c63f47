"""Thresholds that tell good reactions from very good ones, and bad ones from very bad ones."""

import numpy as np

from igcf.arrays import AnyFloatArray, IntArray


def grade_thresholds(
    levels: AnyFloatArray, counts: IntArray, satisfied: float
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return the values that divide the successes and the failures most evenly; () where all are equal.

    Ratings of 1 to 5 with success from 4 on: 5 and 3.

    Args:
        levels: Distinct values of the reactions, ascending.
        counts: How many reactions have each of them.
        satisfied: The value from which on a reaction is a success.
    """
    is_success = levels >= satisfied
    return _middle(levels[is_success], counts[is_success]), _middle(levels[~is_success], counts[~is_success])


def _middle(levels: AnyFloatArray, counts: IntArray) -> tuple[float, ...]:
    if len(levels) < 2:
        return ()
    share_from = counts[::-1].cumsum()[::-1][1:] / counts.sum()
    return (float(levels[1:][np.abs(share_from - 0.5).argmin()]),)
