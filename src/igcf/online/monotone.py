"""Monotone learning: a better reaction never leaves an item worse off (docs/maths.md, section Monotone learning).

Where several channels learn from one reaction, a higher value can lower what is expected of the item, and a failure can
raise it. The reaction then counts as the best class up to its own that keeps the order, or as nothing.
"""

from bisect import bisect_right

import numpy as np

from igcf.arrays import FloatArray, IntArray
from igcf.model import Model
from igcf.online import backend
from igcf.online.backend.types import BlockRewards, Classes
from igcf.online.chance import ChanceScale

STEPS = ("satisfied", "exposed", "liked")
"""Kinds of rewards that are steps: finitely many classes of values."""


class MonotoneLearning:
    """The classes of reactions of a model, and as which of them a reaction counts."""

    def __init__(self, model: Model, values: list[float]) -> None:
        self.values = values
        """A value of each class, worst first."""
        scale, channels = ChanceScale(model), model.channels
        members = [[number in term.channels for number in range(len(channels))] for term in model.terms]
        rewards = [[channel.reward.of_one(value) for channel in channels] for value in [*values, np.nan]]
        self.rules = Classes(
            np.array([channel.start for channel in channels]),
            tuple(channel.vectors for channel in channels),
            tuple(channel.noise_var for channel in channels),
            np.array([channel.link == "logit" for channel in channels]),
            np.array([*rewards, [np.nan] * len(channels)]),
            np.array([value < model.reward.threshold for value in values]),
            np.array([term.weight for term in model.terms]),
            np.array(members),
            np.array([*scale.channels, -1, -1][:2]),
            scale.prior_ratio if scale.form == "ratio" else np.zeros(0),
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
    return model.computed("monotone learning", lambda: _made(model))


def worst_value(model: Model) -> float:
    """Return the worst reaction: the log's lowest value, or one below it where that is a success."""
    reward = model.reward
    return reward.low if reward.threshold > reward.low else reward.low - 1.0


def _made(model: Model) -> MonotoneLearning | None:
    reward = model.reward
    if not all(channel.reward.kind in STEPS for channel in model.channels) or reward.kind not in STEPS:
        return None
    if model.objective != "liking" and (len(model.channels) == 1 or not model.usage.is_ordered):
        return None
    kinds = ("satisfied", "liked")
    thresholds = {channel.reward.threshold for channel in model.channels if channel.reward.kind in kinds}
    worst = worst_value(model)
    return MonotoneLearning(model, [worst, *sorted(each for each in thresholds if each > worst)])
