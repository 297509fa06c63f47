"""From the channels' own means and variances to those of the expected reward, where a model is not linear."""

from collections.abc import Callable
from typing import Any

import numpy as np

from igcf.arrays import AnyFloatArray
from igcf.model import Model
from igcf.model.channel import expectation, gradients

USERS = 16
"""Users per block of large arrays: what is computed on the way stays in the cache."""


def by_blocks(compute: Callable[..., Any], *arrays: Any) -> AnyFloatArray:
    """`compute` of (users, items) arrays, some users at a time."""
    if len(arrays[0]) <= USERS:
        return np.asarray(compute(*arrays))
    result: AnyFloatArray = np.empty(arrays[0].shape, dtype=arrays[0].dtype)
    for start in range(0, len(result), USERS):
        result[start : start + USERS] = compute(*(each[start : start + USERS] for each in arrays))
    return result


def expected(model: Model, *activations: Any) -> AnyFloatArray:
    """The expected reward from the activations of all scored channels."""
    return expectation(model.terms, dict(zip(model.scored, activations, strict=True)))


def spread(model: Model, *parts: Any) -> AnyFloatArray:
    """Its variance to first order, from those activations followed by the variances of the channels' z.

    Channels that share a block of the user's vector are taken as moving together, which never understates.
    """
    n = len(model.scored)
    slopes = gradients(model.channels, model.terms, dict(zip(model.scored, parts[:n], strict=True)))
    variances = dict(zip(model.scored, parts[n:], strict=True))
    deviations: dict[int, AnyFloatArray] = {}
    for number, slope in slopes.items():
        part = np.sqrt(variances[number]) * np.abs(slope)
        start = model.channels[number].start
        deviations[start] = deviations[start] + part if start in deviations else part
    return np.asarray(sum(part * part for part in deviations.values()))
