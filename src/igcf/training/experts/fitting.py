"""The experts of one log, each fitted when it is first needed, and the model of one choice of settings."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np
import scipy.sparse as sp

from igcf.arrays import AnyFloatArray, IntArray
from igcf.config import ExpertsConfig
from igcf.model import Model, Reward
from igcf.model.usage import NO_SUCCESS
from igcf.training.checkpoint import Checkpoint
from igcf.training.experts.assembling import Experts, ensemble_model
from igcf.training.experts.linear import LinearExpert, fit_linear_on, hold_rows
from igcf.training.experts.logistic import LogisticExpert, fit_logistic, sampled_users
from igcf.training.experts.logistic_steps import WITHOUT_OPINION
from igcf.training.experts.rare_items import with_rare_items
from igcf.training.experts.shared_log import Part, SharedLog

MOST_USERS_OF_GRAPH = 200_000  # number of users of the graph that serves known users; a random sample of more
Say: TypeAlias = Callable[[str, int, int], None]
"""Called with the name of the stage, the number of finished steps and their total."""


class Fits:
    """The experts of one log, each fitted when it is first needed, or read where an earlier run had fitted it."""

    def __init__(
        self,
        log: SharedLog,
        config: ExpertsConfig,
        reward: Reward,
        say: Say,
        checkpoint: Checkpoint | None = None,
        everything: SharedLog | None = None,
    ) -> None:
        self.everything = everything
        """The log including the rare items, which `log` leaves out and the model has; None: no rare items."""
        self.earlier: Fits | None = None
        """Experts of most of the same users, from which little more work is enough."""
        self.log, self.config, self.reward, self.say = log, config, reward, say
        self.checkpoint = checkpoint or Checkpoint()
        self.above, self.below = grade_thresholds(*log.levels, reward.threshold) if config.grades else ((), ())
        self._linear: LinearExpert | None = None
        self._logistic: LogisticExpert | None = None
        self._models: dict[float, Model] = {}

    def linear(self) -> LinearExpert:
        """Return the linear expert."""
        if self._linear is None:
            found = self.checkpoint.load("linear")
            if found is None:
                self.say("linear expert", 0, 1)
                executor, n_users, config = self.log.executor, sum(self._held_rows()), self.config
                start = self.earlier.linear() if self.earlier else None
                found = vars(fit_linear_on(executor, n_users, config.linear_dim, seed=config.seed, start=start))
                self.checkpoint.save("linear", found)
            self._linear = LinearExpert(**found)
        return self._linear

    def _held_rows(self) -> list[int]:
        """Let the workers hold the rows of this log; return how many users each of them has."""
        executor = self.log.executor
        if executor.held is not self:
            thresholds = (self.reward.threshold, -np.inf, *self.above)
            self._n_held = executor.call(hold_rows, thresholds, self.log.items, each=self.log.left_out())
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
                self._exposures(sample),
                [sample.table(rows, threshold) for threshold in grades],
                self.earlier.logistic() if self.earlier else self.linear(),
                config,
                progress=lambda done, total: self.say("logistic expert", done, total),
                executor=log.executor,
                checkpoint=self.checkpoint,
            )
        return self._logistic

    @staticmethod
    def _exposures(sample: Part) -> sp.csr_array:
        """Return (users, items) ones where there is a reaction, twos where it is without an opinion."""
        table = sample.table(np.arange(sample.n_users), -np.inf)
        table.data[np.isnan(sample.values)] = WITHOUT_OPINION
        return table

    def model(self, likelihood_temperature: float, metadata: dict[str, Any] | None = None) -> Model:
        """Build the model with one temperature; without metadata the same one is returned again."""
        if metadata is None and likelihood_temperature in self._models:
            return self._models[likelihood_temperature]
        experts = Experts(self.linear(), self.logistic(), self.above, self.below, self.log.first_appearances())
        if self.everything is not None:
            experts = with_rare_items(experts, self.log, self.everything, self.reward.threshold)
        log = self.everything or self.log
        judged = log.item_counts(self.reward.low), log.item_counts(self.reward.threshold)
        model = ensemble_model(
            log.catalogue,
            self.reward,
            replace(experts, reactions=np.stack(judged, axis=1)),
            likelihood_temperature,
            objective=self.config.objective,
            metadata=metadata,
        )
        if metadata is None:
            self._models[likelihood_temperature] = model
        return model

    def edges(self) -> sp.csr_array:
        """Return the user-item graph, (users, items): 1 for a success, less for another reaction.

        It is that of everybody who reacted, or of many drawn of them.
        """
        users = self.log.users
        if len(users) > MOST_USERS_OF_GRAPH:
            users = np.sort(np.random.default_rng(self.config.seed).choice(users, MOST_USERS_OF_GRAPH, replace=False))
        successes, reactions = (self.log.table(users, least) for least in (self.reward.threshold, -np.inf))
        return sp.csr_array((1.0 - NO_SUCCESS) * successes + NO_SUCCESS * reactions)


def grade_thresholds(
    levels: AnyFloatArray, counts: IntArray, satisfied: float
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return the values that divide the successes and the failures most evenly; () where all are equal.

    Ratings of 1 to 5 with success from 4 on: 5 and 3.

    Args:
        levels: Distinct values of the reactions, ascending.
        counts: How many reactions have each of them.
        satisfied: The value from which on a reaction is a success.
    """
    is_success = levels >= satisfied
    return _middle(levels[is_success], counts[is_success]), _middle(levels[~is_success], counts[~is_success])


def _middle(levels: AnyFloatArray, counts: IntArray) -> tuple[float, ...]:
    if len(levels) < 2:
        return ()
    share_from = counts[::-1].cumsum()[::-1][1:] / counts.sum()
    return (float(levels[1:][np.abs(share_from - 0.5).argmin()]),)
