"""One user's session: recommend, observe, explain."""

import json
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from copy import copy
from functools import partial, wraps
from hashlib import blake2b
from pathlib import Path
from types import EllipsisType
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

import numpy as np

from igcf.arrays import BoolArray, Float32Array, FloatArray
from igcf.errors import ConfigError
from igcf.model import Model
from igcf.model.new_items import UserEvidence
from igcf.online.answers import Contribution, Explanation, Past, Reaction, Recommendation, Recommendations
from igcf.online.attributes import (
    attribute_contributions,
    context_shift,
    encode_attributes,
    personal_model,
    prior_variances,
)
from igcf.online.backend.types import Selection
from igcf.online.belief import Belief
from igcf.online.chance import Chances
from igcf.online.choosing import WHOLE, Choosing, compiled_rules, described_trial, may_show
from igcf.online.evidence import LoggedBelief, learn_record
from igcf.online.explaining import parts_of_mean
from igcf.online.exploration import checked_share
from igcf.online.learning import belief_from_history, prior_belief
from igcf.online.new_items.trials import Answers
from igcf.online.policies import OneOfDraws, Policy
from igcf.online.reactions import Event, Evidence
from igcf.online.rules import Rules, RulesWithin
from igcf.online.selection import Query
from igcf.online.serving import Serving
from igcf.tables import MOST_ROWS, html_card

if TYPE_CHECKING:
    from igcf.online.recommender import Recommender

SESSION_FORMAT = "igcf-session-1"
_made = partial(tuple.__new__, Recommendation)  # `Recommendation._make` without a Python call per item
P = ParamSpec("P")
T = TypeVar("T")


def _with_items(method: "Callable[Concatenate[Session, P], T]") -> "Callable[Concatenate[Session, P], T]":
    """Let a method of a session work on the current snapshot of the items, and hold it no longer than that."""

    @wraps(method)
    def on_current_items(self: "Session", /, *args: P.args, **kwargs: P.kwargs) -> T:
        self._follow()
        try:
            return method(self, *args, **kwargs)
        finally:
            self._release()

    return on_current_items


class Session:
    """The belief about one user and the reactions that sharpened it.

    Only one thread at a time may use a session; sessions of different users may be used in parallel.

    Example:
        With the model of the example of `igcf.Model`:

        >>> import igcf
        >>> session = igcf.Recommender(model).session()
        >>> session.recommend()[0].item_id
        'tea'
        >>> session.observe("tea", 0.0)
        >>> session.history
        [('tea', 0.0)]
        >>> why = session.explain("coffee")
        >>> round(why.prior, 6) == 0.4
        True
        >>> session.undo()
        'tea'
    """

    _serving: Serving

    def __init__(
        self, recommender: "Recommender", past: Past, seed: np.random.Generator | tuple[int, int], user: Hashable
    ) -> None:
        self._recommender = recommender
        self.policy = recommender.policy
        self._user = user
        self._seed = seed
        self._until = past.until
        self._serving = serving = recommender._live.current()
        self._engine = serving.engine.fresh()
        self._set_attributes(past.attributes)
        self._evidence = Evidence(serving.model, past)
        self._version = serving.version
        self._mask: BoolArray | None = None
        self._n_shown = self._n_tried = 0
        self.contributes = True  # whether reactions to new items count for all users, and new items are tried here
        self._learn_past(past.belief)
        self._release()

    def __repr__(self) -> str:
        n_shown, n_logged = len(self._evidence.shown), len(self._evidence.logged)
        return f"Session({n_shown} reactions, {n_logged} logged, policy {self.policy})"

    @property
    def model(self) -> Model:
        """The model of the recommender, with the items as they are now."""
        return self._recommender.model

    @property
    def attributes(self) -> dict[str, Any]:
        """The user's attributes, as passed."""
        return dict(self._given)

    @property
    def ignored(self) -> tuple[str, ...]:
        """One sentence per attribute whose value the model does not know."""
        return () if self._encoded is None else self._encoded.ignored

    @_with_items
    def set_attributes(self, attributes: Mapping[str, Any]) -> None:
        """Replace the user's attributes; the belief is recomputed from all evidence."""
        self._set_attributes(attributes)
        self._learn_again()

    @_with_items
    def with_attributes(self, attributes: Mapping[str, Any]) -> "Session":
        """Return a session for one answer: the same evidence under other attributes."""
        other = copy(self)
        other._engine = self._serving.engine.fresh()
        other._evidence, other._mask = self._evidence.copied(), None
        other._set_attributes(attributes)
        other._learn_again()
        other._release()
        return other

    def _set_attributes(self, given: Mapping[str, Any] | None) -> None:
        model = self._serving.model
        self._encoded = encode_attributes(model, given)
        self._given = dict(given or {})
        own = self._personal_model()
        self._engine.prior = self._serving.engine.prior if own.population is None else prior_belief(own)

    def _personal_model(self) -> Model:
        return personal_model(self._serving.model, self._encoded)

    def _learn_past(self, known: Belief | LoggedBelief | None) -> None:
        """Bring the engine to the belief after the logged reactions and the history."""
        engine, model = self._engine, self._personal_model()
        rows, values = self._evidence.reactions
        record = self._evidence.in_force(model)
        if model.population is not None and not rows and record is None:
            assert self._encoded is not None  # noqa: S101
            engine.start_at(engine.prior, prior_variances(engine, model, self._encoded.known))
            return
        forgetting = self._recommender.forgetting
        if isinstance(known, LoggedBelief):
            if rows or record is not None:
                engine.set_belief(known.belief, offset=known.offset)
            return
        start = None
        if record is not None and (known is None or model.low_pass is not None):
            start = learn_record(engine, record, model, forgetting ** len(rows))
        if known is not None and (rows or record is not None):
            engine.set_belief(known, offset=engine.offset_of())
        elif rows:
            shifts = self._evidence.shifts(model)
            learned = belief_from_history(model, rows, values, forgetting, start, shifts)
            engine.set_belief(learned, offset=engine.offset_of())

    def _learn_again(self) -> None:
        """Compute the belief from the evidence: nothing can be taken out of a belief."""
        self._engine.set_belief(self._engine.prior)
        self._learn_past(None)

    def _follow(self) -> None:
        """Take over the current items, with all that was learned about new ones and those that were added."""
        self._serving = serving = self._recommender._live.current()
        self._engine.take_items(serving.engine)
        if serving.version == self._version:
            return
        items = serving.new_items
        assert items is not None  # noqa: S101
        moved = items.moved_since(self._version - 1)
        self._version = serving.version
        self._engine.items_moved(moved)
        if any(map(self._evidence.has, moved.tolist())):
            self._learn_again()

    def _release(self) -> None:
        """Hold no snapshot of the items between calls: an idle session must not keep an old one in memory."""
        self._engine.release_items()
        del self._serving

    def _make_rng(self) -> np.random.Generator:
        """Return the source of draws and ties, made when it is first needed."""
        if isinstance(self._seed, tuple):
            seed, number = self._seed
            self._seed = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(number,)))
        return self._seed

    def _repr_html_(self) -> str:
        """Show what this user has reacted to in a notebook, the newest first."""
        history, model = self.history, self.model
        rows = [(model.title(item_id), value) for item_id, value in reversed(history[-MOST_ROWS:])]
        title = f"Session: {len(history)} reactions, {len(self.logged)} logged before"
        return html_card(title, ("item", "reaction"), rows, len(history) - MOST_ROWS)

    @property
    def history(self) -> list[Reaction]:
        """The shown reactions so far, oldest first, one per item."""
        ids, shown = self.model.item_ids, self._evidence.shown.values()
        return [(ids[each.row], None if np.isnan(each.value) else each.value) for each in shown]

    @property
    def logged(self) -> list[Reaction]:
        """The logged reactions, one per item, without those that the history replaced."""
        ids, shown = self.model.item_ids, self._evidence.shown
        return [(ids[row], value) for row, value in self._evidence.logged.items() if row not in shown]

    def save(self, path: str | Path) -> None:
        """Write the evidence, no numbers of the model, as JSON; `Recommender.load_session` reads it."""
        user = self._user if isinstance(self._user, str | int) else None
        ids, evidence = self.model.item_ids, self._evidence
        saved = {
            "format": SESSION_FORMAT,
            "user": user,
            "until": self._until,
            "logged": [(ids[row], value) for row, value in evidence.logged.items()],  # what was replaced weighs, too
            "history": self.history,
            "attributes": self._given,
            "contexts": {ids[row]: dict(each.context) for row, each in evidence.shown.items() if each.context},
        }
        Path(path).write_text(json.dumps(saved, allow_nan=False), encoding="utf-8")

    @property
    @_with_items
    def belief(self) -> Belief:
        """A copy of the current belief."""
        return self._engine.belief()

    @property
    @_with_items
    def offset(self) -> Float32Array | None:
        """Offset per item from logged reactions, added to the expected rewards, (items,); None: no offset."""
        return self._engine.offset_of()

    @_with_items
    def moments(self) -> tuple[FloatArray, FloatArray]:
        """Expected reward and standard deviation of every item, in the order of `model.item_ids`."""
        return self._moments()

    def _moments(self) -> tuple[FloatArray, FloatArray]:
        means = self._engine.means[0].astype(np.float64)
        stds = np.sqrt(self._engine.variances[0].astype(np.float64))
        return means, np.array(self._stds_at(np.arange(len(means)), means, stds))

    def _stds_at(self, rows: Any, means: Any, stds: Any) -> list[float]:
        """Add what is unknown of the items themselves to the standard deviations of some items."""
        of_items = self._serving.chances.item_deviations(rows, np.asarray(means))
        return list(stds) if of_items is None else np.hypot(stds, of_items).tolist()

    @_with_items
    def chances(self) -> Chances:
        """Chance and interval of every item, in the order of `model.item_ids`."""
        means, stds = self._moments()
        return self._serving.chances.of_engine(self._engine, np.arange(len(means)), means, stds)

    @_with_items
    def recommend(  # noqa: PLR0913  (each has a default)
        self,
        k: int = 1,
        exclude: Iterable[str] = (),
        candidates: Iterable[str] | None = None,
        policy: Policy | None = None,
        rules: Rules | RulesWithin | None = None,
        spare: int = 0,
        context: Mapping[str, Any] | None = None,
        explore: float | None = None,
        draws: int = 0,
    ) -> list[Recommendation]:
        """Return the `k` best items that may be shown and that this user has not reacted to, best first.

        Args:
            k: how many.
            exclude: items not to show now; ids that the model does not know are ignored.
            candidates: choose among these only.
            policy: used instead of the recommender's own, for this call.
            rules: an `igcf.Rules` about what is shown; filters, boosts, caps, pinned items, diversity.
            spare: how many of the last items are kept in reserve: a trial of a new item comes before them.
            context: features of this request, such as a device or a time, by the names in `model.context_effect`.
            explore: used instead of the recommender's own share, for this call.
            draws: if the policy samples, choose by one of so many draws, which stay the same until the belief changes,
                so that propensities are known. 0: by a new draw, with unknown propensities.
        """
        if isinstance(spare, bool) or not isinstance(spare, WHOLE) or spare < 0:
            raise ConfigError(f"spare must be a whole number of at least 0, got {spare!r}")
        share = self._recommender.explore if explore is None else checked_share(explore)
        serving = self._serving
        compiled, n_shown = compiled_rules(rules, serving.model), k - spare if spare < k else 1
        available = self._may_show(k, exclude, candidates, compiled)
        own, items = policy or self.policy, serving.new_items
        with self._engine.shifted(context_shift(serving.model, context)):
            if draws and own.propensity == "sampled" and (compiled is None or compiled.is_filter):
                own = self._one_of(own, draws)
            asked = Choosing(Query(own, self._engine, available, k, self._make_rng), n_shown, compiled, share)
            found, odds = asked.choose(None if items is None else partial(self._with_trial, asked))
            rows, scores, means, stds, ranks = found
            if items is not None:
                more = items.uncertainty_at(self._engine.belief_means[0], np.array(rows))
                stds = [float(np.hypot(std, added)) for std, added in zip(stds, more, strict=True)]
            stds = self._stds_at(rows, means, stds)
            chances = serving.chances.of_shown(self._engine, rows, means, stds)
        shown = map(serving.model.item_ids.__getitem__, rows)
        columns = (shown, scores, means, stds, range(1, k + 1), ranks, *chances, *odds.with_reserve(k))
        return Recommendations(map(_made, zip(*columns, strict=True)))

    def _one_of(self, policy: Policy, n: int) -> OneOfDraws:
        """Return one of `n` draws, which follow from the user and the belief alone."""
        belief = blake2b(repr(self._user).encode() + self._engine.belief_means.tobytes(), digest_size=8)
        rng = np.random.default_rng([self._recommender._seed, int.from_bytes(belief.digest())])
        return OneOfDraws(policy.draw(self._engine, rng, n)[0], int(self._make_rng().integers(n)))

    def _with_trial(self, asked: Choosing, found: Selection) -> tuple[Selection, int | None]:
        """Return the selection, with its last shown item possibly replaced by a trial of a new item."""
        items, trials = self._serving.new_items, self._recommender._live.trials
        assert items is not None  # noqa: S101
        rows, last, available = found.rows, asked.n_shown - 1, asked.query.available
        self._n_shown += last + 1
        if not self.contributes:
            return found, None
        n_known = len(self._evidence.shown) + len(self._evidence.logged)
        others = [*rows[:last], *rows[last + 1 :], rows[last]]
        tryable = available if asked.rules is None else asked.rules.allowed_last(others, available)
        may_try = np.array([trials.may_try(self._n_tried, self._n_shown, n_known)])
        answers = Answers(self._engine, available, np.array([rows[: last + 1]]), may_try, tryable)
        tried = int(trials.choose(answers, items)[0, -1])
        if tried == rows[last]:
            return found, None
        self._n_tried += 1
        place = rows.index(tried) if tried in rows else last
        columns: list[list[Any]] = list(found)
        own = described_trial(self._engine, tried, available)
        for number, column in enumerate(columns):
            column[place], column[last] = column[last], own[number][0]
        return Selection(*columns), tried

    @_with_items
    def available(
        self,
        k: int = 1,
        exclude: Iterable[str] = (),
        candidates: Iterable[str] | None = None,
        rules: Rules | RulesWithin | None = None,
    ) -> BoolArray:
        """Return which items `recommend` would choose from, (1, items); fewer than `k` are refused.

        Args: those of `recommend`.
        """
        return self._may_show(k, exclude, candidates, compiled_rules(rules, self._serving.model)).copy()

    def _may_show(self, *asked: Any) -> BoolArray:
        return may_show(self._serving.model, self._unseen(), self._recommender.clock(), *asked)

    def _unseen(self) -> BoolArray:
        """Which items the user neither reacted to nor skipped lately, (1, items); not to be written to."""
        if self._mask is not None and self._mask.shape[1] == self._serving.model.n_items:
            return self._mask
        mask = np.ones((1, self._serving.model.n_items), dtype=np.bool_)
        skipped = self._evidence.skipped(self._recommender.skip_rounds)
        mask[0, [*self._evidence.shown, *self._evidence.logged, *skipped]] = False
        if self._engine.keeps_items and not skipped:
            self._mask = mask
        return mask

    @_with_items
    def observe(
        self,
        item_id: str,
        value: "float | EllipsisType | None" = ...,
        *,
        kind: str | None = None,
        context: Mapping[str, Any] | None = None,
    ) -> None:
        """Update the belief with one reaction; it replaces an earlier one to the same item, unless its value is None.

        An invalid item, value, kind or context raises an error and changes nothing.

        Args:
            item_id: id of the item.
            value: in the units of the log; None: shown without a reaction. Left out with a `kind`, and where every
                reaction of the log counts alike.
            kind: a kind of feedback that the model knows, instead of a value.
            context: the context of the reaction, whose effect is subtracted.
        """
        model, engine = self._serving.model, self._engine
        row, number = model.item_row(item_id), model.reaction_value(value, kind)
        shift = context_shift(model, context)
        is_first, before = not self._evidence.has(row), None
        counts = self._evidence.counts(row, number)
        if counts and self._serving.new_items is not None:
            with engine.shifted(shift):
                before = self._share(row, item_id, number)
        self._evidence.add(Event(row, number, None if shift is None else context, counts, before))
        if not counts:
            return
        if is_first:
            engine.forget(self._recommender.forgetting)
            engine.observe_one(row, number, shift)
        else:
            self._learn_again()
        if self._mask is not None and row < self._mask.shape[1]:  # else it is made anew: items were added
            self._mask[0, row] = False

    def _share(self, row: int, item_id: str, value: float) -> UserEvidence | None:
        """Let a reaction count for new items, before the belief learns from it; returns the user's earlier evidence."""
        items, live = self._serving.new_items, self._recommender._live
        if items is None or not self.contributes:
            return None
        if row not in items:
            expected = float(self._engine.means_at(np.array([row]))[0, 0])
            live.trials.note_known(expected, self._serving.model.reward.of_one(value))
            return None
        if not live.from_sessions:
            return None
        evidence = self._evidence
        n_known = len(evidence.shown) - (row in evidence.shown) + len(evidence.logged)
        return live.learn(self._user, item_id, live.contribution(row, self._engine.belief(), value, n_known))

    @_with_items
    def skip(self, item_id: str) -> None:
        """Hide an item for `skip_rounds` reactions and skips: "not now" is no evidence about the user's taste."""
        row = self._serving.model.item_row(item_id)
        self._evidence.add(Event(row, np.nan, is_skip=True, counts=False))
        self._mask = None

    @_with_items
    def undo(self) -> str:
        """Undo the last reaction or skip; return the item's id."""
        model, event, live = self._serving.model, self._evidence.undo(), self._recommender._live
        self._mask = None
        if event.counts:
            is_new = event.row >= model.n_trained and self._serving.new_items is not None
            if is_new and self.contributes and live.from_sessions:
                live.learn(self._user, model.item_ids[event.row], event.before)
            self._learn_again()
        return model.item_ids[event.row]

    @_with_items
    def explain(self, item_id: str) -> Explanation:
        """Split an item's expected reward into the prior, and what each reaction, or absence, added."""
        model, own = self._serving.model, self._evidence
        row = model.item_row(item_id)
        shown = (*own.reactions, self._recommender.forgetting, own.shifts(model))
        parts = parts_of_mean(self._personal_model(), own.in_force(model), row, *shown)
        attributes = attribute_contributions(model, self._encoded, self._given, row)
        prior, mean = parts.prior if not attributes else model.expected_of(model.prior_mean, row), parts.total
        [std] = self._stds_at([row], [mean], [float(np.sqrt(self._engine.variances_at(np.array([row]))[0]))])
        found = self._serving.chances.of_engine(self._engine, np.array([row]), np.array([mean]), np.array([std]))
        contributions, logged = _contributions(self.history, parts.shown), _contributions(self.logged, parts.logged)
        chances = (float(found.chance[0]), float(found.low[0]), float(found.high[0]))
        return Explanation(item_id, prior, contributions, mean, std, logged, parts.absence, *chances, attributes)


def _contributions(reactions: Sequence[Reaction], amounts: FloatArray) -> tuple[Contribution, ...]:
    pairs = zip(reactions, amounts.tolist(), strict=True)
    return tuple(Contribution(item_id, value, amount) for (item_id, value), amount in pairs)
