"""`new-items`: items that are not in the training log are learned from users who arrive one after another.

A share of the items is hidden from training: drawn at random, or the newest. Users outside of training arrive in order
of time, 100 at a time; their reactions to new items are learned at once and shared by all. Test users are then played
with the items as they were known after the first n reactions to each (docs/protocols.md).
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import numpy as np

from igcf.arrays import BoolArray, Float32Array, FloatArray
from igcf.data import Interactions
from igcf.data.splits import ColdStart as ColdUsers
from igcf.errors import ConfigError, DataError
from igcf.lab.baselines import Method, Task, method_named
from igcf.lab.baselines.simple import RankedItems
from igcf.lab.evaluate.protocols.arriving import STRETCH, ArrivingItems, LiveLearner, arrive
from igcf.lab.evaluate.protocols.base import (
    Case,
    Choices,
    Column,
    Grid,
    Job,
    Outcome,
    Pair,
    Play,
    Played,
    Row,
    Session,
    Setup,
    Showing,
    Users,
)
from igcf.lab.evaluate.protocols.cold import ColdStart, cold_users, tested
from igcf.lab.evaluate.protocols.fits import Fits
from igcf.model import Model
from igcf.model.content import ContentPrior, Features
from igcf.model.new_items import ItemEvidence
from igcf.online import Environment, Exposure, Greedy, Learner, ModelLearner, Shown, replay
from igcf.tables import Table

REACTIONS = (0, 5, 20, 50)
"""Numbers of reactions to each new item after which test users are played."""
PSEUDO_USERS = 10.0
"""Users that the mean success rate of all items stands for, in the popularity of a new item."""
VALIDATION_SEED = 99
"""Seed that draws the items on which settings were chosen; no other draw hides them."""
New = Literal["random", "newest"]
ROWS = (
    ("frozen", None),
    *((name, REACTIONS[-1]) for name in ("pop", "no-content")),
    ("content", 0),
    *((name, n) for name in ("igcf", "igcf-in-turn") for n in REACTIONS[1:]),
    ("ceiling", None),
)
"""Rows of the tables, with the largest number of reactions to each new item that they know."""


@dataclass(frozen=True, eq=False, kw_only=True)
class NewItemsCase(Case):
    """Case with the items that are hidden from training, and the users from whom they are learned."""

    is_new: BoolArray
    arriving: Interactions
    everything: Interactions
    """The whole log."""


@dataclass(frozen=True)
class NewItemsProtocol(ColdStart):
    """New users, and items that are not in the training log."""

    name: ClassVar[str] = "new-items"
    methods: ClassVar[tuple[str, ...]] = ("igcf",)
    share: float = 0.2
    """Share of the items that are hidden from training."""
    new: New = "random"
    """Which items are hidden."""
    price: float = 0.01
    """Share of what known items bring that trials of new ones may cost."""

    def setup(self, data: Interactions, choices: Choices) -> Setup:
        """Return the experiment on this log; some users are left to learn new items from."""
        if self.new == "newest" and data.timestamps is None:
            raise ConfigError(f"{data.name} has no timestamps; the newest items need them, use --new random")
        setup, most = super().setup(data, choices), data.n_users // 8
        return replace(setup, n_users=min(setup.n_users, most), n_validation=min(setup.n_validation, most))

    def prepare(self, data: Interactions, setup: Setup, seed: int, users: Users) -> NewItemsCase:
        """Split the users as cold start does, and the items."""
        split = cold_users(data, setup, seed)
        case = tested(setup, split.train, (split.validation,), (split.test,), users)
        return NewItemsCase(
            replace(case.task, seed=seed),
            case.truth,
            case.user_ids,
            is_new=hidden_items(data, self.share, self.new, seed, is_validation=users == "validation"),
            arriving=arriving_users(data, split),
            everything=data,
        )

    def given(self, case: Case) -> Task:
        """Hide all reactions to new items; their rows of the catalogue stay."""
        assert isinstance(case, NewItemsCase)  # noqa: S101
        train, *validation = (
            log.subset(~case.is_new[log.item_idx]) for log in (case.task.train, *case.task.validation)
        )
        return replace(case.task, train=train, validation=tuple(validation))

    def training_truth(self, case: Case, session: Session) -> tuple[Float32Array, ...]:
        """Return the users who arrive, in order of time."""
        assert isinstance(case, NewItemsCase)  # noqa: S101
        return (case.arriving.dense(),)

    def refusal(self, method: Method) -> str | None:
        """Refuse nothing: a method that is not igcf knows new items only by what it learns from arriving users."""
        return None

    def accepts(self, method: Method) -> bool:
        """Tell whether `--methods all` includes a method."""
        return method.name == "igcf"

    def plays(self, method: Method, settings: Mapping[str, Any], dataset: str) -> list[Play]:
        """Return the rows of the tables, which share one job."""
        if method.name != "igcf":
            return [Play(method.name, settings)]
        return [
            Play(name if n is None else f"{name}, {n} reactions", settings, {"row": name, "reactions": n})
            for name, n in ROWS
        ]

    def grids(self, method: Method, *, paper: bool = False) -> list[Grid]:
        """Search nothing: rows are greedy."""
        return [{}]

    def exposure(self, setup: Setup) -> Exposure:
        """Return how new items are tried: at a price, in the second half of a user's rounds."""
        return Exposure(price=self.price, known=setup.sessions[0].rounds // 2)

    def run(self, case: Case, job: Job, fits: Fits) -> Iterator[Played]:
        """Train without the new items, let users arrive twice, then play the test users with every row."""
        assert isinstance(case, NewItemsCase)  # noqa: S101
        if job.method != "igcf":
            for found in super().run(replace(case, task=self.given(case)), job, fits):
                yield found._replace(details=_on_new(found.shown, case.is_new, job.setup))
            return
        setup, rounds = job.setup, job.setup.sessions[0].rounds
        is_new, train = case.is_new, case.task.train
        order = np.concatenate([np.flatnonzero(~is_new), np.flatnonzero(is_new)])
        n_old = int((~is_new).sum())
        truth, stream = case.truth[0][:, order], case.arriving.dense()[:, order]
        known_train, *known_validation = (without_items(log, is_new) for log in (train, *case.task.validation))
        known_only = replace(case.task, train=known_train, validation=tuple(known_validation))
        started = time.perf_counter()
        fit, settings = method_named(job.method).fit, job.plays[0].settings
        base = fit(known_only, settings, self.rng(job, 1))
        ceiling = fit(case.task, settings, self.rng(job, 1))
        seconds = {"pretrain": round(time.perf_counter() - started, 3), "online": 0.0}
        items, exposure = [case.everything.item(int(row)) for row in np.flatnonzero(is_new)], self.exposure(setup)
        anyhow = replace(exposure, price=1.0, doubt=0.0, turn=1.0, most=REACTIONS[-1])
        paid, in_turn = (ArrivingItems(base.with_items(items), how) for how in (exposure, anyhow))
        blind = ArrivingItems(_without_content(base).with_items(items), exposure)
        sources = {"no-content": blind, "content": paid, "igcf": paid, "igcf-in-turn": in_turn}
        stretches = {
            "igcf": arrive(base, LiveLearner(paid, is_learning=True, watchers=[blind]), stream, setup, n_old),
            "igcf-in-turn": arrive(base, LiveLearner(in_turn, is_learning=True), stream, setup, n_old),
        }
        for play in job.plays:
            name, n = play.notes["row"], play.notes["reactions"]
            table, places = truth, order
            learner: Learner
            if name == "frozen":
                learner, table = ModelLearner(base, Greedy()), truth[:, :n_old]
            elif name == "ceiling":
                learner, table, places = ModelLearner(ceiling, Greedy()), case.truth[0], np.arange(len(order))
            elif name == "pop":
                learner = _popularity(train, paid.items.evidence, is_new, setup.satisfied)
            else:
                learner = LiveLearner(sources[name].limited(n), is_learning=False)
            shown = replay(learner, table, rounds=rounds, rng=np.random.default_rng(0))
            shown = Shown(places[shown.rows].astype(np.int32), shown.values)
            details = _on_new(shown, is_new, setup)
            if name in stretches and n == REACTIONS[-1]:
                reactions = sources[name].items.n_reactions.tolist()
                details |= {"reactions": reactions, "stretches": stretches[name]}
            yield Played(shown, details, seconds)

    def show(self, learner: Learner, case: Case, job: Job, play: Play, session: Session) -> Showing:
        """Let users arrive, where the learner may remember what they taught it of the items, then test users."""
        (stream,), rng = self.training_truth(case, session), self.rng(job, 2)
        for start in range(0, len(stream) if getattr(learner, "remembers_items", False) else 0, STRETCH):
            part = Environment(stream[start : start + STRETCH], rounds=session.rounds, slate=session.slate)
            part.play(learner, rng=rng)
        return self.environment(case, session).play(learner, rng=rng), {}

    def count(self, outcome: Outcome, setup: Setup) -> Row:
        """Count the successes on new items, too."""
        row = super().count(outcome, setup)
        last = str(outcome.session.rounds)
        row.figures["new"] = {last: float(np.mean(outcome.details["successes_on_new"]))}
        return row

    def columns(self, session: Session, row: Row) -> list[Column]:
        """Put successes on new items behind those on all."""
        columns, n = super().columns(session, row), len(self.cutoffs(session))
        return [*columns[:n], ("new", str(session.rounds), "new"), *columns[n:]]

    def pairs(self, session: Session, outcomes: Sequence[Outcome], means: Mapping[str, FloatArray]) -> Iterator[Pair]:
        """Compare every row with the frozen catalogue."""
        curve, t = self.target(session)
        yield from (Pair(label, "frozen", curve, t) for label in means if label != "frozen" and "frozen" in means)

    def more_tables(self, rows: Sequence[Row]) -> list[Table]:
        """Return how much of the gap to the ceiling is closed, and how the arriving users fared, by seed."""
        tables = []
        for seed in dict.fromkeys(row.outcome.seed for row in rows):
            own = {row.method: row for row in rows if row.outcome.seed == seed}
            if not {"frozen", "ceiling"} <= set(own):
                continue
            ceiling = own["ceiling"].outcome
            last = str(ceiling.session.rounds)
            reached, new = (
                {label: row.figures[name][last] for label, row in own.items()} for name in ("precision", "new")
            )
            low, gap = reached["frozen"], max(reached["ceiling"] - reached["frozen"], 1e-9)
            closed = {label: f"{(mean - low) / gap:.0%}" for label, mean in reached.items()}
            lines = tuple((label, closed[label], f"{new[label] / max(new['ceiling'], 1e-9):.0%}") for label in own)
            title = f"seed {seed}, {ceiling.details['n_new']} new items: gap between frozen and ceiling"
            tables.append(Table(title, ("method", "gap closed", "new / ceiling"), lines))
            outcomes = [row.outcome for row in own.values()]
            tables += [_stretches(seed, each) for each in outcomes if "stretches" in each.details]
        return tables

    def shape(self, session: Session) -> str:
        """Say how many items are new."""
        which = "drawn" if self.new == "random" else "the newest"
        return f"{session}, {self.share:.0%} of the items new ({which})"


def _on_new(shown: Shown, is_new: BoolArray, setup: Setup) -> dict[str, Any]:
    """Return how many new items satisfied each user."""
    on_new = ((shown.values >= setup.satisfied) & is_new[shown.rows]).sum(axis=(1, 2))
    return {"successes_on_new": on_new.tolist(), "n_new": int(is_new.sum())}


def _popularity(
    train: Interactions, evidence: Sequence[ItemEvidence], is_new: BoolArray, satisfied: float
) -> RankedItems:
    """Rank by success rate so far: of the training users and, for a new item, of the reactions to it and the mean."""
    n_users = max(len(np.unique(train.user_idx)), 1)
    happy = train.item_idx[train.values >= satisfied]
    rates = np.bincount(happy, minlength=train.n_items)[~is_new] / n_users
    own = []
    for each in evidence:
        rewards = [float(one.rewards[0]) for one in each.contributions.values()][: REACTIONS[-1]]
        own.append((rates.mean() * PSEUDO_USERS + np.nansum(rewards)) / (PSEUDO_USERS + len(rewards)))
    return RankedItems(np.concatenate([rates, own]))


def _without_content(model: Model) -> Model:
    """Return the model with a content prior that knows no feature: new items are like the others."""
    content = model.content
    assert content is not None  # noqa: S101
    items = [model.catalogue.item(row) for row in range(model.n_items)]
    mean = np.concatenate([[1.0], content.features.of(items).mean(axis=0)])
    flat = ContentPrior(
        Features(),
        mean[None] @ content.shares,
        content.least_share,
        tuple(np.einsum("f,kfw->kw", mean, each)[:, None].astype(np.float32) for each in content.coefficients),
        content.covs,
        content.noise,
        content.temperature,
    )
    return model.changed(content=flat)


def hidden_items(data: Interactions, share: float, new: New, seed: int, *, is_validation: bool = False) -> BoolArray:
    """Return which items are new, (items,): drawn at random, or those that appeared last.

    Settings are chosen on items of a draw of their own (`is_validation`), which no seed hides.
    """
    n = max(1, round(share * data.n_items))
    result = np.zeros(data.n_items, dtype=np.bool_)
    first = data.first_appearances()
    if new == "newest" and first is not None:
        result[np.argsort(first, kind="stable")[-n:]] = True
        return result
    order = np.random.default_rng(VALIDATION_SEED).permutation(data.n_items)
    chosen = order[:n] if is_validation else np.random.default_rng([seed, 7]).permutation(order[n:])[:n]
    result[chosen] = True
    return result


def without_items(data: Interactions, rows: BoolArray) -> Interactions:
    """Return the log without the items at `rows`; later rows move up."""
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


def arriving_users(data: Interactions, split: ColdUsers) -> Interactions:
    """Return the users outside the training, validation and test users, in order of time."""
    known = {*split.train.user_ids, *split.validation.user_ids, *split.test.user_ids}
    users = np.array([row for row, user_id in enumerate(data.user_ids) if user_id not in known], dtype=np.int64)
    if not len(users):
        raise DataError(f"{data.name} has no users left to learn new items from; lower --users")
    if data.timestamps is not None:
        first = np.full(data.n_users, np.iinfo(np.int64).max)
        np.minimum.at(first, data.user_idx, data.timestamps)
        users = users[np.argsort(first[users], kind="stable")]
    return data.only_users(users)


def _stretches(seed: int, outcome: Outcome) -> Table:
    """Return how the arriving users fared, and how many of the items have had some numbers of reactions."""
    counts = np.asarray(outcome.details["reactions"])
    reached = ", ".join(f"{float((counts >= n).mean()):.0%} had {n} reactions" for n in REACTIONS[1:])
    lines = tuple(
        (
            str(number * STRETCH + each["n_users"]),
            *(str(each[name]) for name in ("frozen", "learning", "on_new", "trials")),
            f"{each['reactions']:.1f}",
            f"{-each['price']:+.1%}",
        )
        for number, each in enumerate(outcome.details["stretches"])
    )
    columns = ("users", "frozen", "learning", "on new", "trials", "reactions per item", "change")
    return Table(f"seed {seed}, arriving users, {outcome.notes['row']}: {reached}", columns, lines)
