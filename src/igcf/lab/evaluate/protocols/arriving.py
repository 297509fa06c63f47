"""Users who arrive one after another, and learners that learn new items from them."""

from collections.abc import Sequence

import numpy as np

from igcf.arrays import BoolArray, Float32Array, IntArray
from igcf.lab.evaluate.protocols.base import Setup
from igcf.model import Model
from igcf.model.new_items import ItemEvidence
from igcf.online import Exposure, Greedy, ModelLearner, ScoringEngine, replay
from igcf.online.new_items.trials import Answers
from igcf.online.new_items.update import NewItems
from igcf.online.selection import select_items
from igcf.online.serving import LiveServing

STRETCH = 100
"""Users who arrive at the same time."""


class ArrivingItems(LiveServing):
    """New items that all users of an experiment learn together."""

    def __init__(self, model: Model, exposure: Exposure) -> None:
        super().__init__(model, exposure)
        self._start = model

    @property
    def items(self) -> NewItems:
        """The new items as they are known now."""
        found = self.current().new_items
        assert found is not None  # noqa: S101
        return found

    def limited(self, most: int) -> "ArrivingItems":
        """Return the same items after the first `most` reactions to each."""
        other = ArrivingItems(self._start, self.exposure)
        first = [dict(list(each.contributions.items())[:most]) for each in self.items.evidence]
        other.set_evidence({place: ItemEvidence(each) for place, each in enumerate(first) if each})
        return other


class LiveLearner:
    """Learner that recommends new items among the others, learns both, and lets users try new items."""

    def __init__(self, live: ArrivingItems, *, is_learning: bool, watchers: Sequence[ArrivingItems] = ()) -> None:
        self.live, self.is_learning, self.watchers = live, is_learning, watchers
        self._template = ScoringEngine(live.items.model, tracks_variances=False)
        self._n_met = 0

    def begin(self, n_users: int, *, rng: np.random.Generator) -> None:
        """Start `n_users` users from the population."""
        self._template = self._template.with_new_items(self.live.items)
        self._seen = self.live.items.version
        self._engine, self._rng = self._template.fresh(n_users), rng
        self._tried, self._round = np.zeros(n_users, dtype=np.int64), 0
        self._first_user = self._n_met
        self._n_met += n_users

    def select(self, available: BoolArray, k: int) -> IntArray:
        """Return the best available items, where the last one may be replaced by a trial of a new one."""
        engine, items = self._engine, self.live.items
        if items.version != self._seen:
            engine.take_items(self._template.with_new_items(items))
            engine.items_moved(items.moved_since(self._seen))
            self._seen = items.version
        self._round += k
        rows = np.array(select_items(Greedy(), engine, available, k, make_rng=lambda: self._rng)[0])
        if self.is_learning:
            n_known = self._round - k
            trials = self.live.trials
            may_try = np.array([trials.may_try(int(n), self._round, n_known) for n in self._tried])
            chosen = trials.choose(Answers(engine, available, rows, may_try, available), items)
            self._tried += chosen[:, -1] != rows[:, -1]
            rows = chosen
        return rows

    def observe(self, rows: IntArray, values: Float32Array) -> None:
        """Learn items from the users and users from the items, each as the other was known before."""
        expected = np.take_along_axis(self._engine.means, rows, axis=1)
        for user, slot in np.ndindex(rows.shape) if self.is_learning else ():
            row, value = int(rows[user, slot]), float(values[user, slot])
            model = self._engine.model
            if row < model.n_trained:
                self.live.trials.note_known(float(expected[user, slot]), model.reward.of_one(value))
                continue
            belief, n_known = self._engine.belief(user), self._round - rows.shape[1]
            for live in (self.live, *self.watchers):
                evidence = live.contribution(row, belief, value, n_known)
                live.learn(self._first_user + user, model.item_ids[row], evidence)
        self._engine.observe(rows, values)


def arrive(base: Model, learner: LiveLearner, stream: Float32Array, setup: Setup, n_old: int) -> list[dict[str, float]]:
    """Let the users of the stream come, and compare them with a frozen catalogue, stretch by stretch.

    `frozen`, `learning` and `on_new` are successes, `reactions` is the mean number of reactions per new item at the
    end of the stretch, and `price` the share of the successes that was lost (negative: won).
    """
    result: list[dict[str, float]] = []
    rounds, live = setup.sessions[0].rounds, learner.live
    for start in range(0, len(stream), STRETCH):
        part = stream[start : start + STRETCH]
        frozen = replay(ModelLearner(base, Greedy()), part[:, :n_old], rounds=rounds, rng=np.random.default_rng(0))
        before = int(live.trials.counts.sum())
        shown = replay(learner, part, rounds=rounds, rng=np.random.default_rng(0))
        is_success = shown.values >= setup.satisfied
        n_frozen, n_learning = int((frozen.values >= setup.satisfied).sum()), int(is_success.sum())
        row: dict[str, float] = {"n_users": len(part), "frozen": n_frozen, "learning": n_learning}
        row |= {"on_new": int((is_success & (shown.rows >= n_old)).sum())}
        row |= {"trials": int(live.trials.counts.sum()) - before, "reactions": float(live.items.n_reactions.mean())}
        result.append(row | {"price": 1.0 - n_learning / max(n_frozen, 1)})
    return result
