"""What another policy would have achieved, estimated from a log with propensities; NumPy only.

Clipped and self-normalised inverse propensity weighting, and the doubly robust estimator of Dudík, Langford and Li
(2011). A slate counts slot by slot: under the item-position model of Li et al. (2018) the reward of a slot depends on
its own item, under the cascade model of McInerney et al. (2020) also on the items above it; for single items both are
the same.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from math import sqrt
from typing import Any, Literal

import numpy as np

from igcf.arrays import BoolArray, FloatArray, IntArray
from igcf.errors import DataError

Z = 1.959964
FOLDS = 5
MOST_MISSING = 0.05  # share of the candidate's items that the log never shows, beyond which there is no conclusion
LEAST_SIZE = 100.0  # effective sample size below which there is no conclusion
Kind = Literal["item-position", "cascade"]


@dataclass(frozen=True, eq=False)
class LoggedSlates:
    """Answers of a log, and what a candidate makes of them; arrays of shape (answers, slots), NaN: no such slot."""

    rewards: FloatArray
    propensities: FloatArray  # probability of each item in its slot when it was logged, given the items above it
    slot_propensities: FloatArray  # the same whatever stood above it; NaN: not known
    candidate: FloatArray  # probability of each logged item in its slot under the candidate, given the items above it
    candidate_slots: FloatArray  # the same whatever stands above it
    expected: FloatArray  # what the candidate's model expects of each logged item
    own: FloatArray  # what it expects of the item that the candidate would show in the slot
    users: IntArray | None = (
        None  # whose answers they are, (answers,), as these depend on each other; None: independent
    )

    def at(self, rows: BoolArray | IntArray) -> "LoggedSlates":
        """Return some of the answers."""
        found: dict[str, Any] = {name: None if own is None else own[rows] for name, own in vars(self).items()}
        return LoggedSlates(**found)


@dataclass(frozen=True)
class Estimate:
    """A mean per answer with its 95 % interval."""

    name: str
    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Diagnostics:
    """How far a log carries under a model of rewards."""

    kind: Kind
    effective_size: float  # number of answers of the candidate itself that would be as informative
    largest_weight: float
    missing: float  # estimated share of what the candidate would show that the log never shows
    missing_error: float
    refusal: str | None  # why nothing may be concluded; None: it may


@dataclass(frozen=True)
class Evaluation:
    """What a log says about a candidate."""

    answers: int
    logged: Estimate  # what the logged answers achieved
    estimates: tuple[Estimate, ...]
    difference: Estimate  # what the candidate achieves more, doubly robust
    diagnostics: tuple[Diagnostics, ...]

    @property
    def refusal(self) -> str | None:
        """Why nothing may be concluded about the difference; None: it may."""
        return self.diagnostics[0].refusal

    @property
    def verdict(self) -> Literal["better", "worse", "undecided"]:
        """Better or worse where the log allows a conclusion and the interval leaves zero out."""
        if self.refusal is not None:
            return "undecided"
        return "better" if self.difference.low > 0 else "worse" if self.difference.high < 0 else "undecided"

    def lines(self) -> Iterator[str]:
        """Yield the evaluation for people, line by line; the last one is the conclusion."""
        for estimate in (self.logged, *self.estimates, self.difference):
            yield f"{estimate.name:33} {estimate.value:8.4f}   {estimate.low:.4f} to {estimate.high:.4f}"
        for each in self.diagnostics:
            size = f"effective size {each.effective_size:,.0f} of {self.answers:,} answers"
            missing = f"{max(each.missing, 0.0):.1%} of what the candidate shows is not in the log"
            yield f"{each.kind}: {size}, largest weight {each.largest_weight:,.1f}, {missing}"
        yield from (f"{each.kind}: {each.refusal}" for each in self.diagnostics[1:] if each.refusal is not None)
        yield self.refusal or f"successes per answer, candidate against log: {self.verdict}"


def evaluate(log: LoggedSlates) -> Evaluation:
    """Estimate the rewards per answer of a candidate."""
    is_known = np.asarray(np.isfinite(np.where(np.isnan(log.rewards), 1.0, log.propensities)).all(axis=1))
    if not is_known.any():
        raise DataError(
            f"none of {len(log.rewards):,} answers has propensities; log them with `igcf serve --explore 0.05`"
        )
    log = log.at(is_known)
    is_slot = ~np.isnan(log.rewards)
    reward = np.where(is_slot, log.rewards, 0.0)
    expected, own = direct_method(log)
    logged, weights_by_kind = reward.sum(axis=1), _weights(log, is_slot)
    estimates: list[Estimate] = []
    for kind, weights in weights_by_kind.items():
        prefix = "" if log.rewards.shape[1] == 1 else f"{kind} "
        clipped = np.minimum(weights, sqrt(len(weights)))
        robust = (own + weights * (reward - expected)).sum(axis=1)
        if not estimates:
            difference = _mean("difference", robust - logged, log.users)
        estimates += [
            _mean(f"{prefix}ips, clipped", (clipped * reward).sum(axis=1), log.users),
            _ratio(f"{prefix}self-normalised ips", weights, reward, is_slot, log.users),
            _mean(f"{prefix}doubly robust", robust, log.users),
        ]
    found = tuple(_diagnostics(kind, each, is_slot, log.users) for kind, each in weights_by_kind.items())
    return Evaluation(len(reward), _mean("logged", logged, log.users), tuple(estimates), difference, found)


def direct_method(log: LoggedSlates) -> tuple[FloatArray, FloatArray]:
    """Return the expected success of logged items and of the candidate's own, by a line through the model's chances.

    The line is fitted on the answers to other users (cross-fitting), so that no reward predicts itself.
    """
    is_slot = ~np.isnan(log.rewards)
    units = np.arange(len(log.rewards)) if log.users is None else log.users
    folds = (units % FOLDS)[:, None] * np.ones_like(is_slot, dtype=np.int64)
    expected, own = np.zeros((2, *log.rewards.shape))
    for fold in range(FOLDS):
        fitted, used = is_slot & (folds != fold), is_slot & (folds == fold)
        x, y = (log.expected[fitted], log.rewards[fitted]) if fitted.any() else (np.zeros(1), np.zeros(1))
        spread = float(x.var())
        slope = float(((x - x.mean()) * (y - y.mean())).mean()) / spread if spread > 1e-12 else 0.0
        level = float(y.mean() - slope * x.mean())
        expected[used], own[used] = level + slope * log.expected[used], level + slope * log.own[used]
    return expected, own


def _weights(log: LoggedSlates, is_slot: BoolArray) -> dict[Kind, FloatArray]:
    """Return the weight of each slot by the model of rewards; without slot propensities the cascade's alone."""
    ratio = np.where(is_slot, log.candidate, 1.0) / np.where(is_slot, log.propensities, 1.0)
    cascade = np.where(is_slot, ratio.cumprod(axis=1), 0.0)
    if log.rewards.shape[1] == 1 or np.isnan(log.slot_propensities[is_slot]).any():
        return {"cascade": cascade}
    by_slot = np.where(is_slot, log.candidate_slots, 0.0) / np.where(is_slot, log.slot_propensities, 1.0)
    return {"item-position": by_slot, "cascade": cascade}


def _error(values: FloatArray, users: IntArray | None) -> float:
    """Return the standard error of a sum of centred values; users are the independent units."""
    if users is not None:
        values = np.asarray(np.bincount(np.unique(users, return_inverse=True)[1], weights=values), dtype=np.float64)
    n = len(values)
    return sqrt(float(np.square(values).sum()) * n / max(n - 1, 1))


def _mean(name: str, values: FloatArray, users: IntArray | None) -> Estimate:
    value = float(values.mean())
    wide = Z * _error(values - value, users) / len(values)
    return Estimate(name, value, value - wide, value + wide)


def _ratio(name: str, weights: FloatArray, reward: FloatArray, is_slot: BoolArray, users: IntArray | None) -> Estimate:
    """Return the sum over slots of the weighted mean rewards, by the delta method; slots without weight bring none."""
    total = weights.sum(axis=0)
    mean = np.divide((weights * reward).sum(axis=0), total, out=np.zeros(len(total)), where=total > 0)
    scale = np.divide(is_slot.sum(axis=0), total, out=np.zeros(len(total)), where=total > 0)
    value = float((mean * is_slot.mean(axis=0)).sum())
    wide = Z * _error((scale * weights * (reward - mean)).sum(axis=1), users) / len(reward)
    return Estimate(name, value, value - wide, value + wide)


def _diagnostics(kind: Kind, weights: FloatArray, is_slot: BoolArray, users: IntArray | None) -> Diagnostics:
    n_slots = is_slot.sum()
    total, squares = float(weights.sum()), float(np.square(weights).sum())
    missing = 1 - total / float(n_slots)
    error = _error(np.where(is_slot, 1 - weights - missing, 0.0).sum(axis=1), users) / float(n_slots)
    size = 0.0 if squares == 0 else total**2 / squares / weights.shape[1]
    return Diagnostics(kind, size, float(weights.max()), missing, error, _refusal(size, missing, error))


def _refusal(size: float, missing: float, error: float) -> str | None:
    if missing - error > MOST_MISSING:
        found = f"the log never shows about {missing:.0%} of what the candidate would show"
        return f"no conclusion: {found}; serve with `--explore` for some time, or try the candidate in an experiment"
    if size < LEAST_SIZE:
        found = f"the log is worth {size:.0f} answers of the candidate, at least {LEAST_SIZE:.0f} are needed"
        return f"no conclusion: {found}; log more answers, or explore a larger share"
    return None
