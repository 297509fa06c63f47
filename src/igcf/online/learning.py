"""From reactions to a belief, one by one or from a whole history; monotone where a model needs it.

Where several channels learn from one reaction, a higher value can lower what is expected of the item, and a failure can
raise it. The reaction then counts as the best class up to its own that keeps the order, or as nothing (docs/maths.md,
section Monotone learning).
"""

from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping

import numpy as np

from igcf.arrays import FloatArray, IntArray
from igcf.model import Model
from igcf.online import backend
from igcf.online.backend.types import BlockRewards, Channels, Classes
from igcf.online.belief import Belief, decay
from igcf.online.chance import ChanceScale

STEPS = ("satisfied", "exposed", "liked")  # kinds of rewards that are steps: finitely many classes of values


def prior_belief(model: Model) -> Belief:
    """Return the belief about a user before the first reaction."""
    return Belief(model.prior_mean, model.prior_cov)


Shifts = Mapping[int, FloatArray]
"""How far the context of a reaction moved the user's vector, by the row of the item; others were made in none."""
NO_SHIFTS: Shifts = {}


def beliefs_along(
    model: Model,
    rows: list[int],
    values: list[float],
    forgetting: float,
    start: Belief | None = None,
    shifts: Shifts = NO_SHIFTS,
) -> Iterator[tuple[FloatArray, FloatArray]]:
    """Yield mean and covariance after each reaction of a history, oldest first, from `start` or the prior.

    A reaction counts net of the shift that its context made. Both arrays are overwritten by the next reaction.
    """
    prior, learn = prior_belief(model), _learner(model, rows, values)
    mean, cov = _copied(start or prior)
    for place, row in enumerate(rows):
        if forgetting != 1.0:
            mean, cov = map(np.ascontiguousarray, decay(mean, cov, prior, forgetting))
        shift = shifts.get(row)
        if shift is None:
            learn(mean, cov, slice(place, place + 1))
        else:
            mean += shift
            learn(mean, cov, slice(place, place + 1))
            mean -= shift
        yield mean, cov


def belief_from_history(
    model: Model,
    rows: list[int],
    values: list[float],
    forgetting: float,
    start: Belief | None = None,
    shifts: Shifts = NO_SHIFTS,
) -> Belief:
    """Return the belief after a whole history, from `start` or the prior; equals learning it reaction by reaction."""
    prior = prior_belief(model)
    belief = start or prior
    is_additive = model.has_identity_links and monotone_learning(model) is None
    if not shifts and (forgetting == 1.0 or is_additive):
        kept = belief if start is None else belief.decayed(prior, forgetting ** len(rows))
        mean, cov = _copied(kept)
        weights = None if forgetting == 1.0 else np.asarray(forgetting ** np.arange(len(rows) - 1, -1, -1.0))
        _learner(model, rows, values, weights)(mean, cov, slice(None))
        return Belief(mean, cov)
    for mean, cov in beliefs_along(model, rows, values, forgetting, start, shifts):
        belief = Belief(mean, cov)
    return belief


def learned(belief: Belief, model: Model, row: int, value: float) -> Belief:
    """Return the belief after one reaction.

    Args:
        belief: What was known before; it stays as it was.
        model: The model that the belief is of.
        row: Row of the item in the model.
        value: The reaction; NaN is an item shown without a reaction.
    """
    return belief_from_history(model, [row], [value], 1.0, belief)


def _copied(belief: Belief) -> tuple[FloatArray, FloatArray]:
    return np.array(belief.mean, order="C"), np.array(belief.cov, order="C")


def _learner(
    model: Model, rows: list[int], values: list[float], weights: FloatArray | None = None
) -> Callable[[FloatArray, FloatArray, slice], None]:
    """Return what lets a mean and a covariance learn from some of the reactions, in place.

    Under a monotone model each counts as what was known when it came allows; under others it may have a weight.
    """
    monotone, items = monotone_learning(model), np.array(rows, dtype=np.int64)
    if monotone is not None:
        rules, classes = monotone.rules, monotone.classes_of(np.array(values))
        return lambda mean, cov, some: backend.loops.learn_in_turn(rules, mean, cov, items[some], classes[some])
    channels, rewards = channels_of(model), rewards_of(model, values)
    return lambda mean, cov, some: backend.loops.learn(mean, cov, channels, items[some], rewards[some], weights)


def rewards_of(model: Model, values: list[float]) -> FloatArray:
    """Return the rewards of some values in each channel of a model, shape (values, channels)."""
    numbers = np.array(values, dtype=np.float64)
    return np.stack([channel.reward.of(numbers) for channel in model.channels], axis=1)


def channels_of(model: Model) -> Channels:
    """Return the channels of a model as a backend takes them."""

    def compute() -> Channels:
        starts, is_logit = zip(*((each.start, each.link == "logit") for each in model.channels), strict=True)
        vectors, noise = zip(*((each.vectors, each.noise_var) for each in model.channels), strict=True)
        return Channels(np.array(starts), vectors, noise, np.array(is_logit))

    return model.computed("channels", compute)


class MonotoneLearning:
    """The classes of reactions of a model, and as which of them a reaction counts."""

    def __init__(self, model: Model, values: list[float]) -> None:
        self.values = values  # a value of each class, worst first
        scale, channels = ChanceScale(model), model.channels
        members = [[number in term.channels for number in range(len(channels))] for term in model.terms]
        rewards = [[channel.reward.of_one(value) for channel in channels] for value in [*values, np.nan]]
        self.rules = Classes(
            *channels_of(model),
            np.array([*rewards, [np.nan] * len(channels)]),
            np.array([value < model.reward.threshold for value in values]),
            np.array([term.weight for term in model.terms]),
            np.array(members),
            -1 if scale.liked is None else scale.liked,
            np.array([model.calibration.slope, model.calibration.shift, model.calibration.spread]),
            model.objective == "liking",
        )
        self._of_blocks = [
            tuple(tuple(each[list(numbers)].tolist()) for _, numbers in model.blocks) for each in self.rules.rewards
        ]

    def class_of(self, value: float) -> int:
        """The class of a value; the number of classes for NaN, no reaction."""
        return len(self.values) if value != value else max(bisect_right(self.values, value) - 1, 0)

    def classes_of(self, values: FloatArray) -> IntArray:
        """The class of each of some values."""
        classes = np.maximum(np.searchsorted(self.values, values, side="right") - 1, 0)
        classes[np.isnan(values)] = len(self.values)
        return np.asarray(classes, dtype=np.int64)

    def rewards_of_one(self, mean: FloatArray, cov: FloatArray, row: int, value: float) -> BlockRewards:
        """The rewards that a reaction of one user counts as, block by block."""
        counted = backend.loops.counted_class(self.rules, mean, cov, row, self.class_of(value))
        return self._of_blocks[counted]

    def rewards_of(self, means: FloatArray, covs: FloatArray, rows: IntArray, values: FloatArray) -> FloatArray:
        """The rewards that a reaction of each of many users counts as, shape (users, channels)."""
        counted = backend.loops.counted_classes(self.rules, means, covs, rows, self.classes_of(values))
        return np.asarray(self.rules.rewards[counted])


def monotone_learning(model: Model) -> MonotoneLearning | None:
    """Return how reactions are counted under a model; None where nothing needs to be decided.

    That is so where the model is used as in the paper, where a reward is a value, not a step, and where one channel
    learns and only the order is bound.
    """
    return model.computed("monotone learning", lambda: _classes(model))


def _classes(model: Model) -> MonotoneLearning | None:
    reward = model.reward
    if not all(channel.reward.kind in STEPS for channel in model.channels) or reward.kind not in STEPS:
        return None
    if model.objective != "liking" and (len(model.channels) == 1 or not model.usage.is_ordered):
        return None
    kinds = ("satisfied", "liked")
    thresholds = {channel.reward.threshold for channel in model.channels if channel.reward.kind in kinds}
    worst = reward.low if reward.threshold > reward.low else reward.low - 1.0  # one below the lowest if that succeeds
    return MonotoneLearning(model, [worst, *sorted(each for each in thresholds if each > worst)])
