"""The chance that an item satisfies the user, if they react to it (docs/maths.md, section Chance)."""

from math import erf, sqrt
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from igcf.arrays import FloatArray, IntArray
from igcf.model import Model
from igcf.model.channel import sigmoid
from igcf.online.belief import Belief
from igcf.online.engine import ScoringEngine

Form = Literal["liked", "ratio", "probability", "value"]
WIDTH = 1.2815515655446004
"""Standard deviations to either side of the mean within which a normal variable lies with probability 0.8."""
EXPOSURE_FLOOR = 0.2
"""Added to an expected exposure, with the population's share of successes, before successes are divided by it."""
CLIPPED = 0.005
"""Smallest and, from 1, largest probability whose logit is taken."""


class Chances(NamedTuple):
    """Chances of some items and the ends of their 80 % intervals, arrays of equal length; low <= chance <= high."""

    chance: FloatArray
    low: FloatArray
    high: FloatArray


class ChanceScale:
    """How the chances of a model follow from a belief, depending on what the model can tell.

    - `liked`: a logistic channel says whether an item is liked, if seen: z ~ N(m, v) is the logit.
    - `ratio`: linear channels of success and exposure: the expected successes per exposure.
    - `probability`: the expected reward itself is a probability; also where every reaction is a success, so that the
      chance is that of a reaction.
    - `value`: the reward is a value with Gaussian noise: the probability that it reaches the threshold.
    """

    def __init__(self, model: Model) -> None:
        self.model = model
        self.form: Form
        self.channels: tuple[int, ...] = ()
        """Numbers of the channels that the chance is read from; none where it is the expected reward."""
        reward = model.reward
        is_every_reaction_a_success = reward.threshold <= reward.low
        liked, success, exposed = (self._channel(*kind) for kind in KINDS)
        if reward.kind in ("raw", "scaled"):
            self.form = "value"
        elif liked is not None and not is_every_reaction_a_success:
            self.form, self.channels = "liked", (liked,)
        elif success is not None and exposed is not None and not is_every_reaction_a_success:
            self.form, self.channels = "ratio", (success, exposed)
            self.prior_ratio = self._prior_ratio()
        else:
            self.form = "probability"

    def _channel(self, link: str, kind: str) -> int | None:
        """The first channel of this link and kind at the model's own threshold."""
        found = (
            number
            for number, channel in enumerate(self.model.channels)
            if (channel.link, channel.reward.kind) == (link, kind)
            and (kind == "exposed" or channel.reward.threshold == self.model.reward.threshold)
        )
        return next(found, None)

    def _prior_ratio(self) -> FloatArray:
        """Successes per exposure of every item in the population."""
        success, exposed = (
            self.model.channels[number].vectors @ self.model.prior_mean[self.model.channels[number].span]
            for number in self.channels
        )
        return np.clip((success + 1e-9) / np.where(np.abs(exposed + 2e-9) > 1e-12, exposed + 2e-9, 1.0), 0.02, 0.98)

    def of_engine(self, engine: ScoringEngine, rows: IntArray, means: FloatArray, stds: FloatArray) -> Chances:
        """Compute the chances of the only user of an engine at some items, whose expected rewards are known."""
        if self.form == "liked":
            return self.from_logit(*engine.z_moments_at(self.channels[0], rows))
        if self.form == "ratio":
            return self._from_ratio(engine.belief_means[0], engine.belief_covs[0], rows)
        return self.from_expectation(rows, means, stds**2)

    def of_belief(self, belief: Belief, rows: IntArray, means: FloatArray, stds: FloatArray) -> Chances:
        """Compute the same from a belief alone, in double precision."""
        if self.form == "liked":
            channel = self.model.channels[self.channels[0]]
            own = Belief(belief.mean[channel.span], belief.cov[channel.span, channel.span])
            z, std = own.moments(channel.vectors[rows])
            return self.from_logit(z, std**2)
        if self.form == "ratio":
            return self._from_ratio(belief.mean, belief.cov, rows)
        return self.from_expectation(rows, means, stds**2)

    def from_logit(self, m: npt.ArrayLike, v: npt.ArrayLike) -> Chances:
        """E[sigmoid(a z + b)] of z ~ N(m, s^2 v), by the probit approximation, and its quantiles."""
        slope, shift, spread = self._numbers
        mean, var = np.asarray(m, dtype=np.float64), np.asarray(v, dtype=np.float64)
        middle = slope * mean + shift
        chance = sigmoid(middle / np.sqrt(1.0 + np.pi / 8.0 * (slope * spread) ** 2 * var))
        return _around(chance, middle, slope * spread * WIDTH * np.sqrt(var))

    def from_expectation(self, rows: IntArray, means: FloatArray, variances: FloatArray) -> Chances:
        """Chances where they follow from the expected rewards: a mean probability needs no further averaging."""
        if self.form == "value":
            return self._from_value(rows, means, variances)
        p = np.clip(np.asarray(means, dtype=np.float64), CLIPPED, 1.0 - CLIPPED)
        return self._from_probability(p, np.asarray(variances, dtype=np.float64))

    def _from_probability(self, p: FloatArray, variances: FloatArray) -> Chances:
        slope, shift, spread = self._numbers
        middle = slope * np.log(p / (1.0 - p)) + shift
        return _around(sigmoid(middle), middle, slope * spread * WIDTH * np.sqrt(variances) / (p * (1.0 - p)))

    def ratio(self, z_success: FloatArray, z_exposed: FloatArray, rows: IntArray) -> FloatArray:
        """Expected successes per exposure, drawn toward the population's own ratio."""
        exposure = np.maximum(z_exposed, 0.0) + EXPOSURE_FLOOR
        success = np.maximum(z_success, 0.0) + EXPOSURE_FLOOR * self.prior_ratio[rows]
        return np.asarray(np.clip(success / exposure, 2 * CLIPPED, 1.0 - 2 * CLIPPED))

    def _from_ratio(self, mean: FloatArray, cov: FloatArray, rows: IntArray) -> Chances:
        success, exposed = (self.model.channels[number] for number in self.channels)
        xs, xe = success.vectors[rows].astype(np.float64), exposed.vectors[rows].astype(np.float64)
        own_mean, own_cov = mean[success.span], cov[success.span, success.span]
        z_exposed = xe @ own_mean
        r = self.ratio(xs @ own_mean, z_exposed, rows)
        x = (xs - r[:, None] * xe) / (np.maximum(z_exposed, 0.0) + EXPOSURE_FLOOR)[:, None]
        return self._from_probability(r, np.maximum(np.einsum("kd,de,ke->k", x, own_cov, x), 0.0))

    def _from_value(self, rows: IntArray, means: FloatArray, variances: FloatArray) -> Chances:
        line, noise = float(self.model.reward.of(self.model.reward.threshold)), self.model.item_noise[rows]
        columns = []
        for z, v, n in zip(means.tolist(), variances.tolist(), noise.tolist(), strict=True):
            half, inside = WIDTH * sqrt(v), 1.0 / sqrt(2.0 * n)
            p = 0.5 * (1.0 + erf((z - line) / sqrt(2.0 * (v + n))))
            low, high = (0.5 * (1.0 + erf((z + side - line) * inside)) for side in (-half, half))
            columns.append((p, min(low, p), max(high, p)))
        return Chances(*np.array(columns).reshape(-1, 3).T)

    @property
    def _numbers(self) -> tuple[float, float, float]:
        calibration = self.model.calibration
        return calibration.slope, calibration.shift, calibration.spread


KINDS = (("logit", "liked"), ("identity", "satisfied"), ("identity", "exposed"))


def _around(chance: FloatArray, middle: FloatArray, half: FloatArray) -> Chances:
    """The chance with the interval whose logits are `middle` -+ `half`, widened to contain it."""
    return Chances(chance, np.minimum(sigmoid(middle - half), chance), np.maximum(sigmoid(middle + half), chance))
