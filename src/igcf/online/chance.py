"""The chance that an item satisfies the user, if they react to it (docs/maths.md, section Chance)."""

from functools import cached_property
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

from igcf.arrays import FloatArray, IntArray
from igcf.model import Model
from igcf.model.channel import sigmoid
from igcf.model.usage import Calibration, SharePrior, logits
from igcf.online import backend
from igcf.online.backend.numpy_items import logit_chances, probability_chances, value_chances
from igcf.online.backend.types import Columns, ItemTerms
from igcf.online.belief import Belief

if TYPE_CHECKING:
    from igcf.online.engine import ScoringEngine

Form = Literal["liked", "probability", "value"]


class Chances(NamedTuple):
    """Chances of some items and the ends of their 80 % intervals, arrays of equal length; low <= chance <= high."""

    chance: FloatArray
    low: FloatArray
    high: FloatArray


class ChanceScale:
    """How the chances of a model follow from a belief, depending on what the model predicts.

    - `liked`: a logistic channel says whether an item is liked, if seen: z ~ N(m, v) is the logit.
    - `probability`: the expected reward itself is a probability; also where every reaction is a success, so that the
      chance is that of a reaction.
    - `value`: the reward is a value with Gaussian noise: the probability that it reaches the threshold.
    """

    def __init__(self, model: Model) -> None:
        self.model = model
        self.form: Form
        self.liked: int | None = None
        """Number of the channel that the chance is read from; None where it follows from the expected reward."""
        reward, calibration = model.reward, model.calibration
        self._numbers = calibration.slope, calibration.shift, calibration.spread
        self._line = float(reward.of(reward.threshold))
        if reward.kind in ("raw", "scaled"):
            self.form = "value"
            return
        wanted = ("logit", "liked", reward.threshold)
        kinds = [(channel.link, channel.reward.kind, channel.reward.threshold) for channel in model.channels]
        if reward.threshold > reward.low and wanted in kinds:  # else every reaction is a success
            self.liked = kinds.index(wanted)
        self.form = "probability" if self.liked is None else "liked"

    @cached_property
    def base(self) -> "ItemBase | None":
        """What the log says of the items beside their vectors; None where it is not used."""
        return None if self.liked is None else item_base(self.model, self.liked, self.model.calibration.shares)

    @cached_property
    def items(self) -> ItemTerms:
        """What the items add to logits."""
        return item_terms(self.base, self.model.calibration, self.model.n_items)

    def of_shown(self, engine: "ScoringEngine", rows: list[int], means: list[float], stds: list[float]) -> Columns:
        """Compute the chances of the few items that are shown to the only user of an engine, as lists."""
        if self.liked is not None:
            (slope, _, spread), tracked = self._numbers, engine.tracked_z(self.liked)
            if tracked is not None:
                return backend.loops.chances_of_logits(rows, *tracked, slope, spread, self.items)
            own = engine.z_moments_at(self.liked, np.array(rows))
            return backend.loops.chances_of_logits([*range(len(rows))], *own, slope, spread, self.items.at(rows))
        chance, low, high = self.of_engine(engine, np.array(rows), np.array(means), np.array(stds))
        return chance.tolist(), low.tolist(), high.tolist()

    def of_engine(self, engine: "ScoringEngine", rows: IntArray, means: FloatArray, stds: FloatArray) -> Chances:
        """Compute the chances of an engine's only user at some items, from their expected rewards."""
        if self.liked is not None:
            slope, _, spread = self._numbers
            return Chances(*logit_chances(*engine.z_moments_at(self.liked, rows), slope, spread, self.items.at(rows)))
        if self.form == "value":
            return Chances(*value_chances(means, stds, self.model.item_noise[rows], self._line))
        return Chances(*probability_chances(means, stds, *self._numbers))

    def item_deviations(self, rows: IntArray | list[int], means: FloatArray) -> FloatArray | None:
        """Return the variance of some items' expected rewards that is due to the items; None: unknown."""
        if self.base is None:
            return None
        share = sigmoid(self.base.logit[rows])
        return np.asarray(np.abs(means) * (1.0 - share) * np.sqrt(self.base.variance[rows]))


HALVES = np.geomspace(1.0, 1_000.0, 40)
"""Numbers of reactions that are tried as those with which a vector says half of how tastes differ on its item."""


class ItemBase(NamedTuple):
    """What the log says of items beside their vectors, arrays of equal shape."""

    mean: FloatArray  # expected z of a user of the population
    variance_of_users: FloatArray  # variance of z over the population: what the item's vector says, and what is missing
    missing: FloatArray  # of it, what a vector that was learned from so few reactions is short of
    logit: FloatArray  # logit of the share of satisfied reactions that is expected of the item
    variance: FloatArray  # variance of that logit

    def at(self, rows: IntArray) -> "ItemBase":
        """Return the numbers of some items, of the shape of `rows`."""
        return ItemBase(*(each[rows] for each in self))


def item_base(model: Model, number: int, shares: SharePrior | None) -> ItemBase | None:
    """Return the evidence about all items for the chances of channel `number`; None if the model has no counts.

    For items of the log it is computed once; for added items `model.reactions` has the reactions so far.
    """
    if model.reactions is None or shares is None:
        return None
    trained = model.trained
    typical, half, known = trained.computed(("item base", number, shares), lambda: _known_base(trained, number, shares))
    if model is trained:
        return known
    new = _base_at(model, number, shares, (typical, half), model.added)
    return ItemBase(*(np.concatenate(pair) for pair in zip(known, new, strict=True)))


def _known_base(model: Model, number: int, shares: SharePrior) -> tuple[float, float, ItemBase]:
    """Fit the variances of the log's items as typical n / (n + half), and return both numbers and what is known."""
    rows = np.arange(model.n_items)
    base = _base_at(model, number, shares, (0.0, 1.0), rows)
    assert model.reactions is not None  # noqa: S101
    n, variances = model.reactions[:, 0], base.variance_of_users
    fits = []
    for half in HALVES.tolist():
        learned = n / (n + half)
        typical = float(learned @ variances) / max(float(learned @ learned), 1e-12)
        fits.append((float(np.square(variances - typical * learned).sum()), typical, half))
    _, typical, half = min(fits)
    missing = typical * half / (n + half)
    return typical, half, base._replace(variance_of_users=variances + missing, missing=missing)


def _base_at(model: Model, number: int, shares: SharePrior, curve: tuple[float, float], rows: IntArray) -> ItemBase:
    """What is known of some items; `curve` has the typical variance and the reactions that reveal half of it."""
    assert model.reactions is not None  # noqa: S101
    channel, counts = model.channels[number], model.reactions[rows]
    belief = Belief(model.prior_mean[channel.span], model.prior_cov[channel.span, channel.span])
    mean, std = belief.moments(channel.vectors[rows])
    typical, half = curve
    missing = np.asarray(typical * half / (counts[:, 0] + half), dtype=np.float64)
    is_new = (counts[:, 0] == 0) | (rows >= model.n_trained)
    return ItemBase(mean, std**2 + missing, missing, *logits(*shares.of(counts, is_new)))


def item_terms(base: ItemBase | None, calibration: Calibration, n_items: int = 1) -> ItemTerms:
    """Return what items add to logits: for a user of the population the chance is then the item's expected share."""
    slope, shift, spread = calibration.slope, calibration.shift, calibration.spread
    if base is None:
        return ItemTerms(np.full(n_items, shift), np.zeros(n_items), np.zeros(n_items))
    scale = 1.0 + np.pi / 8.0 * (slope * spread) ** 2 * base.variance_of_users
    offset = shift + np.sqrt(scale) * base.logit - slope * base.mean
    return ItemTerms(offset, (slope * spread) ** 2 * base.missing, scale * base.variance)
