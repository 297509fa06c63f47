"""What a reaction reveals about a user, and how an expected reward is put together from it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from igcf.arrays import Float32Array, FloatArray
from igcf.model.reward import Reward

Link = Literal["identity", "logit"]
LOWEST = -80.0
"""Below this z a probability counts as exp(-80); single precision still holds that number."""


@dataclass(frozen=True, eq=False)
class Channel:
    """One number that every reaction reveals, depending on z = vectors[item] . user[start : start + width].

    `identity`: reward ~ N(z, noise_var[item]) (eq::model::reg). `logit`: reward ~ Bernoulli(sigmoid(z)), its log
    likelihood divided by noise_var[item] (eq::model::cls; 1 is the likelihood itself).

    Example:
        >>> import igcf, numpy as np
        >>> reward = igcf.model.Reward("satisfied", threshold=4.0, low=1.0, high=5.0)
        >>> channel = igcf.model.Channel(np.eye(3, 2, dtype=np.float32), np.full(3, 0.1), reward, link="logit")
        >>> channel.span, channel.activation(np.zeros(3)).tolist()
        (slice(0, 2, None), [0.5, 0.5, 0.5])
    """

    vectors: Float32Array
    """Item vectors, shape (items, width)."""
    noise_var: FloatArray
    """Noise variance of each item, shape (items,)."""
    reward: Reward
    link: Link = "identity"
    start: int = 0
    """Where this channel's block of the user's vector begins; channels of one start share the block."""

    @property
    def span(self) -> slice:
        """This channel's block of the user's vector."""
        return slice(self.start, self.start + self.vectors.shape[1])

    def contiguous(self) -> "Channel":
        """Return the same channel with contiguous arrays in the precisions above, as the native loops read them."""
        vectors = np.ascontiguousarray(self.vectors, dtype=np.float32)
        return replace(self, vectors=vectors, noise_var=np.ascontiguousarray(self.noise_var, dtype=np.float64))

    def activation(self, z: FloatArray) -> FloatArray:
        """Return the expected reward at z."""
        return z if self.link == "identity" else sigmoid(z)

    def slope(self, activation: FloatArray) -> FloatArray:
        """Return the derivative of `activation` at the point with this value."""
        return np.ones_like(activation) if self.link == "identity" else activation * (1.0 - activation)


@dataclass(frozen=True)
class Term:
    """A part of the expected reward: weight times the product of some channels' expectations.

    Example:
        The average of two channels:

        >>> import igcf
        >>> terms = igcf.model.Term(0.5, (0,)), igcf.model.Term(0.5, (1,))
        >>> sum(term.weight for term in terms)
        1.0
    """

    weight: float
    channels: tuple[int, ...]


def sigmoid(z: FloatArray) -> FloatArray:
    """1 / (1 + exp(-z)), without overflow; NumPy's own exp, because SciPy takes a third of a second to load."""
    return np.asarray(1.0 / (1.0 + np.exp(-np.maximum(z, LOWEST))))


def activations(channels: Sequence[Channel], z: Mapping[int, FloatArray]) -> dict[int, FloatArray]:
    """Return the expected reward of each channel from its z."""
    return {number: channels[number].activation(each) for number, each in z.items()}


def expectation(terms: Sequence[Term], activations: Mapping[int, FloatArray]) -> FloatArray:
    """Return the expected reward from those of the channels, at the means of the belief."""
    return np.asarray(sum(_product(term.weight, term.channels, activations) for term in terms))


def gradients(
    channels: Sequence[Channel], terms: Sequence[Term], activations: Mapping[int, FloatArray]
) -> dict[int, FloatArray]:
    """Return the derivative of the expected reward with respect to each scored channel's z."""
    slopes: dict[int, FloatArray] = {}
    for term in terms:
        for number in term.channels:
            others = tuple(other for other in term.channels if other != number)
            part = channels[number].slope(activations[number]) * _product(term.weight, others, activations)
            slopes[number] = slopes[number] + part if number in slopes else part
    return slopes


def linearised(channels: Sequence[Channel], terms: Sequence[Term], mean: FloatArray) -> Float32Array:
    """Return one vector per item, (items, d): how the expected reward grows with the user's vector at the mean."""
    scored = sorted({number for term in terms for number in term.channels})
    z = {number: channels[number].vectors @ mean[channels[number].span] for number in scored}
    vectors = np.zeros((len(channels[0].vectors), len(mean)), dtype=np.float32)
    for number, slope in gradients(channels, terms, activations(channels, z)).items():
        vectors[:, channels[number].span] += slope[:, None] * channels[number].vectors
    return vectors


def _product(weight: float, numbers: tuple[int, ...], activations: Mapping[int, FloatArray]) -> FloatArray | float:
    product: FloatArray | float = weight
    for number in numbers:
        product = product * activations[number]
    return product
