"""From the channels' own means and variances to those of the expected reward, where a model is not linear."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from igcf.arrays import AnyFloatArray, BoolArray, FloatArray, IntArray
from igcf.model import Model
from igcf.model.channel import activations, expectation, gradients
from igcf.online.kernels import MOST_CHANNELS, USERS, compiled


@dataclass(frozen=True, eq=False)
class Mixture:
    """How the expected reward follows from the scored channels, in their order, as arrays."""

    model: Model
    weights: FloatArray
    """(terms,)"""
    is_member: BoolArray
    """(terms, channels): the expected reward is the sum over terms of weight x product of their channels"""
    is_logit: BoolArray
    """(channels,)"""
    block: IntArray
    """(channels,), uint8: channels that share a block of the user's vector"""

    @property
    def parts(self) -> tuple[FloatArray, BoolArray, BoolArray, IntArray]:
        """What the compiled loops want to know."""
        return self.weights, self.is_member, self.is_logit, self.block

    @classmethod
    def of(cls, model: Model) -> "Mixture":
        """That of a model."""
        channels = [model.channels[number] for number in model.scored]
        starts = sorted({channel.start for channel in channels})
        return cls(
            model,
            np.array([term.weight for term in model.terms]),
            np.array([[number in term.channels for number in model.scored] for term in model.terms]),
            np.array([channel.link == "logit" for channel in channels]),
            np.array([starts.index(channel.start) for channel in channels], dtype=np.uint8),
        )

    def expected(self, z: Sequence[AnyFloatArray]) -> AnyFloatArray:
        """The expected reward from the z of all scored channels, arrays of one shape."""
        combined = self._compiled(z, None)
        return _by_blocks(partial(_expected, self.model), *z) if combined is None else combined

    def spread(self, z: Sequence[AnyFloatArray], variances: Sequence[AnyFloatArray]) -> AnyFloatArray:
        """Its variance to first order, from the means and variances of the channels' z.

        Channels that share a block of the user's vector are taken as moving together, which never understates.
        """
        combined = self._compiled(z, variances)
        return _by_blocks(partial(_spread, self.model), *z, *variances) if combined is None else combined

    def _compiled(self, z: Sequence[AnyFloatArray], variances: Sequence[AnyFloatArray] | None) -> AnyFloatArray | None:
        if compiled is None or len(z) > MOST_CHANNELS or z[0].dtype != np.float32:
            return None
        result: AnyFloatArray = np.empty(z[0].shape, dtype=np.float32)
        own_variances = None if variances is None else tuple(map(np.ascontiguousarray, variances))
        compiled.combine(self.parts, tuple(map(np.ascontiguousarray, z)), own_variances, result)
        return result


def _by_blocks(compute: Callable[..., AnyFloatArray], *arrays: AnyFloatArray) -> AnyFloatArray:
    """`compute` of arrays (users, items), some users at a time so that what is in between stays in the cache."""
    if arrays[0].ndim == 1 or len(arrays[0]) <= USERS:
        return compute(*arrays)
    result: AnyFloatArray = np.empty(arrays[0].shape, dtype=arrays[0].dtype)
    for start in range(0, len(result), USERS):
        block = slice(start, start + USERS)
        result[block] = compute(*(each[block] for each in arrays))
    return result


def _expected(model: Model, *z: Any) -> AnyFloatArray:
    return expectation(model.terms, activations(model.channels, dict(zip(model.scored, z, strict=True))))


def _spread(model: Model, *parts: Any) -> AnyFloatArray:
    n = len(model.scored)
    expected = activations(model.channels, dict(zip(model.scored, parts[:n], strict=True)))
    slopes = gradients(model.channels, model.terms, expected)
    deviations: dict[int, AnyFloatArray] = {}
    for number, variances in zip(model.scored, parts[n:], strict=True):
        part = np.sqrt(variances) * np.abs(slopes[number])
        start = model.channels[number].start
        deviations[start] = deviations[start] + part if start in deviations else part
    return np.asarray(sum(part * part for part in deviations.values()))
