"""The protocol `new-items`: items that are not in the training log are learned from users who come one after another.

A share of the items is hidden from training, by lot or the newest. Users outside of training arrive in order of time,
in stretches of users who are met at the same time; what they react to new items is learned at once and by all. Test
users are then met with the items as they were known after the first n reactions to each (docs/protocols.md).
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal

import numpy as np

from igcf.arrays import BoolArray, Float32Array, FloatArray, IntArray
from igcf.baselines.simple import RankedItems
from igcf.catalogue.new_items import Exposure, NewItems
from igcf.data import Interactions, cold_start
from igcf.data.splits import Split
from igcf.errors import ConfigError, DataError
from igcf.evaluate.protocols import setup_for
from igcf.model import Model
from igcf.model.content import ContentPrior
from igcf.model.features import Features
from igcf.online import Greedy, Learner, ModelLearner, ScoringEngine, replay
from igcf.online.selection import select_items
from igcf.tables import Table
from igcf.training import pretrain

Part = Literal["lot", "newest"]
REACTIONS = (0, 5, 20, 50)
"""Numbers of reactions to each new item after which test users are met."""
STRETCH = 100
VALIDATION_SEED = 99
"""Draws the items on which settings were chosen; no other draw hides them."""
PSEUDO_USERS = 10.0
"""Users that the mean success rate of all items stands for, in the popularity of a new item."""


@dataclass(frozen=True)
class NewItemsSetup:
    """An experiment of this protocol: plain values only."""

    dataset: str
    satisfied: float
    rounds: int = 120
    split: Split = "auto"
    by_activity: bool = True
    min_reactions: int = 120
    share: float = 0.2
    """Share of the items that are hidden from training."""
    part: Part = "lot"
    n_users: int = 200
    n_validation: int = 200
    n_stream: int = 500
    """Largest number of users from whom items are learned."""
    exposure: Exposure = field(default_factory=Exposure)


@dataclass(frozen=True, eq=False)
class NewItemsRow:
    """What the test users had of one method."""

    method: str
    reactions: int | None
    """Largest number of reactions to each new item that it knows; None: it does not depend on them."""
    all_items: FloatArray
    """Successes of each test user."""
    new_items: FloatArray
    """Successes of each test user on new items."""

    def as_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {
            "method": self.method,
            "reactions": self.reactions,
            "all": float(self.all_items.mean()),
            "new": float(self.new_items.mean()),
            "successes": self.all_items.astype(int).tolist(),
            "successes_new": self.new_items.astype(int).tolist(),
        }


@dataclass(frozen=True)
class Stretch:
    """Successes of users who came one after the other, with a frozen catalogue and with new items being learned."""

    n_users: int
    frozen: int
    learning: int
    on_new: int
    trials: int
    reactions: float
    """Mean number of reactions per new item at its end."""

    @property
    def price(self) -> float:
        """Share of the successes that was lost against the frozen catalogue; negative: won."""
        return 1.0 - self.learning / max(self.frozen, 1)


@dataclass(frozen=True, eq=False)
class NewItemsResults:
    """All methods on the same test users, and the users before them."""

    setup: NewItemsSetup
    seed: int
    n_items: int
    n_new: int
    rows: tuple[NewItemsRow, ...]
    stretches: tuple[Stretch, ...]
    n_reactions: IntArray
    """Number of reactions that each new item has had in the end, (new items,)."""
    seconds: float
    command: str = ""

    def as_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {
            "protocol": "new-items",
            "command": self.command,
            **asdict(self.setup),
            "seed": self.seed,
            "items": self.n_items,
            "new_items": self.n_new,
            "rows": [row.as_dict() for row in self.rows],
            "stretches": [{**vars(each), "price": each.price} for each in self.stretches],
            "reactions": self.n_reactions.tolist(),
            "seconds": self.seconds,
        }


def new_items_setup(  # noqa: PLR0913  (each may change one choice of the protocol)
    data: Interactions,
    *,
    satisfied: float | None = None,
    rounds: int | None = None,
    split: Split | None = None,
    n_users: int | None = None,
    share: float = 0.2,
    part: Part = "lot",
    exposure: Exposure | None = None,
) -> NewItemsSetup:
    """Return the experiment on this log."""
    if part == "newest" and data.timestamps is None:
        raise ConfigError(f"{data.name} has no timestamps; the newest items need them, draw items by lot")
    cold = setup_for(data, "cold-start", rounds=rounds, satisfied=satisfied, split=split, n_users=n_users)
    return NewItemsSetup(
        data.name,
        cold.satisfied,
        cold.sessions[0].rounds,
        cold.split,
        cold.by_activity,
        cold.min_reactions,
        share,
        part,
        min(cold.n_users, data.n_users // 8),
        min(200, data.n_users // 8),
        exposure=exposure or Exposure(),
    )


def hidden_items(data: Interactions, share: float, part: Part, seed: int, *, is_validation: bool = False) -> BoolArray:
    """Return which items are new, (items,): drawn by lot, or those that appeared last.

    Settings are chosen on items of a draw of their own (`is_validation`), which no seed hides.
    """
    n = max(1, round(share * data.n_items))
    result = np.zeros(data.n_items, dtype=np.bool_)
    first = data.first_appearances()
    if part == "newest" and first is not None:
        result[np.argsort(first, kind="stable")[-n:]] = True
        return result
    order = np.random.default_rng(VALIDATION_SEED).permutation(data.n_items)
    chosen = order[:n] if is_validation else np.random.default_rng([seed, 7]).permutation(order[n:])[:n]
    result[chosen] = True
    return result


def without_items(data: Interactions, rows: BoolArray) -> Interactions:
    """Return the log without the items at `rows`, whose rows are closed up."""
    kept = np.flatnonzero(~rows)
    place = np.cumsum(~rows) - 1
    part = data.subset(~rows[data.item_idx])
    return replace(
        part,
        item_idx=place[part.item_idx].astype(np.int32),
        item_ids=tuple(data.item_ids[row] for row in kept),
        titles=None if data.titles is None else tuple(data.titles[row] for row in kept),
        categories=None if data.categories is None else tuple(data.categories[row] for row in kept),
        attributes=None if data.attributes is None else data.attributes.taken(kept.tolist()),
    )


class LiveLearner:
    """Learner that meets users with new items among the others, learns both, and lets users try new items."""

    def __init__(self, items: NewItems, *, is_learning: bool, watchers: Sequence[NewItems] = ()) -> None:
        self.items, self.is_learning, self.watchers = items, is_learning, watchers
        self._template = ScoringEngine(items.model, tracks_variances=False)
        self._n_met = 0

    def begin(self, n_users: int, *, rng: np.random.Generator) -> None:
        """Start `n_users` users from the population."""
        self._template.prior_items_moved(self.items.rows)
        self._seen = self.items.version
        self._engine, self._rng = self._template.fresh(n_users), rng
        self._tried, self._round = np.zeros(n_users, dtype=np.int64), 0
        self._first_user = self._n_met
        self._n_met += n_users

    def select(self, available: BoolArray, k: int) -> IntArray:
        """Return the best available items, the last of which may give way to a trial of a new one."""
        engine, items = self._engine, self.items
        engine.items_moved(items.changed_since(self._seen))
        self._seen = items.version
        self._round += k
        rows = np.array(select_items(Greedy(), engine, available, k, make_rng=lambda: self._rng)[0])
        if self.is_learning:
            may_try = self._tried + 1 <= items.exposure.share * self._round
            chosen = items.choose(engine, available, rows, may_try)
            self._tried += chosen[:, -1] != rows[:, -1]
            rows = chosen
        return rows

    def observe(self, rows: IntArray, values: Float32Array) -> None:
        """Learn items from the users and users from the items, each as the other was known before."""
        expected = np.take_along_axis(self._engine.means, rows, axis=1)
        for user, slot in np.ndindex(rows.shape) if self.is_learning else ():
            row, value = int(rows[user, slot]), float(values[user, slot])
            if row not in self.items:
                self.items.account(float(expected[user, slot]), value)
                continue
            belief = self._engine.belief(user)
            for items in (self.items, *self.watchers):
                items.observe((self._first_user + user, row), row, belief, value)
        self._engine.observe(rows, values)


def new_items(
    data: Interactions,
    setup: NewItemsSetup,
    *,
    seed: int = 0,
    users: Literal["test", "validation"] = "test",
    step: Callable[[str], None] = lambda stage: None,
    command: str = "",
) -> NewItemsResults:
    """Run the experiment; `users` says whether the test users are met or, to choose settings, the validation users."""
    begun = time.perf_counter()
    split = cold_start(
        data,
        split=setup.split,
        n_test=setup.n_users,
        n_validation=setup.n_validation,
        min_reactions=setup.min_reactions,
        by_activity=setup.by_activity,
        rng=np.random.default_rng(seed),
    )
    is_new = hidden_items(data, setup.share, setup.part, seed, is_validation=users == "validation")
    order = np.concatenate([np.flatnonzero(~is_new), np.flatnonzero(is_new)])
    n_old, met = int((~is_new).sum()), split.test if users == "test" else split.validation
    truth, stream = met.dense()[:, order], _stream(data, split, setup).dense()[:, order]
    settings: dict[str, Any] = {
        "satisfied": setup.satisfied,
        "calibrated": False,
        "neighbours": False,
        "progress": False,
    }
    step("frozen")
    base = pretrain(
        without_items(split.train, is_new), validation=without_items(split.validation, is_new), seed=seed, **settings
    )
    everything = [data_item(data, int(row)) for row in np.flatnonzero(is_new)]
    rows = [_played("frozen", None, ModelLearner(base, Greedy()), truth[:, :n_old], setup, n_old)]
    step("igcf")
    items = NewItems(base.with_items(everything), setup.exposure)
    blind = NewItems(_without_content(base).with_items(everything), setup.exposure)
    stretches = _learned(base, LiveLearner(items, is_learning=True, watchers=[blind]), stream, setup, n_old)
    step("others")
    rows.append(_played("pop", REACTIONS[-1], _popularity(split.train, items, is_new, setup), truth, setup, n_old))
    rows += [_played("no-content", n, _known(blind, n), truth, setup, n_old) for n in REACTIONS[3:]]
    rows += [_played("content" if n == 0 else "igcf", n, _known(items, n), truth, setup, n_old) for n in REACTIONS]
    step("ceiling")
    ceiling = pretrain(split.train, validation=split.validation, seed=seed, **settings)
    found = _played("ceiling", None, ModelLearner(ceiling, Greedy()), met.dense(), setup, is_new)
    return NewItemsResults(
        setup,
        seed,
        data.n_items,
        len(everything),
        (*rows, found),
        tuple(stretches),
        items.n_reactions,
        time.perf_counter() - begun,
        command,
    )


def data_item(data: Interactions, row: int) -> dict[str, Any]:
    """Return how the log describes one item."""
    attributes = {} if data.attributes is None else {"numbers": data.attributes.of(row)["numbers"]}
    return {
        "id": data.item_ids[row],
        "title": None if data.titles is None else data.titles[row],
        "categories": () if data.categories is None else data.categories[row],
        **attributes,
    }


def _stream(data: Interactions, split: Any, setup: NewItemsSetup) -> Interactions:
    """The users from whom items are learned: nobody of the training, validation or test users, in order of time."""
    known = {*split.train.user_ids, *split.validation.user_ids, *split.test.user_ids}
    users = np.array([row for row, user_id in enumerate(data.user_ids) if user_id not in known], dtype=np.int64)
    if not len(users):
        raise DataError(f"{data.name} has no users left to learn new items from; lower --users")
    if data.timestamps is not None:
        first = np.full(data.n_users, np.iinfo(np.int64).max)
        np.minimum.at(first, data.user_idx, data.timestamps)
        users = users[np.argsort(first[users], kind="stable")]
    return data.only_users(users[: setup.n_stream])


def _learned(
    base: Model, learner: LiveLearner, stream: Float32Array, setup: NewItemsSetup, n_old: int
) -> list[Stretch]:
    """Let the users of the stream come, and compare them with a frozen catalogue, stretch by stretch."""
    result = []
    for start in range(0, len(stream), STRETCH):
        part = stream[start : start + STRETCH]
        frozen = _played("frozen", None, ModelLearner(base, Greedy()), part[:, :n_old], setup, n_old)
        before = int(learner.items.trials.sum())
        own = _played("igcf", None, learner, part, setup, n_old)
        trials, reactions = int(learner.items.trials.sum()) - before, float(learner.items.n_reactions.mean())
        n_frozen, n_all, n_new = (int(each.sum()) for each in (frozen.all_items, own.all_items, own.new_items))
        result.append(Stretch(len(part), n_frozen, n_all, n_new, trials, reactions))
    return result


def _known(items: NewItems, n_reactions: int) -> LiveLearner:
    return LiveLearner(items.limited(n_reactions), is_learning=False)


def _played(
    method: str,
    reactions: int | None,
    learner: Learner,
    truth: Float32Array,
    setup: NewItemsSetup,
    new: int | BoolArray,
) -> NewItemsRow:
    """Play users; `new` is the first new row, or says which rows are new."""
    shown = replay(learner, truth, rounds=setup.rounds, rng=np.random.default_rng(0))
    rows, is_success = shown.rows[:, :, 0], shown.values[:, :, 0] >= setup.satisfied
    is_new = new[rows] if isinstance(new, np.ndarray) else rows >= new
    return NewItemsRow(
        method, reactions, is_success.sum(axis=1).astype(np.float64), (is_success & is_new).sum(axis=1).astype(float)
    )


def _popularity(train: Interactions, items: NewItems, is_new: BoolArray, setup: NewItemsSetup) -> RankedItems:
    """Success rate so far: of the training users and, for a new item, of the reactions to it, begun at the mean."""
    n_users = max(len(np.unique(train.user_idx)), 1)
    happy = train.item_idx[train.values >= setup.satisfied]
    rates = np.bincount(happy, minlength=train.n_items)[~is_new] / n_users
    own = []
    for row in items.rows.tolist():
        rewards = [float(told.rewards[0]) for told in items.told(row).values()][: REACTIONS[-1]]
        own.append((rates.mean() * PSEUDO_USERS + np.nansum(rewards)) / (PSEUDO_USERS + len(rewards)))
    return RankedItems(np.concatenate([rates, own]))


def _without_content(model: Model) -> Model:
    """The model with a content prior that knows no feature: new items are like the others."""
    content = model.content
    assert content is not None  # noqa: S101
    items = [model.catalogue.item(row) for row in range(model.n_items)]
    mean = np.concatenate([[1.0], content.features.of(items).mean(axis=0)])
    other = model.used_as(model.usage)
    other.content = ContentPrior(
        Features(),
        mean[None] @ content.shares,
        content.least_share,
        tuple(np.einsum("f,kfw->kw", mean, each)[:, None].astype(np.float32) for each in content.coefficients),
        content.covs,
        content.noise,
        content.temperature,
    )
    return other


def new_items_tables(results: NewItemsResults) -> list[Table]:
    """Build the table of the methods and that of the stretches."""
    ceiling = results.rows[-1]
    frozen = results.rows[0]
    gap = max(float(ceiling.all_items.mean() - frozen.all_items.mean()), 1e-9)
    lines = tuple(
        (
            row.method,
            "" if row.reactions is None else str(row.reactions),
            f"{row.all_items.mean():.2f}",
            f"{row.new_items.mean():.2f}",
            f"{(row.all_items.mean() - frozen.all_items.mean()) / gap:.0%}",
            f"{row.new_items.mean() / max(ceiling.new_items.mean(), 1e-9):.0%}",
        )
        for row in results.rows
    )
    title = (
        f"{results.setup.dataset}, new items: {results.n_new} of {results.n_items} items, "
        f"{len(ceiling.all_items)} users, {results.setup.rounds} rounds"
    )
    header = ("method", "reactions", "all", "new", "gap closed", "new / ceiling")
    stretches = tuple(
        (
            str(number * STRETCH + each.n_users),
            str(each.frozen),
            str(each.learning),
            str(each.on_new),
            str(each.trials),
            f"{each.reactions:.1f}",
            f"{-each.price:+.1%}",
        )
        for number, each in enumerate(results.stretches)
    )
    columns = ("users", "frozen", "learning", "on new", "trials", "reactions per item", "change")
    return [Table(title, header, lines), Table("while new items are learned", columns, stretches)]
