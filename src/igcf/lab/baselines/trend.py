"""`igcf-trend`, `ease-trend`, `als-trend`: what a method expects, times how much an item is wanted lately.

A shop has the same by a number `trend` of its items and the rule `{"weight": "trend", "strength": 1}`.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from igcf.arrays import AnyFloatArray, BoolArray, Float32Array
from igcf.lab.baselines.history import HistoryLearner
from igcf.lab.baselines.simple import satisfied_counts
from igcf.lab.baselines.task import Method, Settings, Task
from igcf.online import Learner, ModelLearner, Policy, ScoringEngine
from igcf.online.selection import policy_scores

SETTINGS = {"days": 30.0, "trend": 0.5, "relative": 0.5}
GRID = {"days": (7.0, 14.0, 30.0, 60.0), "trend": (0.5, 1.0, 1.5), "relative": (0.0, 0.5, 1.0)}


@dataclass(frozen=True)
class Weighted(Policy):
    """A policy with its scores multiplied by one weight per item."""

    own: Policy
    weights: Float32Array

    def scores(self, engine: ScoringEngine, available: BoolArray, *, rng: np.random.Generator) -> AnyFloatArray:
        """Return the weighted scores."""
        return policy_scores(self.own, engine, available, lambda: rng) * self.weights


def trend_weights(task: Task, settings: Settings) -> Float32Array:
    """Return ((recent + 1) / (expected + 1)^relative)^trend of each item, for the successes of the last `days`.

    `expected` is what an item would have had of them by its popularity ever: `relative` 1 asks how far it rises, 0 how
    popular it is now.
    """
    recent, ever = satisfied_counts(task, settings["days"]), satisfied_counts(task)
    expected = ever * recent.sum() / max(ever.sum(), 1.0)
    return np.asarray(((recent + 1.0) / (expected + 1.0) ** settings["relative"]) ** settings["trend"], np.float32)


def with_trend(method: Method) -> Method:
    """Return the method with its scores weighted by the trend; its own settings are unchanged."""

    def own(settings: Settings) -> dict[str, Any]:
        return {name: value for name, value in settings.items() if name not in SETTINGS}

    def fit(task: Task, settings: Settings, rng: np.random.Generator) -> tuple[Any, Task]:
        everybody = task if method.is_refitted else task.refitted()
        return method.fit(task, own(settings), rng), everybody

    def play(fitted: tuple[Any, Task], settings: Settings) -> Learner:
        learner, weights = method.play(fitted[0], own(settings)), trend_weights(fitted[1], settings)
        if isinstance(learner, ModelLearner):
            learner.policy = Weighted(learner.policy, weights)
        elif isinstance(learner, HistoryLearner):
            learner.weights = weights
        return learner

    return replace(
        method,
        name=f"{method.name}-trend",
        fit=fit,
        play=play,
        defaults={**method.defaults, **SETTINGS},
        online=method.online | frozenset(SETTINGS),
        known_grid=GRID,
        needs_logged=True,
        variants={},
    )
