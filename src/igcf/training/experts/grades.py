"""Thresholds that tell good reactions from very good ones, and bad ones from very bad ones."""

import numpy as np
import numpy.typing as npt


def grade_thresholds(values: npt.NDArray[np.floating], satisfied: float) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return the values that divide the successes and the failures most evenly; () where all are equal.

    Ratings of 1 to 5 with success from 4 on: 5 and 3.
    """
    return _middle(values[values >= satisfied]), _middle(values[values < satisfied])


def _middle(values: npt.NDArray[np.floating]) -> tuple[float, ...]:
    levels, counts = np.unique(values, return_counts=True)
    if len(levels) < 2:
        return ()
    share_from = counts[::-1].cumsum()[::-1][1:] / len(values)
    return (float(levels[1:][np.abs(share_from - 0.5).argmin()]),)
