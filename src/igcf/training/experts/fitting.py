"""The experts of one log, each fitted when it is first needed, and the model of one choice of settings."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
import scipy.sparse as sp

from igcf.arrays import IntArray
from igcf.config import ExpertsConfig
from igcf.model import Model, Reward
from igcf.training.experts.assembling import ACTIVITY_VARIANCE, Experts, ensemble_model
from igcf.training.experts.grades import grade_thresholds
from igcf.training.experts.item_age import age_corrected_linear, age_corrected_logistic, growth_since_appearance
from igcf.training.experts.kept import Kept
from igcf.training.experts.linear import (
    FULL_COMPONENTS,
    LinearExpert,
    fit_linear_on,
    hold_rows,
    shrunk_beyond_leading,
)
from igcf.training.experts.logistic import LogisticExpert, fit_logistic, sampled_users
from igcf.training.experts.part import Part
from igcf.training.experts.playing import Players
from igcf.training.experts.shared_log import SharedLog

MOST_USERS_OF_MAP = 200_000
"""Number of users whose successes the map between items is learned from; more are drawn from."""
Say: TypeAlias = Callable[[str, int, int], None]
"""A function that is told the name of the stage, the steps done and all steps."""


@dataclass(frozen=True)
class Choice:
    """Settings that validation users decide."""

    dim: int
    """Number of components of the linear expert."""
    activity: float
    """Exponent of the users' weights in the linear expert: how much more the active users count."""
    likelihood_temperature: float
    """Divides the evidence of every reaction: above 1 the belief moves more slowly than the likelihood says."""
    item_age_correction: bool = False
    """Whether an item that appeared late is judged by the users since then."""
    prior_from_validation: bool = False
    """Whether the prior of new users is that of the validation users."""


class Fits:
    """The experts of one log, each fitted when it is first needed, or read where an earlier run had fitted it."""

    def __init__(
        self,
        log: SharedLog,
        config: ExpertsConfig,
        reward: Reward,
        say: Say,
        activity_variance: float = ACTIVITY_VARIANCE,
        kept: Kept | None = None,
    ) -> None:
        self.earlier: LogisticExpert | None = None
        """Logistic expert of most of the same users, from which a few more iterations are enough."""
        self.log, self.config, self.reward, self.say = log, config, reward, say
        self.kept = kept or Kept(None)
        self.players = Players(log.executor)
        self._activity_variance = activity_variance
        self.above, self.below = grade_thresholds(*log.levels, reward.threshold) if config.grades else ((), ())
        self.growth = None if config.item_age_correction is False else growth_since_appearance(log)
        """Factor by which each item's share of users grows since its appearance; None where it is not used."""
        self._linear: dict[tuple[int, float], LinearExpert] = {}
        self._logistic: LogisticExpert | None = None

    def of(self, log: SharedLog, kept: Kept) -> "Fits":
        """Return the experts of another log with the same settings."""
        return Fits(log, self.config, self.reward, self.say, self._activity_variance, kept)

    def linear(self, dim: int, activity: float) -> LinearExpert:
        """Return the linear expert of these settings; components beyond the first 48 are shrunk."""
        if (dim, activity) not in self._linear:
            kept = self.kept.stage(f"linear-{dim}-{activity}")
            found = None if kept is None else kept.load()
            if found is None:
                self.say("linear expert", 0, 1)
                expert = fit_linear_on(
                    self.log.executor, self._held_rows(), dim, activity=activity, seed=self.config.seed
                )
                if kept is not None:
                    kept.save(vars(expert))
            else:
                expert = LinearExpert(**found)
            self._linear[dim, activity] = shrunk_beyond_leading(expert)
        return self._linear[dim, activity]

    def _held_rows(self) -> list[int]:
        """Let the workers hold the rows of this log; return how many users each of them has."""
        executor = self.log.executor
        if executor.held is not self:
            thresholds = (self.reward.threshold, -np.inf, *self.above)
            self._n_held = executor.call(hold_rows, thresholds, each=self.log.left_out())
            executor.held = self
        return self._n_held

    def logistic(self) -> LogisticExpert:
        """Return the logistic expert."""
        if self._logistic is None:
            config, log = self.config, self.log
            users = log.users[sampled_users(len(log.users), log.n_items, seed=config.seed)]
            sample = Part.of(log.only_users(users))
            rows = np.arange(len(users))
            grades = (self.reward.threshold, *self.above, *self.below)
            self._logistic = fit_logistic(
                sample.table(rows, -np.inf),
                [sample.table(rows, threshold) for threshold in grades],
                self.earlier or self.linear(max(config.logistic_dim, FULL_COMPONENTS), 0.0),
                config if self.earlier is None else replace(config, iterations=-(-config.iterations // 3)),
                progress=lambda done, total: self.say("logistic expert", done, total),
                executor=log.executor,
                kept=self.kept.stage("logistic"),
            )
        return self._logistic

    def model(self, choice: Choice, metadata: dict[str, Any] | None = None) -> Model:
        """Build the model of one choice."""
        linear, logistic = self.linear(choice.dim, choice.activity), self.logistic()
        if choice.item_age_correction and self.growth is not None:
            linear = age_corrected_linear(linear, self.growth)
            logistic = age_corrected_logistic(logistic, self.growth, self.log.item_counts / len(self.log.users))
        return ensemble_model(
            self.log.catalogue,
            self.reward,
            Experts(linear, logistic, self.above, self.below, self.appeared),
            choice.likelihood_temperature,
            activity_variance=self._activity_variance,
            objective=self.config.objective,
            metadata=metadata,
        )

    @cached_property
    def appeared(self) -> IntArray | None:
        """Time of the first reaction to each item."""
        return self.log.first_appearances()

    def successes(self) -> sp.csr_array:
        """Return (users, items) ones where a reaction is a success, for everybody who reacted or many drawn of them."""
        self.log.executor.held = None  # what is done with them takes the place of the rows
        users = self.log.users
        if len(users) > MOST_USERS_OF_MAP:
            users = np.sort(np.random.default_rng(self.config.seed).choice(users, MOST_USERS_OF_MAP, replace=False))
        return self.log.successes(self.reward.threshold, users)
