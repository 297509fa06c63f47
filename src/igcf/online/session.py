"""One user being met: recommend, observe, explain."""

from collections.abc import Hashable, Iterable, Sequence
from functools import partial
from types import EllipsisType
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from igcf.arrays import BoolArray, Float32Array, FloatArray
from igcf.errors import ConfigError, NoItemsLeftError
from igcf.model.catalogue import Catalogue
from igcf.notebooks import MOST_ROWS, html_card
from igcf.online.answers import Contribution, Explanation, Past, Reaction, Recommendation, Recommendations
from igcf.online.belief import Belief
from igcf.online.chance import Chances
from igcf.online.engine import ScoringEngine
from igcf.online.evidence import LoggedBelief, learn_record, logged_record, neighbours_share
from igcf.online.explaining import Shown, parts_of_mean
from igcf.online.learning import belief_from_history, prior_belief
from igcf.online.policies import Policy
from igcf.online.selection import AnswerRules, CompiledAnswerRules, selection_details
from igcf.online.shared_items import SharedItemsOfSession
from igcf.online.unseen import FewSeen, Unseen

if TYPE_CHECKING:
    from igcf.online.recommender import Recommender

WHOLE = (int, np.integer)
_made = partial(tuple.__new__, Recommendation)  # `Recommendation._make` without a Python call per item


class Session:
    """The belief about one user and what was shown to sharpen it.

    Only one thread at a time may use a session; sessions of different users may be used side by side.

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

    def __init__(
        self,
        recommender: "Recommender",
        engine: ScoringEngine,
        past: Past,
        seed: np.random.Generator | tuple[int, int],
        user: Hashable = None,
    ) -> None:
        self._recommender = recommender
        self.model = engine.model
        self.policy = recommender.policy
        self._forgetting = recommender.forgetting
        self._skip_rounds = recommender.skip_rounds
        self._chance_scale = recommender.chance_scale
        self._engine = engine
        self._shared = None if recommender.shared is None else SharedItemsOfSession(recommender.shared, user)
        self._user = user
        self._seed = seed
        self._rows = self.model.item_rows([item_id for item_id, _ in past.history])
        self._values = self.model.reward.checked_all([value for _, value in past.history])
        self._record = logged_record(self.model, past.logged, past.until)
        shown = np.array(self._rows, dtype=np.int64)
        seen = shown if self._record is None else np.concatenate([self._record.rows, shown])
        self._unseen = (Unseen if engine.keeps_items else FewSeen)(self.model.n_items, seen)
        self._steps: list[int | None] = []
        """What happened since the session was opened: the row of a skipped item, or None for a reaction."""
        self._n_skips = 0
        self._learn_past(past.belief)

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
            engine.set_belief(learned, offset=engine.offset_of())

    def apart(self) -> "Session":
        """Return this session, from now on without a part in what all learn of new items and try of them."""
        if self._shared is not None:
            self._shared.is_apart = True
        return self

    def _follow(self) -> None:
        """Take over what other sessions learned of new items, and items that were added since."""
        recommender = self._recommender
        if recommender.model is not self.model:
            belief, offset, n_before = self._engine.belief(), self._engine.offset_of(), self.model.n_items
            self._engine = recommender.fresh_engine()
            self.model, self._chance_scale = self._engine.model, recommender.chance_scale
            n_new = self.model.n_items - n_before
            if self._rows or self._record is not None:
                self._engine.set_belief(belief, offset=None if offset is None else np.pad(offset, (0, n_new)))
            self._unseen.extend(n_new)
            if self._record is not None:
                self._record = self._record._replace(later=np.union1d(self._record.later, self.model.added))
            if recommender.shared is not None:
                is_apart = self._shared is not None and self._shared.is_apart
                self._shared = SharedItemsOfSession(recommender.shared, self._user)
                self._shared.is_apart = is_apart
        if self._shared is not None:
            self._shared.follow(self._engine)

    def _make_rng(self) -> np.random.Generator:
        """Return the source of draws and ties, made when it is first needed."""
        if isinstance(self._seed, tuple):
            seed, number = self._seed
            self._seed = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(number,)))
        return self._seed

    def _repr_html_(self) -> str:
        """Show what this user has reacted to in a notebook, the newest first."""
        history = self.history
        rows = [(self.model.title(item_id), value) for item_id, value in reversed(history[-MOST_ROWS:])]
        title = f"Session: {len(history)} reactions, {len(self.logged)} logged before"
        return html_card(title, ("item", "reaction"), rows, len(history) - MOST_ROWS)

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
        self._follow()
        means = self._engine.means[0].astype(np.float64)
        stds = np.sqrt(self._engine.variances[0].astype(np.float64))
        return means, np.array(self._stds_at(np.arange(len(means)), means, stds))

    def chances(self) -> Chances:
        """Chance and interval of every item, in the order of `model.item_ids`."""
        means, stds = self.moments()
        return self._chance_scale.of_engine(self._engine, np.arange(self.model.n_items), means, stds)

    def _stds_at(self, rows: Any, means: Any, stds: Any) -> list[float]:
        """Add what is unknown of the items themselves to the standard deviations of some items."""
        of_items = self._chance_scale.item_deviations(rows, np.asarray(means))
        return list(stds) if of_items is None else np.hypot(stds, of_items).tolist()

    def _chances_at(self, rows: Sequence[int], means: Sequence[float], stds: Sequence[float]) -> Chances:
        return self._chance_scale.of_engine(self._engine, np.array(rows), np.array(means), np.array(stds))

    def recommend(
        self,
        k: int = 1,
        exclude: Iterable[str] = (),
        candidates: Iterable[str] | None = None,
        policy: Policy | None = None,
        rules: AnswerRules | None = None,
        spare: int = 0,
    ) -> list[Recommendation]:
        """Return the `k` best items that may be shown and that this user has not reacted to, best first.

        Args:
            k: how many.
            exclude: items not to show now; ids that the model does not know are ignored.
            candidates: choose among these only.
            policy: used instead of the recommender's own, for this call.
            rules: an `igcf.Rules` about what is shown; filters, boosts, caps, pinned items, diversity.
            spare: how many of the last items are kept in reserve: a trial of a new item comes before them.
        """
        self._follow()
        catalogue = self._recommender.catalogue  # once: the whole answer comes from one state of the items
        compiled = None if rules is None else _checked(rules).compiled(catalogue)
        available = self._may_show(catalogue, compiled, k, exclude, candidates)
        select = selection_details if compiled is None else compiled.select
        found = select(policy or self.policy, self._engine, available, k, make_rng=self._make_rng)
        if self._shared is not None:
            spare = min(spare, k - 1)
            last = k - spare - 1
            others = [*found.rows[:last], *found.rows[last + 1 :], found.rows[last]]
            tryable = available if compiled is None else compiled.may_end(others, available)
            n_known = len(self._rows) + (0 if self._record is None else len(self._record.rows))
            found = self._shared.answer(found, self._engine, (available, tryable), n_known=n_known, spare=spare)
        rows, scores, means, stds, ranks = found
        stds = self._stds_at(rows, means, stds)
        shown = map(self.model.item_ids.__getitem__, rows)
        chances = self._chance_scale.of_shown(self._engine, rows, means, stds)
        columns = (shown, scores, means, stds, range(1, k + 1), ranks, *chances)
        return Recommendations(map(_made, zip(*columns, strict=True)))

    def available(
        self,
        k: int = 1,
        exclude: Iterable[str] = (),
        candidates: Iterable[str] | None = None,
        rules: AnswerRules | None = None,
    ) -> BoolArray:
        """Return which items `recommend` would choose from, (1, items), not to be written to; refuse fewer than `k`."""
        self._follow()
        catalogue = self._recommender.catalogue
        compiled = None if rules is None else _checked(rules).compiled(catalogue)
        available = self._may_show(catalogue, compiled, k, exclude, candidates)
        return available if self._engine.keeps_items else available.copy()

    def _may_show(
        self,
        catalogue: Catalogue,
        compiled: CompiledAnswerRules | None,
        k: int,
        exclude: Iterable[str],
        candidates: Iterable[str] | None,
    ) -> BoolArray:
        if (type(k) is not int and (isinstance(k, bool) or not isinstance(k, WHOLE))) or k < 1:
            raise ConfigError(f"k must be a whole number of at least 1, got {k!r}")
        available = unseen = self._unseen.mask()
        left = self._unseen.n_left  # or more: counted only where that may not be enough
        mask = catalogue.available(self._recommender.clock())
        if mask is not None:
            available, left = available & mask, 0
        if compiled is not None and compiled.allowed is not None:
            available, left = available & compiled.allowed, left - compiled.n_forbidden
        if candidates is not None:
            rows: npt.NDArray[np.intp] = np.array(self.model.item_rows(candidates), dtype=np.intp)
            chosen = np.zeros_like(available)
            chosen[0, rows] = True
            available, left = available & chosen, 0
        if not isinstance(exclude, tuple) or exclude:
            excluded = [row for row in map(self.model.known_row, exclude) if row is not None]
            available = available.copy()
            available[0, excluded] = False
            left -= len(excluded)
        if left < k and available is not unseen:
            left = int(np.count_nonzero(available))
        if left < k:
            raise NoItemsLeftError(
                f"asked for {k} item{'s' if k > 1 else ''}, {left} of {self.model.n_items} are left for this user "
                f"after {self.model.n_items - self._unseen.n_left} seen, those not available, exclusions and rules; "
                "ask for fewer, or widen candidates or rules"
            )
        return available

    def observe(self, item_id: str, value: "float | EllipsisType | None" = ..., *, kind: str | None = None) -> None:
        """Learn from one reaction, in closed form; a bad item, value or kind raises and changes nothing.

        A reaction has a `value` in the units of the log (None: shown without a reaction) or is of a `kind` that the
        model knows; where every reaction of the log counts alike, it needs neither.
        """
        self._follow()
        row, number = self.model.item_row(item_id), self.model.reaction_value(value, kind)
        if self._shared is not None:
            self._shared.observe(len(self._rows), row, self._engine, number)
        self._engine.forget(self._forgetting)
        self._engine.observe_one(row, number)
        self._rows.append(row)
        self._values.append(number)
        self._steps.append(None)
        self._unseen.set(row, False)
        if self._n_skips:
            self._refresh(self._step_before(self._skip_rounds))

    def skip(self, item_id: str) -> None:
        """Put an item aside for `skip_rounds` reactions and skips: "not now" says nothing about the user's taste."""
        self._follow()
        row = self.model.item_row(item_id)
        self._steps.append(row)
        self._n_skips += 1
        self._refresh(row)
        self._refresh(self._step_before(self._skip_rounds))

    def undo(self) -> str:
        """Take back the last reaction or skip, as if it had never been; return the item's id.

        The belief is then computed from the reactions that are left, since none can be taken out of it.
        """
        self._follow()
        if not (self._steps or self._rows):
            raise ConfigError("nothing to take back: this user has neither reacted nor skipped")
        row = self._steps.pop() if self._steps else None
        if row is not None:
            self._n_skips -= 1
        else:
            row = self._rows.pop()
            self._values.pop()
            if self._shared is not None:
                self._shared.retract(len(self._rows))
            self._engine.set_belief(prior_belief(self.model))
            self._learn_past(None)
        self._refresh(row)
        self._refresh(self._step_before(self._skip_rounds - 1))
        return self.model.item_ids[row]

    def _step_before(self, n_steps: int) -> int | None:
        """The item of the skip that came so many steps before the last step; None where that was none."""
        return self._steps[-1 - n_steps] if n_steps < len(self._steps) else None

    def _refresh(self, row: int | None) -> None:
        """Show or hide an item according to the reactions and the latest skips."""
        if row is not None:
            is_logged = self._record is not None and row in self._record.rows
            is_shown = not is_logged and row not in self._rows and row not in self._steps[-self._skip_rounds :]
            self._unseen.set(row, is_shown)

    def best_under(self, draws: FloatArray, item_ids: Sequence[str], available: BoolArray) -> BoolArray:
        """Return under which draws of the user's vector (n, d) each item is among as many best ones, (n, items).

        `available` (1, items) is what they compete with, as `available` returns it.
        """
        return self._engine.best_under(draws, np.array(self.model.item_rows(item_ids)), available[0])

    def explain(self, item_id: str) -> Explanation:
        """Split an item's expected reward into what the population says and what each reaction, or absence, added."""
        self._follow()
        row = self.model.item_row(item_id)
        shown = Shown(self._rows, self._values, self._forgetting)
        parts = parts_of_mean(self.model, self._record, shown, row)
        mean, amounts = parts.total, parts.shown
        [std] = self._stds_at([row], [mean], [float(np.sqrt(self._engine.variances_at(np.array([row]))[0]))])
        chance, low, high = (float(each[0]) for each in self._chances_at([row], [mean], [std]))
        return Explanation(
            item_id,
            parts.prior,
            _contributions(self.history, amounts),
            mean,
            std,
            _contributions(self.logged, parts.logged),
            parts.absence,
            chance,
            low,
            high,
        )


def _checked(rules: AnswerRules) -> AnswerRules:
    """Refuse what are no rules."""
    if not hasattr(rules, "compiled"):
        raise ConfigError(
            f"rules is {type(rules).__name__}; expected igcf.Rules, for instance igcf.Rules.parse({{...}})"
        )
    return rules


def _contributions(reactions: Sequence[Reaction], amounts: FloatArray) -> tuple[Contribution, ...]:
    pairs = zip(reactions, amounts.tolist(), strict=True)
    return tuple(Contribution(item_id, value, amount) for (item_id, value), amount in pairs)
