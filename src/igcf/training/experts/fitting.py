"""The experts of one log, each fitted when it is first needed, and the model of one choice of settings."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
import scipy.sparse as sp

from igcf.config import ExpertsConfig
from igcf.data.interactions import Interactions
from igcf.model import Model, Reward
from igcf.training.experts.assembling import ACTIVITY_VARIANCE, Experts, ensemble_model
from igcf.training.experts.grades import grade_thresholds
from igcf.training.experts.item_age import age_corrected_linear, age_corrected_logistic, growth_since_appearance
from igcf.training.experts.linear import FULL_COMPONENTS, LinearExpert, fit_linear, shrunk_beyond_leading
from igcf.training.experts.logistic import LogisticExpert, fit_logistic

MOST_ITEMS = 100_000
"""Beyond this many items the logistic expert's statistics would not fit in memory; the linear one stands alone."""
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
    """The experts of one log, each fitted when it is first needed."""

    def __init__(
        self,
        data: Interactions,
        config: ExpertsConfig,
        reward: Reward,
        say: Say,
        activity_variance: float = ACTIVITY_VARIANCE,
    ) -> None:
        self.earlier: LogisticExpert | None = None
        """Logistic expert of most of the same users, from which a few more iterations are enough."""
        self.data, self.config, self.reward, self.say = data, config, reward, say
        self._activity_variance = activity_variance
        self.above, self.below = grade_thresholds(data.values, reward.threshold) if config.grades else ((), ())
        self.exposures = self._table(-np.inf)
        self.successes = self._table(reward.threshold)
        self.better = [self._table(threshold) for threshold in self.above]
        self.growth = None if config.item_age_correction is False else growth_since_appearance(data)
        """Factor by which each item's share of users grows since its appearance; None where it is not used."""
        self._linear: dict[tuple[int, float], LinearExpert] = {}
        self._logistic: LogisticExpert | None = None

    def of(self, data: Interactions) -> "Fits":
        """Return the experts of another log with the same settings."""
        return Fits(data, self.config, self.reward, self.say, self._activity_variance)

    def linear(self, dim: int, activity: float) -> LinearExpert:
        """Return the linear expert of these settings; components beyond the first 48 are shrunk."""
        if (dim, activity) not in self._linear:
            tables = [self.successes, self.exposures, *self.better]
            expert = fit_linear(tables, dim, activity=activity, seed=self.config.seed)
            self._linear[dim, activity] = shrunk_beyond_leading(expert)
        return self._linear[dim, activity]

    def logistic(self) -> LogisticExpert | None:
        """Return the logistic expert, or None for a catalogue that is too large for it."""
        if self._logistic is None and self.data.n_items <= MOST_ITEMS:
            config = self.config
            self._logistic = fit_logistic(
                self.exposures,
                [self.successes, *self.better, *(self._table(threshold) for threshold in self.below)],
                self.earlier or self.linear(max(config.logistic_dim, FULL_COMPONENTS), 0.0),
                config if self.earlier is None else replace(config, iterations=-(-config.iterations // 3)),
                progress=lambda done, total: self.say("logistic expert", done, total),
            )
        return self._logistic

    def model(self, choice: Choice, metadata: dict[str, Any] | None = None) -> Model:
        """Build the model of one choice."""
        linear, logistic = self.linear(choice.dim, choice.activity), self.logistic()
        if choice.item_age_correction and self.growth is not None:
            linear = age_corrected_linear(linear, self.growth)
            if logistic is not None:
                logistic = age_corrected_logistic(logistic, self.growth, self.exposures.mean(axis=0))
        return ensemble_model(
            self.data,
            self.reward,
            Experts(linear, logistic, self.above, self.below),
            choice.likelihood_temperature,
            activity_variance=self._activity_variance,
            objective=self.config.objective,
            metadata=metadata,
        )

    def _table(self, threshold: float) -> sp.csr_array:
        """Return (users, items) ones where a reaction has at least this value, without users who never reacted."""
        rows = np.unique(self.data.user_idx)
        table = sp.csr_array(self.data.matrix((self.data.values >= threshold).astype(np.float32))[rows])
        table.eliminate_zeros()
        return table
