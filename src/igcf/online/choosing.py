"""What one answer shows and how likely that was: what may be shown, selection, a trial of a new item, exploration."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from igcf.arrays import BoolArray
from igcf.errors import ConfigError, NoItemsLeftError
from igcf.model import Model
from igcf.online.backend.types import Selection
from igcf.online.engine import ScoringEngine
from igcf.online.exploration import Explorer, Odds
from igcf.online.policies import OneOfDraws
from igcf.online.rules import Rules, RulesWithin
from igcf.online.selection import Query
from igcf.online.slates import CompiledRules

WHOLE = (int, np.integer)


def check_k(k: int) -> None:
    """Refuse a number of items that is not a whole number of at least 1."""
    if (type(k) is not int and (isinstance(k, bool) or not isinstance(k, WHOLE))) or k < 1:
        raise ConfigError(f"k must be a whole number of at least 1, got {k!r}")


def may_show(
    model: Model,
    unseen: BoolArray,
    now: float,
    k: int,
    exclude: Iterable[str],
    candidates: Iterable[str] | None,
    rules: CompiledRules | None,
) -> BoolArray:
    """Return which of the `unseen` items, (1, items), a request made `now` may show, or refuse fewer than `k`."""
    check_k(k)
    available = unseen
    mask = model.catalogue.available(now)
    if mask is not None:
        available = available & mask
    if rules is not None and rules.allowed is not None:
        available = available & rules.allowed
    if candidates is not None:
        chosen = np.zeros_like(available)
        chosen[0, model.item_rows(candidates)] = True
        available = available & chosen
    if not isinstance(exclude, tuple) or exclude:
        available = available.copy()
        available[0, [row for row in map(model.known_row, exclude) if row is not None]] = False
    left = int(np.count_nonzero(available))
    if left < k:
        n_seen = model.n_items - int(np.count_nonzero(unseen))
        raise NoItemsLeftError(
            f"asked for {k} item{'s' if k > 1 else ''}, {left} of {model.n_items} are left for this user: "
            f"{n_seen} seen, others may be unavailable, excluded or filtered out; "
            "ask for fewer, or widen candidates or rules"
        )
    return available


def compiled_rules(rules: Rules | RulesWithin | None, model: Model) -> CompiledRules | None:
    """Return rules in terms of the rows of a model."""
    if rules is None:
        return None
    if not isinstance(rules, Rules | RulesWithin):
        raise ConfigError(
            f"rules is {type(rules).__name__}; expected igcf.Rules, for instance igcf.Rules.parse({{...}})"
        )
    return rules.compiled(model.catalogue)


WithTrial = Callable[[Selection], tuple[Selection, int | None]]
"""Replaces the last item of a selection by a trial of a new item if one is due; returns its row, or None."""


@dataclass(frozen=True, eq=False)
class Choosing:
    """What is asked for one user."""

    query: Query
    n_shown: int  # the items after so many are kept in reserve
    rules: CompiledRules | None
    explore: float = 0.0  # share of the slots that are drawn

    def choose(self, with_trial: WithTrial | None) -> tuple[Selection, Odds]:
        """Select the items; with the trials of new items, if there are any."""
        found, trial = None, None
        if with_trial is not None:
            found, trial = with_trial(self._select(self.query))
        if self.explore:
            explorer = Explorer(self.explore, self.n_shown - (trial is not None), self.query.make_rng)
            try:
                explored = self._explored(explorer, trial)
                return explored, self._odds(explored, explorer, trial)
            except NoItemsLeftError:  # a draw used up the caps: none then, and how likely that was is not known
                return found or self._select(self.query), Odds.unknown(self.n_shown)
        found = found or self._select(self.query)
        return found, self._odds(found, None, trial)

    def _select(self, query: Query, beside: int | None = None) -> Selection:
        return query.select() if self.rules is None else self.rules.select(query, beside)

    def _explored(self, explorer: Explorer, trial: int | None) -> Selection:
        """Select and draw; a trial stands last whatever is drawn before it."""
        query = replace(self.query, explorer=explorer)
        if trial is None:
            return self._select(query)
        own = described_trial(query.engine, trial, query.available)
        if query.k == 1:
            return own
        others = self._select(replace(query, available=self._without(trial), k=query.k - 1), trial)
        columns: list[list[Any]] = list(others)
        for number, column in enumerate(columns):
            column.insert(self.n_shown - 1, own[number][0])
        return Selection(*columns)

    def _without(self, trial: int | None) -> BoolArray:
        """What may be shown beside a trial."""
        available = self.query.available
        if trial is not None:
            available = available.copy()
            available[0, trial] = False
        return available

    def _odds(self, found: Selection, explorer: Explorer | None, trial: int | None) -> Odds:
        """How likely the items shown were."""
        policy, n = self.query.policy, self.n_shown - (trial is not None)
        ranks = list(range(1, n + 1)) if explorer is None else explorer.ranks
        if isinstance(policy, OneOfDraws) and ranks:
            others = self._without(trial)[0]
            rows = np.array([row for row in found.rows[: self.n_shown] if row != trial])
            seen = self.query.engine.ranks_in_draws(policy.vectors, rows, others)
            seen[policy.chosen] = ranks  # whatever was rounded
            odds = Odds.of_ranks(seen, int(np.count_nonzero(others)), self.explore)
        elif policy.propensity != "exact":
            odds = Odds.unknown(n)
        elif explorer is None:
            odds = Odds.certain(n)
        elif ranks is None:  # rules choose one item after the other
            odds = Odds(explorer.propensities[:n], [0.0] * n, Odds.unknown(n).slots)
        else:
            n_available = int(np.count_nonzero(self.query.available)) - (trial is not None)
            odds = Odds.of_ranks(np.array([ranks]), n_available, self.explore)
        if trial is None:
            return odds
        own = Odds.certain(1) if policy.propensity == "exact" else Odds.unknown(1)
        return Odds(*(a + b for a, b in zip(odds, own, strict=True)))


def described_trial(engine: ScoringEngine, row: int, available: BoolArray) -> Selection:
    """What is believed of an item that is shown for another reason than its score."""
    rows = np.array([row])
    return engine.describe(rows, engine.means_at(rows)[0], available[0])
