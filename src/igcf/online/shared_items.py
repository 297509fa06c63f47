"""Items that all sessions of a recommender learn together, as one session sees them."""

from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from igcf.arrays import BoolArray, FloatArray, IntArray
from igcf.online.backend import Selection
from igcf.online.belief import Belief
from igcf.online.engine import ScoringEngine


@dataclass(frozen=True, eq=False)
class Answers:
    """Answers to some users as they would be without trials."""

    engine: ScoringEngine
    """The users' state."""
    available: BoolArray
    """What may be shown, (users, items)."""
    shown: IntArray
    """Rows of the items that would be shown, best first, (users, k)."""
    may_try: BoolArray
    """Who may be asked to try something, (users,)."""
    tryable: BoolArray
    """What may be tried in the last place, (users, items)."""


class SharedItems(Protocol):
    """Items whose vectors move with what any user reacts to them, such as `igcf.online.NewItems`."""

    @property
    def version(self) -> int:
        """A number that grows whenever a vector moves."""
        ...

    def may_try(self, n_tried: int, n_shown: int, n_known: int) -> bool:
        """Whether a user may be asked to try something, after so many trials, items shown, and reactions."""
        ...

    def __contains__(self, row: int) -> bool: ...

    def changed_since(self, version: int) -> IntArray:
        """Return the rows of the items that moved after `version`."""
        ...

    def observe(self, key: Hashable, row: int, belief: Belief, value: float) -> None:
        """Learn an item from a reaction; `belief` is that about the user before it, `key` names the reaction."""
        ...

    def account(self, expected: float, value: float) -> None:
        """Note what was expected of another item, and the reaction to it."""
        ...

    def retract(self, keys: Iterable[Hashable]) -> None:
        """Take reactions back, as if they had never been."""
        ...

    def uncertainty_at(self, user: FloatArray, rows: IntArray) -> FloatArray:
        """Return the standard deviation that is due to the items themselves, (rows,); 0 for all other items."""
        ...

    def choose(self, answers: Answers) -> IntArray:
        """Return what is shown: the answers, whose last items may give way to trials of new ones, (users, k)."""
        ...


class SharedItemsOfSession:
    """What one session has to do with them: it follows their vectors, tells of reactions, and tries some."""

    def __init__(self, items: SharedItems, user: Hashable) -> None:
        self.items, self._user = items, user
        self._version = items.version
        self._n_shown = self._n_tried = 0
        self.is_apart = False
        """Whether the session only follows the items: it tells nothing of reactions and tries nothing."""

    def follow(self, engine: ScoringEngine) -> None:
        """Bring the engine to where the items are now."""
        version = self.items.version
        if version != self._version:
            engine.items_moved(self.items.changed_since(self._version))
            self._version = version

    def observe(self, number: int, row: int, engine: ScoringEngine, value: float) -> None:
        """Tell of the session's reaction of this number, before the engine learns from it."""
        if self.is_apart:
            return
        if row in self.items:
            self.items.observe((self._user, number), row, engine.belief(), value)
        else:
            self.items.account(float(engine.means_at(np.array([row]))[0, 0]), value)

    def retract(self, number: int) -> None:
        """Take the session's reaction of this number back."""
        if not self.is_apart:
            self.items.retract([(self._user, number)])

    def answer(
        self,
        selection: Selection,
        engine: ScoringEngine,
        masks: tuple[BoolArray, BoolArray],
        *,
        n_known: int,
        spare: int,
    ) -> Selection:
        """Return what is shown: the selection, whose last item but `spare` may give way to a trial.

        `masks` tell what is available and what of it may be tried, (1, items) each; `n_known` is the number of
        reactions that are known of the user.
        """
        available, tryable = masks
        rows, ranks = list(selection.rows), list(selection.mean_ranks)
        scores, means, stds = list(selection.scores), list(selection.means), list(selection.stds)
        shown = rows[: len(rows) - spare]
        self._n_shown += len(shown)
        may_try = np.array([self.items.may_try(self._n_tried, self._n_shown, n_known)])
        answers = Answers(engine, available, np.array([shown]), may_try, tryable)
        chosen = answers.shown[0] if self.is_apart else self.items.choose(answers)[0]
        if chosen[-1] != shown[-1]:
            self._n_tried += 1
            last, tried = len(shown) - 1, chosen[-1:]
            own = engine.describe(tried, engine.means_at(tried)[0], available[0])
            place = rows.index(int(tried[0])) if int(tried[0]) in rows else last
            columns: tuple[list[Any], ...] = (rows, scores, means, stds, ranks)
            described: tuple[list[Any], ...] = (own.rows, own.scores, own.means, own.stds, own.mean_ranks)
            for column, found in zip(columns, described, strict=True):
                column[place], column[last] = column[last], found[0]
        added = self.items.uncertainty_at(engine.belief_means[0], np.array(rows))
        stds = [float(np.hypot(std, more)) for std, more in zip(stds, added, strict=True)]
        return Selection(rows, scores, means, stds, ranks)
