"""How a model is used: what it ranks by, how it explores, and how its chances are calibrated."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import isfinite
from typing import Any, NamedTuple, get_args

import numpy as np

from igcf.arrays import FloatArray, IntArray
from igcf.config import Objective
from igcf.errors import ModelError
from igcf.model.channel import sigmoid


@dataclass(frozen=True)
class PolicyChoice:
    """A policy by name, with the exploration `nu` of `ucb`."""

    name: str = "ucb"
    nu: float = 0.5

    def changed(self, name: str | None, nu: float | None) -> "PolicyChoice":
        """Return the choice with what the caller says instead; None leaves it as it is."""
        return PolicyChoice(self.name if name is None else name, self.nu if nu is None else nu)


@dataclass(frozen=True)
class Calibration:
    """Numbers that turn what a belief says of z, the logit of liking an item, into a chance that comes true."""

    slope: float = 1.0
    """Factor on the mean of z."""
    shift: float = 0.0
    """Added after that."""
    spread: float = 1.0
    """Factor on the standard deviation of z."""
    share_intercept: float = 0.0
    """Prior of the items' shares of satisfied reactions, see `SharePrior`."""
    share_slope: float = 0.0
    share_strength: float = 0.0
    """0: nothing is known of shares."""

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

    def __post_init__(self) -> None:
        """Refuse what is no temperature."""
        if not all(isfinite(each) and each > 0.0 for each in (self.linear, self.logistic)):
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
        policy, calibration = saved.get("policy", {}), saved.get("calibration", {})
        objective, is_ordered = saved.get("objective", "hit"), bool(saved.get("is_ordered", False))
        temperature = RecordTemperature(**saved.get("record_temperature", {}))
        return cls(objective, PolicyChoice(**policy), Calibration(**calibration), is_ordered, temperature)


MOST_STRENGTH = 1e4


class SharePrior(NamedTuple):
    """What is believed of an item's share before the first reaction to it."""

    intercept: float
    slope: float
    strength: float
    """Reactions that the prior is worth."""

    def of(self, reactions: IntArray) -> tuple[FloatArray, FloatArray]:
        """Return the parameters of each item's Beta, from reactions and successes, (items, 2)."""
        n, successes = reactions[:, 0].astype(np.float64), reactions[:, 1].astype(np.float64)
        mean = sigmoid(self.intercept + self.slope * np.log1p(n))
        return self.strength * mean + successes, self.strength * (1.0 - mean) + n - successes


def fit_shares(reactions: IntArray) -> SharePrior | None:
    """Fit the prior to reactions and successes, (items, 2); None where no item has both kinds of reactions."""
    from scipy.optimize import minimize
    from scipy.special import betaln

    pairs, times = np.unique(reactions[reactions[:, 0] > 0], axis=0, return_counts=True)
    if not len(pairs) or pairs[:, 1].sum() == 0 or (pairs[:, 0] == pairs[:, 1]).all():
        return None

    def loss(numbers: FloatArray) -> float:
        prior = SharePrior(float(numbers[0]), float(numbers[1]), float(np.exp(min(numbers[2], np.log(MOST_STRENGTH)))))
        alpha, beta = prior.of(pairs)
        own = betaln(alpha, beta) - betaln(alpha - pairs[:, 1], beta - (pairs[:, 0] - pairs[:, 1]))
        return float(-(times * own).sum() + 0.5 * (numbers[1] ** 2 + (numbers[2] - 2.0) ** 2))

    found = minimize(loss, [0.0, 0.0, 2.0], method="Nelder-Mead").x
    return SharePrior(float(found[0]), float(found[1]), float(np.exp(min(found[2], np.log(MOST_STRENGTH)))))


def logits(alpha: FloatArray, beta: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the logit of each mean share, and the variance of the logit to first order."""
    return np.log(alpha / beta), (alpha + beta) ** 2 / (alpha * beta * (alpha + beta + 1.0))
