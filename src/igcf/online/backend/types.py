"""What the engine hands to a backend and gets back: plain arrays under names."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from igcf.arrays import AnyFloatArray, BoolArray, FloatArray, IntArray
from igcf.model import Model

NEWTON_STEPS = 8
"""Steps to the mode of a logistic update; four are enough unless the prior is very wide. Native: the same number."""

MakeRng = Callable[[], np.random.Generator]
"""Gives a generator of random numbers; making one takes as long as a product over thousands of items."""
Arrays = tuple[Any, ...]  # one array per scored channel
Columns = tuple[list[float], list[float], list[float]]  # chances, lower and upper ends of their intervals


class Evidence(NamedTuple):
    """What reactions reveal about one block of the users' vectors: one reaction per user, or any number of one user."""

    x: FloatArray  # item vectors, shape (reactions, d)
    rewards: FloatArray  # rewards, shape (reactions,); NaN reveals nothing
    noise: FloatArray  # variances of the rewards, or what a log likelihood is divided by, shape (reactions,)
    is_logit: BoolArray  # whether a reward is a success or failure with a logistic link, shape (reactions,)


class Block(NamedTuple):
    """A part of the user's vector that is learned apart from the others, and the channels with vectors in it."""

    start: int  # first dimension of the block
    vectors: tuple[AnyFloatArray, ...]  # item vectors per channel, each of shape (items, d), float32
    noise: tuple[FloatArray, ...]  # noise variances per channel, each of shape (items,)
    is_logit: BoolArray  # whether a channel has a logistic link, shape (channels,)
    items: Arrays  # item vectors of the channels that the expected reward depends on, in the precision of the engine
    places: tuple[int, ...]  # positions of these channels among all scored channels


BlockRewards = tuple[tuple[float, ...], ...]
"""Rewards of a reaction per block of the user's vector and channel in it; NaN reveals nothing."""


class Moments(NamedTuple):
    """Means and variances of z of all items, one array per scored channel; of shape (items,) or (users, items)."""

    z: Arrays
    variances: Arrays


class Channels(NamedTuple):
    """The channels of a model; those with one start make up a block."""

    starts: IntArray  # first dimension of each channel's block, shape (channels,)
    vectors: tuple[AnyFloatArray, ...]  # item vectors per channel, each of shape (items, width), float32
    noise: tuple[FloatArray, ...]  # noise variances per channel, each of shape (items,)
    is_logit: BoolArray  # whether a channel has a logistic link, shape (channels,)


class Classes(NamedTuple):
    """The classes of reactions that a model distinguishes, and what decides how a reaction counts.

    The last two rows of `rewards` are no reaction and nothing at all. It begins as `Channels` does.
    """

    starts: IntArray  # first dimension of each channel's block, shape (channels,)
    vectors: tuple[AnyFloatArray, ...]  # item vectors per channel, each of shape (items, width), float32
    noise: tuple[FloatArray, ...]  # noise variances per channel, each of shape (items,)
    is_logit: BoolArray  # whether a channel has a logistic link, shape (channels,)
    rewards: FloatArray  # rewards of each class, worst first, shape (classes + 2, channels); NaN reveals nothing
    is_failure: BoolArray  # whether a class is below the threshold of success, shape (classes,)
    weights: FloatArray  # weights of the expected reward's terms, shape (terms,)
    is_member: BoolArray  # which channels a term multiplies, shape (terms, channels)
    liked: int  # channel of liking that a chance is read from; -1 for none
    calibration: FloatArray  # slope, shift, spread
    is_full: bool  # whether also failures and missing reactions are bound, not only the order of the classes


class Selection(NamedTuple):
    """The items selected for one user, best first, and what is believed of them; lists of equal length."""

    rows: list[int]
    scores: list[float]
    means: list[float]
    stds: list[float]
    mean_ranks: list[int]  # 1 + the number of available items with a larger mean


class RecordTerms(NamedTuple):
    """The log likelihood of one record about one block of a user's vector, and the place that a search starts from."""

    absent: tuple[AnyFloatArray, ...]
    """Item vectors of the channels in which absence counts, each of shape (items, d), float32."""
    noise: tuple[FloatArray, ...]
    """What the log likelihood of an item is divided by in each of them, each of shape (items,)."""
    slope: FloatArray  # sum over all items of x sigmoid(x . user) / noise where the search starts, shape (d,)
    weight: float  # weight of every item as an absent one
    own_x: AnyFloatArray  # vectors of the record's own logistic terms, shape (terms, d), float32
    own_weights: AnyFloatArray
    """Weights of these terms, shape (terms,), float32; negative where an absence is taken back."""
    information: FloatArray  # sum over the reactions of reward x / noise, shape (d,)
    prior_mean: FloatArray  # shape (d,)
    frame: FloatArray
    """Directions in which the prior is uncertain, shape (d, r): the user's vector is prior_mean + frame v."""


class ItemTerms(NamedTuple):
    """What items add to the logits that their chances are read from, arrays of shape (items,)."""

    offset: FloatArray  # added to slope z
    missing: FloatArray  # variance of what is unknown of how tastes differ on the item
    own: FloatArray  # variance of what is unknown of the share of users whom it satisfies

    def at(self, rows: IntArray | list[int]) -> "ItemTerms":
        """Return the terms of some items."""
        return ItemTerms(self.offset[rows], self.missing[rows], self.own[rows])


@dataclass(frozen=True, eq=False)
class Mixture:
    """How the expected reward follows from the scored channels: a sum over terms of weight x product of channels."""

    model: Model
    weights: FloatArray  # weights of the terms, shape (terms,)
    is_member: BoolArray  # which scored channels a term multiplies, shape (terms, channels)
    is_logit: BoolArray  # whether a scored channel has a logistic link, shape (channels,)
    block: IntArray  # block of the user's vector that a scored channel reads, shape (channels,), uint8

    @cached_property
    def parts(self) -> tuple[FloatArray, BoolArray, BoolArray, IntArray]:
        """The arrays, in the order in which the native loops take them."""
        return self.weights, self.is_member, self.is_logit, self.block

    @classmethod
    def from_model(cls, model: Model) -> "Mixture":
        """Build the mixture from a model's scored channels."""
        channels = [model.channels[number] for number in model.scored]
        starts = sorted({channel.start for channel in channels})
        return cls(
            model,
            np.array([term.weight for term in model.terms]),
            np.array([[number in term.channels for number in model.scored] for term in model.terms]),
            np.array([channel.link == "logit" for channel in channels]),
            np.array([starts.index(channel.start) for channel in channels], dtype=np.uint8),
        )
