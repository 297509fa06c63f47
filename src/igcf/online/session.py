"""One user being met: recommend, observe, explain."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import count
from types import EllipsisType
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from igcf.arrays import BoolArray, Float32Array, FloatArray
from igcf.errors import ConfigError, NoItemsLeftError
from igcf.model import Model
from igcf.online.belief import Belief
from igcf.online.engine import ScoringEngine
from igcf.online.evidence import LoggedBelief, learn_record, logged_evidence, logged_record, neighbours_share
from igcf.online.explaining import Shown, parts_of_mean
from igcf.online.learning import belief_from_history
from igcf.online.policies import Policy, Ucb
from igcf.online.selection import selection_details

Reaction = tuple[str, float | None]
"""An item id and a value in the units of the log; None: the item was shown and drew no reaction."""


class Past(NamedTuple):
    """What is known of a user before a session: reactions of both kinds, and what they led to where that is known."""

    history: Sequence[Reaction]
    logged: Sequence[Reaction]
    until: int | None
    belief: Belief | LoggedBelief | None


class Recommendation(NamedTuple):
    """One recommended item; `mean` and `std` are in reward units, `score` is what the policy ranked by."""

    item_id: str
    score: float
    mean: float
    std: float
    rank: int
    mean_rank: int
    """The rank that `mean` alone would have given it: further down than `rank` means shown in order to learn."""


_made = partial(tuple.__new__, Recommendation)  # `Recommendation._make` without a Python call per item


@dataclass(frozen=True)
class Contribution:
    """What one past reaction adds to the expected reward of an item."""

    item_id: str
    value: float | None
    amount: float


@dataclass(frozen=True)
class Explanation:
    """Where an expected reward comes from: `prior` plus all contributions plus `absence` is exactly `mean`."""

    item_id: str
    prior: float
    contributions: tuple[Contribution, ...]
    """Of the shown reactions, oldest first."""
    mean: float
    std: float
    logged: tuple[Contribution, ...] = ()
    """Of the logged reactions."""
    absence: float = 0.0
    """What it adds that all other items are absent from the logged record."""


class Recommender:
    """A model and a policy, ready to meet users; holds nothing about any of them.

    Args:
        model: what pretraining learned.
        policy: how items are chosen.
        forgetting: weight that earlier evidence keeps with every new reaction; 1 never forgets, 0.98 follows a
            changing taste by falling back toward the population.
        seed: makes draws and ties repeatable, in the order in which sessions are opened.
    """

    def __init__(self, model: Model, policy: Policy | None = None, *, forgetting: float = 1.0, seed: int = 0) -> None:
        if not 0 < forgetting <= 1:
            raise ConfigError(f"forgetting must lie in (0, 1], got {forgetting}; 1 never forgets")
        self.model = model
        self.policy: Policy = Ucb() if policy is None else policy
        self.forgetting = forgetting
        self._engine = ScoringEngine(model)
        self._seed = seed
        self._opened = count()

    def session(
        self,
        history: Iterable[Reaction] = (),
        *,
        logged: Iterable[Reaction] = (),
        until: int | None = None,
        belief: Belief | LoggedBelief | None = None,
        rng: np.random.Generator | None = None,
    ) -> "Session":
        """Meet a user, new or with a past; nothing that the user reacted to is recommended.

        Args:
            history: (item_id, value) pairs of items that were shown, oldest first; equals having observed them here.
            logged: (item_id, value) pairs out of a log, where the absence of all other items counts too. A log has one
                reaction per item: of several the last counts. They come before the history.
            until: time at which the logged record ends, in the units of the training log; items that appeared later
                are not absent. It says nothing where the model does not know when its items appeared.
            belief: what these reactions led to where it is known already; it is then not computed again. A plain
                `Belief` leaves the offset of logged reactions to be computed.
            rng: makes draws and ties repeatable for this session.
        """
        past = Past(list(history), list(logged), until, belief)
        return Session(self, self._engine.fresh(), past, rng or (self._seed, next(self._opened)))


class Session:
    """The belief about one user and what was shown to sharpen it."""

    def __init__(
        self,
        recommender: Recommender,
        engine: ScoringEngine,
        past: Past,
        seed: np.random.Generator | tuple[int, int],
    ) -> None:
        self.model = recommender.model
        self.policy = recommender.policy
        self._forgetting = recommender.forgetting
        self._engine = engine
        self._seed = seed
        self._rows = self.model.item_rows([item_id for item_id, _ in past.history])
        self._values = self.model.reward.checked_all([value for _, value in past.history])
        self._record = logged_record(self.model, past.logged, past.until)
        self._unseen: BoolArray = np.ones((1, self.model.n_items), dtype=np.bool_)
        self._unseen[0, self._rows] = False
        if self._record is not None:
            self._unseen[0, self._record.rows] = False
        self._n_unseen = int(np.count_nonzero(self._unseen))
        self._learn_past(past.belief)
        if self._record is not None and self.policy.needs_variances:
            engine.bound_variances(logged_evidence(self.model).variance_bounds(engine.belief()))

    def _learn_past(self, known: Belief | LoggedBelief | None) -> None:
        """Bring the engine to what is believed after the logged reactions and the history."""
        engine, model, rows, record = self._engine, self.model, self._rows, self._record
        if isinstance(known, LoggedBelief):
            if rows or record is not None:
                engine.set_belief(known.belief, offset=known.offset)
            return
        start = None
        if record is not None and (known is None or neighbours_share(model, record)):
            start = learn_record(engine, record, self._forgetting ** len(rows))
        if known is not None and (rows or record is not None):
            engine.set_belief(known, offset=engine.offset_of())
        elif rows:
            learned = belief_from_history(model, rows, self._values, self._forgetting, start)
            engine.set_belief(learned, is_within_prior=start is None or None, offset=engine.offset_of())

    def _make_rng(self) -> np.random.Generator:
        """Return the source of draws and ties, made when it is first needed."""
        if isinstance(self._seed, tuple):
            seed, number = self._seed
            self._seed = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(number,)))
        return self._seed

    @property
    def history(self) -> list[Reaction]:
        """The shown reactions so far, oldest first."""
        return [
            (self.model.item_ids[row], None if np.isnan(value) else value)
            for row, value in zip(self._rows, self._values, strict=True)
        ]

    @property
    def logged(self) -> list[Reaction]:
        """The logged reactions, one per item."""
        if self._record is None:
            return []
        ids = map(self.model.item_ids.__getitem__, self._record.rows.tolist())
        return list(zip(ids, self._record.values.tolist(), strict=True))

    @property
    def belief(self) -> Belief:
        """A copy of the current belief."""
        return self._engine.belief()

    @property
    def offset(self) -> Float32Array | None:
        """What logged reactions add to every item's expected reward beside the belief, (items,); None: nothing."""
        return self._engine.offset_of()

    def moments(self) -> tuple[FloatArray, FloatArray]:
        """Expected reward and standard deviation of every item, in the order of `model.item_ids`."""
        return self._engine.means[0].astype(np.float64), np.sqrt(self._engine.variances[0].astype(np.float64))

    def recommend(
        self,
        k: int = 1,
        exclude: Iterable[str] = (),
        candidates: Iterable[str] | None = None,
        policy: Policy | None = None,
    ) -> list[Recommendation]:
        """Return the `k` best items that this user has not reacted to, best first.

        Args:
            k: how many.
            exclude: items not to show now; ids that the model does not know are ignored.
            candidates: choose among these only.
            policy: used instead of the recommender's own, for this call.
        """
        available = self.available(k, exclude, candidates)
        rows, scores, means, stds, ranks = selection_details(
            policy or self.policy, self._engine, available, k, make_rng=self._make_rng
        )
        shown = map(self.model.item_ids.__getitem__, rows)
        columns = (shown, scores, means, stds, range(1, k + 1), ranks)
        return list(map(_made, zip(*columns, strict=True)))

    def available(self, k: int = 1, exclude: Iterable[str] = (), candidates: Iterable[str] | None = None) -> BoolArray:
        """Return which items `recommend` would choose from, (1, items), not to be written to; refuse fewer than `k`."""
        if isinstance(k, bool) or not isinstance(k, int | np.integer) or k < 1:
            raise ConfigError(f"k must be a whole number of at least 1, got {k!r}")
        available, left = self._unseen, self._n_unseen
        if candidates is not None:
            rows: npt.NDArray[np.intp] = np.array(self.model.item_rows(candidates), dtype=np.intp)
            chosen = np.zeros_like(available)
            chosen[0, rows] = True
            available = available & chosen
        excluded = [row for row in map(self.model.known_row, exclude) if row is not None]
        if excluded:
            available = available.copy()
            available[0, excluded] = False
        if available is not self._unseen:
            left = int(np.count_nonzero(available))
        if left < k:
            raise NoItemsLeftError(
                f"asked for {k} item{'s' if k > 1 else ''}, {left} of {self.model.n_items} are left for this user "
                f"after {self.model.n_items - self._n_unseen} seen and the exclusions; ask for fewer or widen the "
                "candidates"
            )
        return available

    def observe(self, item_id: str, value: "float | EllipsisType | None" = ..., *, kind: str | None = None) -> None:
        """Learn from one reaction, in closed form; a bad item, value or kind raises and changes nothing.

        A reaction has a `value` in the units of the log (None: shown without a reaction) or is of a `kind` that the
        model knows; where every reaction of the log counts alike, it needs neither.
        """
        row, number = self.model.item_row(item_id), self.model.reaction_value(value, kind)
        self._engine.forget(self._forgetting)
        self._engine.observe_one(row, number)
        self._rows.append(row)
        self._values.append(number)
        self._n_unseen -= int(self._unseen[0, row])
        self._unseen[0, row] = False

    def explain(self, item_id: str) -> Explanation:
        """Split an item's expected reward into what the population says and what each reaction, or absence, added."""
        row = self.model.item_row(item_id)
        shown = Shown(self._rows, self._values, self._forgetting)
        parts = parts_of_mean(self.model, self._record, shown, row)
        std = float(np.sqrt(self._engine.variances_at(np.array([row]))[0]))
        return Explanation(
            item_id,
            parts.prior,
            _contributions(self.history, parts.shown),
            parts.total,
            std,
            _contributions(self.logged, parts.logged),
            parts.absence,
        )


def _contributions(reactions: Sequence[Reaction], amounts: FloatArray) -> tuple[Contribution, ...]:
    pairs = zip(reactions, amounts.tolist(), strict=True)
    return tuple(Contribution(item_id, value, amount) for (item_id, value), amount in pairs)
