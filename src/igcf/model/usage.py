"""How a model is used: what it ranks by, how it explores, and how its chances are calibrated."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import isfinite
from typing import Any, NamedTuple, get_args

import numpy as np

from igcf.arrays import BoolArray, FloatArray, IntArray
from igcf.config import Objective
from igcf.errors import ModelError
from igcf.model.channel import sigmoid

NO_SUCCESS = 0.5
"""Weight of a failure relative to a success, as an edge of a known user's graph and in a record."""


@dataclass(frozen=True)
class PolicyChoice:
    """A policy by name, with the exploration `nu` of `ucb`."""

    name: str = "ucb"
    nu: float = 0.5

    def changed(self, name: str | None, nu: float | None) -> "PolicyChoice":
        """Return the choice with what the caller says instead; None leaves it as it is."""
        return PolicyChoice(self.name if name is None else name, self.nu if nu is None else nu)


MOST_STRENGTH = 1e4


class SharePrior(NamedTuple):
    """The distribution of items' shares of satisfied reactions (docs/maths.md, section Chance).

    The share of an item with n reactions in the log, s of them satisfied, is Beta(K p + s, K (1 - p) + n - s), where p,
    the mean of items that are as well known, is sigmoid(intercept + slope log(1 + n)). That an item is new says nothing
    about how many will react to it: its p and K are those of all items.
    """

    intercept: float
    slope: float
    strength: float
    """K: reactions that the prior is worth."""
    new_mean: float
    """p of a new item."""
    new_strength: float
    """K of a new item."""

    def of(self, reactions: IntArray, is_new: BoolArray) -> tuple[FloatArray, FloatArray]:
        """Return the parameters of each item's Beta, from reactions and successes, (items, 2)."""
        n, successes = reactions[:, 0].astype(np.float64), reactions[:, 1].astype(np.float64)
        mean = np.where(is_new, self.new_mean, sigmoid(self.intercept + self.slope * np.log1p(n)))
        strength = np.where(is_new, self.new_strength, self.strength)
        return strength * mean + successes, strength * (1.0 - mean) + n - successes


@dataclass(frozen=True)
class Calibration:
    """Numbers that turn what a belief says of z, the logit of liking an item, into a chance that comes true."""

    slope: float = 1.0
    """Factor on the mean of z."""
    shift: float = 0.0
    """Added after that."""
    spread: float = 1.0
    """Factor on the standard deviation of z."""
    shares: SharePrior | None = None
    """Prior of the items' shares of satisfied reactions; None: they are unknown."""

    def __post_init__(self) -> None:
        """Refuse numbers under which a better expectation would be a smaller chance."""
        if not (all(map(isfinite, (self.slope, self.shift, self.spread))) and self.slope > 0 and self.spread >= 0):
            raise ModelError(f"a calibration needs finite numbers, slope > 0 and spread >= 0, got {self}")


@dataclass(frozen=True)
class RecordTemperature:
    """Numbers that divide the evidence of a logged record: above 1 it moves a belief less than if it had been shown."""

    linear: float = 1.0
    """In linear channels."""
    logistic: float = 1.0
    """In logistic channels."""
    absence: float = 1.0
    """Divides once more the evidence that other items are absent from the record."""

    def __post_init__(self) -> None:
        """Refuse temperatures that are not positive and finite."""
        if not all(isfinite(each) and each > 0.0 for each in (self.linear, self.logistic, self.absence)):
            raise ModelError(f"the temperatures of a record must be finite numbers above 0, got {self}")


@dataclass(frozen=True)
class Usage:
    """What training decided about the use of a model; a model that says nothing of it is used as the paper does."""

    objective: Objective = "hit"
    """What is ranked by: `hit`, seen and liked (the paper's protocol), or `liking`, liked if seen."""
    policy: PolicyChoice = field(default_factory=PolicyChoice)
    calibration: Calibration = field(default_factory=Calibration)
    is_ordered: bool = False
    """Whether a better reaction never leaves an item worse off also where the objective is hit."""
    record_temperature: RecordTemperature = field(default_factory=RecordTemperature)

    def __post_init__(self) -> None:
        """Refuse an unknown objective."""
        if self.objective not in get_args(Objective):
            raise ModelError(f"objective must be one of {', '.join(get_args(Objective))}, got {self.objective!r}")

    @classmethod
    def from_dict(cls, saved: Mapping[str, Any]) -> "Usage":
        """Build it from what `asdict` gave; what is missing has its default."""
        calibration = dict(saved.get("calibration", {}))
        if calibration.get("shares") is not None:
            calibration["shares"] = SharePrior(*map(float, calibration["shares"]))
        policy, temperature = PolicyChoice(**saved.get("policy", {})), saved.get("record_temperature", {})
        own = Calibration(**calibration), bool(saved.get("is_ordered", False)), RecordTemperature(**temperature)
        return cls(saved.get("objective", "hit"), policy, *own)


def fit_shares(reactions: IntArray) -> SharePrior | None:
    """Fit the prior to reactions and successes, (items, 2); None where no item has both kinds of reactions."""
    from scipy.optimize import minimize
    from scipy.special import betaln

    pairs, times = np.unique(reactions[reactions[:, 0] > 0], axis=0, return_counts=True)
    if not len(pairs) or pairs[:, 1].sum() == 0 or (pairs[:, 0] == pairs[:, 1]).all():
        return None

    def prior_at(numbers: FloatArray) -> SharePrior:
        logit, log_strength = numbers[-2:]
        strengths = [float(np.exp(min(each, np.log(MOST_STRENGTH)))) for each in (numbers[2], log_strength)]
        return SharePrior(float(numbers[0]), float(numbers[1]), strengths[0], float(sigmoid(logit)), strengths[1])

    def loss(numbers: FloatArray, is_new: bool) -> float:
        alpha, beta = prior_at(numbers).of(pairs, np.full(len(pairs), is_new))
        own = betaln(alpha, beta) - betaln(alpha - pairs[:, 1], beta - (pairs[:, 0] - pairs[:, 1]))
        return float(-(times * own).sum())

    def known(own: FloatArray) -> float:
        return loss(np.append(own, (0.0, 0.0)), False) + 0.5 * (float(own[1]) ** 2 + (float(own[2]) - 2.0) ** 2)

    def new(own: FloatArray) -> float:
        return loss(np.append((0.0, 0.0, 0.0), own), True) + 0.5 * (float(own[1]) - 2.0) ** 2

    starts = ((known, [0.0, 0.0, 2.0]), (new, [0.0, 2.0]))
    return prior_at(np.concatenate([minimize(each, start, method="Nelder-Mead").x for each, start in starts]))


def logits(alpha: FloatArray, beta: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the logit of each mean share, and the variance of the logit to first order."""
    return np.log(alpha / beta), (alpha + beta) ** 2 / (alpha * beta * (alpha + beta + 1.0))
