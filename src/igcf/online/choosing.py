"""What one answer shows and how likely that was: selection, a trial of a new item, exploration."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from igcf.arrays import BoolArray
from igcf.errors import NoItemsLeftError
from igcf.online.backend.types import MakeRng, Selection
from igcf.online.engine import ScoringEngine
from igcf.online.exploration import Explorer, Odds
from igcf.online.policies import OneOfDraws, Policy
from igcf.online.selection import selection_details
from igcf.online.slates import CompiledRules

WithTrial = Callable[[Selection], tuple[Selection, int | None]]
"""Replaces the last item of a selection by a trial of a new item if one is due; returns its row, or None."""


@dataclass(frozen=True, eq=False)
class Choosing:
    """What is asked for one user."""

    policy: Policy
    engine: ScoringEngine
    available: BoolArray  # what may be shown, (1, items): at least `k` items
    k: int
    n_shown: int  # the items after so many are kept in reserve
    rules: CompiledRules | None
    make_rng: MakeRng
    explore: float = 0.0  # share of the slots that are drawn

    def choose(self, with_trial: WithTrial | None) -> tuple[Selection, Odds]:
        """Select the items; with the trials of new items, if there are any."""
        found, trial = None, None
        if with_trial is not None:
            found, trial = with_trial(self._select(self.available, self.k))
        if self.explore:
            explorer = Explorer(self.explore, self.n_shown - (trial is not None), self.make_rng)
            try:
                explored = self._explored(explorer, trial)
                return explored, self._odds(explored, explorer, trial)
            except NoItemsLeftError:  # a draw used up the caps: none then, and how likely that was is not known
                return found or self._select(self.available, self.k), Odds.unknown(self.n_shown)
        found = found or self._select(self.available, self.k)
        return found, self._odds(found, None, trial)

    def _select(self, available: BoolArray, k: int, **others: Any) -> Selection:
        select = selection_details if self.rules is None else self.rules.select
        return select(self.policy, self.engine, available, k, make_rng=self.make_rng, **others)

    def _explored(self, explorer: Explorer, trial: int | None) -> Selection:
        """Select and draw; a trial stands last whatever is drawn before it."""
        if trial is None:
            return self._select(self.available, self.k, explorer=explorer)
        others, own = self._without(trial), described_trial(self.engine, trial, self.available)
        if self.k == 1:
            return own
        beside = {} if self.rules is None else {"beside": trial}
        columns: list[list[Any]] = list(self._select(others, self.k - 1, explorer=explorer, **beside))
        for number, column in enumerate(columns):
            column.insert(self.n_shown - 1, own[number][0])
        return Selection(*columns)

    def _without(self, trial: int | None) -> BoolArray:
        """What may be shown beside a trial."""
        available = self.available
        if trial is not None:
            available = available.copy()
            available[0, trial] = False
        return available

    def _odds(self, found: Selection, explorer: Explorer | None, trial: int | None) -> Odds:
        """How likely the items shown were."""
        n = self.n_shown - (trial is not None)
        ranks = list(range(1, n + 1)) if explorer is None else explorer.ranks
        if isinstance(self.policy, OneOfDraws) and ranks:
            others = self._without(trial)[0]
            rows = np.array([row for row in found.rows[: self.n_shown] if row != trial])
            seen = self.engine.ranks_in_draws(self.policy.vectors, rows, others)
            seen[self.policy.chosen] = ranks  # whatever was rounded
            odds = Odds.of_ranks(seen, int(np.count_nonzero(others)), self.explore)
        elif self.policy.propensity != "exact":
            odds = Odds.unknown(n)
        elif explorer is None:
            odds = Odds.certain(n)
        elif ranks is None:  # rules choose one item after the other
            odds = Odds(explorer.propensities[:n], [0.0] * n, Odds.unknown(n).slots)
        else:
            n_available = int(np.count_nonzero(self.available)) - (trial is not None)
            odds = Odds.of_ranks(np.array([ranks]), n_available, self.explore)
        if trial is None:
            return odds
        own = Odds.certain(1) if self.policy.propensity == "exact" else Odds.unknown(1)
        return Odds(*(a + b for a, b in zip(odds, own, strict=True)))


def described_trial(engine: ScoringEngine, row: int, available: BoolArray) -> Selection:
    """What is believed of an item that is shown for another reason than its score."""
    rows = np.array([row])
    return engine.describe(rows, engine.means_at(rows)[0], available[0])
