"""What a reaction reveals about a user, and how an expected reward is put together from it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy.special import expit

from igcf.arrays import Float32Array, FloatArray
from igcf.model.reward import Reward

Link = Literal["identity", "logit"]


@dataclass(frozen=True, eq=False)
class Channel:
    """One number that every reaction reveals, depending on z = vectors[item] . user[start : start + width].

    `identity`: reward ~ N(z, noise_var[item]) (eq::model::reg). `logit`: reward ~ Bernoulli(sigmoid(z)), its log
    likelihood divided by noise_var[item] (eq::model::cls; 1 is the likelihood itself).
    """

    vectors: Float32Array
    """(items, width)"""
    noise_var: FloatArray
    """(items,)"""
    reward: Reward
    link: Link = "identity"
    start: int = 0
    """Where this channel's block of the user's vector begins; channels of one start share the block."""

    @property
    def span(self) -> slice:
        """This channel's block of the user's vector."""
        return slice(self.start, self.start + self.vectors.shape[1])

    def activation(self, z: FloatArray) -> FloatArray:
        """The expected reward at z."""
        return z if self.link == "identity" else sigmoid(z)

    def slope(self, z: FloatArray) -> FloatArray:
        """How fast the expected reward grows with z."""
        if self.link == "identity":
            return np.ones_like(z)
        p = sigmoid(z)
        return p * (1.0 - p)


@dataclass(frozen=True)
class Term:
    """A part of the expected reward: weight times the product of some channels' expectations."""

    weight: float
    channels: tuple[int, ...]


def sigmoid(z: FloatArray) -> FloatArray:
    """1 / (1 + exp(-z)), without overflow."""
    return np.asarray(expit(z))


def expectation(channels: Sequence[Channel], terms: Sequence[Term], z: Mapping[int, FloatArray]) -> FloatArray:
    """The expected reward from the channels' z, at the means of the belief."""
    return np.asarray(sum(term.weight * _product(channels, term.channels, z) for term in terms))


def gradients(channels: Sequence[Channel], terms: Sequence[Term], z: Mapping[int, FloatArray]) -> dict[int, FloatArray]:
    """The derivative of the expected reward with respect to each scored channel's z."""
    slopes: dict[int, FloatArray] = {}
    for term in terms:
        for number in term.channels:
            others = tuple(other for other in term.channels if other != number)
            part = term.weight * channels[number].slope(z[number]) * _product(channels, others, z)
            slopes[number] = slopes[number] + part if number in slopes else part
    return slopes


def _product(channels: Sequence[Channel], numbers: tuple[int, ...], z: Mapping[int, FloatArray]) -> FloatArray:
    """Of the channels' expectations; 1 for none."""
    product: FloatArray = np.asarray(1.0)
    for position, number in enumerate(numbers):
        factor = channels[number].activation(z[number])
        product = factor if position == 0 else product * factor
    return product
