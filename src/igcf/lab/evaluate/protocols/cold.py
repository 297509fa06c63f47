"""Sessions with users outside the training data: cold start and its variants, and users who return."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, ClassVar, Literal

import numpy as np

from igcf.arrays import Float32Array, FloatArray, IntArray
from igcf.data import Interactions, taste_drift
from igcf.data.registry import known_dataset
from igcf.data.splits import ColdStart as ColdUsers
from igcf.data.splits import cold_start, halved, has_all_times
from igcf.errors import ConfigError, DataError
from igcf.lab.baselines import Method, Task
from igcf.lab.baselines.history import Logged
from igcf.lab.evaluate import metrics
from igcf.lab.evaluate.protocols.base import (
    Case,
    Choices,
    Column,
    Grid,
    Job,
    Outcome,
    Pair,
    Play,
    Protocol,
    Row,
    Session,
    Setup,
    Showing,
    Users,
    figures_at,
)
from igcf.lab.evaluate.protocols.sizes import activity_classes, fitting_size
from igcf.lab.evaluate.tuned_settings import variant_settings
from igcf.online import Environment, Learner, ModelLearner
from igcf.tables import Table

WITH = " with attributes"
"""Suffix of the label of a row with users who start from their attributes."""
FEWEST_IN_GROUP = 20
"""Test users of a group below which it is not listed."""


@dataclass(frozen=True)
class ColdStart(Protocol):
    """New users, one item a round."""

    name: ClassVar[str] = "cold-start"
    attributes: bool = False
    """Whether methods that can also start from the attributes of the test users, in rows of their own."""

    def setup(self, data: Interactions, choices: Choices) -> Setup:
        """Return the experiment as the paper runs it on this data set, with the caller's choices.

        A log without a known name gets the sizes and split that it allows (`fitting_size`), and ordinary test users.
        """
        sessions = choices.sessions(self.sessions)
        info = known_dataset(data)
        if info is None:
            size = fitting_size(data, choices.split or "auto", max(each.rounds * each.slate for each in sessions))
            if choices.rounds is None:
                sessions = tuple(
                    Session(max(1, min(each.rounds, size.n_shown // each.slate)), each.slate) for each in sessions
                )
            split, n_users, least = size.split, size.n_users, size.least
        else:
            split, n_users, least = info.default_split, Setup.n_users, Setup.min_reactions
        least = least if choices.min_reactions is None else choices.min_reactions
        if (shown := max(each.rounds * each.slate for each in sessions)) > data.n_items:
            raise ConfigError(
                f"{shown} items would be shown to each user, {data.name} has {data.n_items}; lower rounds= or slate="
            )
        return self.experiment(
            data,
            choices,
            sessions=sessions,
            split=choices.split or split,
            by_activity=info.by_activity if info else False,
            n_users=choices.n_users or n_users,
            min_reactions=least,
            activity=() if info else activity_classes(data, least),
        )

    def prepare(self, data: Interactions, setup: Setup, seed: int, users: Users) -> Case:
        """Split the log into training users and those who are tested."""
        cold = cold_users(data, setup, seed)
        return tested(setup, cold.train, (cold.validation,), (cold.test,), users)

    def show(self, learner: Learner, case: Case, job: Job, play: Play, session: Session) -> Showing:
        """Play one session with all users."""
        begun, details = attributes_of(learner, case, play)
        return self.environment(case, session).play(learner, rng=self.rng(job, 2), begun=begun), details

    def plays(self, method: Method, settings: Mapping[str, Any], dataset: str) -> list[Play]:
        """Return a method as it is and, where it is asked for, with the attributes of the users."""
        rows = super().plays(method, settings, dataset)
        if self.attributes and "attributes" in settings:
            rows.append(Play(f"{method.name}{WITH}", {**settings, "attributes": True}))
        return rows

    def pairs(self, session: Session, outcomes: Sequence[Outcome], means: Mapping[str, FloatArray]) -> Iterator[Pair]:
        """Compare each row with attributes with the one without them, too."""
        yield from super().pairs(session, outcomes, means)
        for label in means:
            if label.endswith(WITH) and label.removesuffix(WITH) in means:
                for t in self.cutoffs(session):
                    yield Pair(label, label.removesuffix(WITH), self.target(session)[0], t)

    def more_tables(self, rows: Sequence[Row]) -> list[Table]:
        """Return the table of groups of users by their attributes, without and with them."""
        return [*super().more_tables(rows), *group_tables(rows)]


@dataclass(frozen=True)
class TopK(ColdStart):
    """New users, several items a round."""

    name: ClassVar[str] = "top-k"
    sessions: ClassVar[tuple[Session, ...]] = (Session(40, 3), Session(20, 5))


@dataclass(frozen=True)
class TasteDrift(ColdStart):
    """Users with a taste that changes in the middle of the session."""

    name: ClassVar[str] = "taste-drift"
    DRIFT_GRID: ClassVar[Grid] = {"forgetting": (1.0, 0.995, 0.99, 0.98, 0.96, 0.94), "nu": (0.0, 0.1, 0.5)}
    """Values of forgetting and exploration that are tried, the same for every method that has them."""

    def prepare(self, data: Interactions, setup: Setup, seed: int, users: Users) -> Case:
        """Halve the history of the users with the largest change of taste."""
        sizes = {"n_validation": setup.n_validation, "min_reactions": setup.min_reactions}
        drift = taste_drift(data, n_test=setup.n_users, **sizes)
        validation = (drift.validation_before, drift.validation_after)
        return tested(setup, drift.train, validation, (drift.test_before, drift.test_after), users)

    def training_truth(self, case: Case, session: Session) -> tuple[Float32Array, ...]:
        """Halve the history of the training users."""
        return tuple(part.dense() for part in halved(case.task.train))

    def cutoffs(self, session: Session) -> tuple[int, ...]:
        """Return the rounds from the change on: 60, 80, 100, 120 of 120."""
        return tuple(sorted({max(1, session.rounds * part // 6) for part in (3, 4, 5, 6)}))

    def count(self, outcome: Outcome, setup: Setup) -> Row:
        """Count the rounds after the change alone, too."""
        row = super().count(outcome, setup)
        after = metrics.after_drift(outcome.shown.values >= setup.satisfied)
        session = outcome.session
        row.figures["after_drift"] = figures_at(after, self.cutoffs(session), offset=session.rounds // 2)
        return row

    def columns(self, session: Session, row: Row) -> list[Column]:
        """Put the rounds after the change behind the others."""
        columns, at = super().columns(session, row), self.cutoffs(session)
        after = ("after_drift", str(at[-1]), f"P {session.rounds // 2 + 1}-{session.rounds}")
        return [*columns[: len(at)], after, *columns[len(at) :]]

    def grids(self, method: Method, *, paper: bool = False) -> list[Grid]:
        """Search forgetting first, then exploration, then the method's own grid."""
        own = {name: values for grid in super().grids(method, paper=paper) for name, values in grid.items()}
        drift: list[Grid] = [{name: values} for name, values in self.DRIFT_GRID.items() if name in method.defaults]
        return [*drift, {name: values for name, values in own.items() if name not in self.DRIFT_GRID}]


@dataclass(frozen=True)
class Ablation(ColdStart):
    """A model and its variants, each without one of its parts."""

    name: ClassVar[str] = "ablation"
    sessions: ClassVar[tuple[Session, ...]] = (Session(60, 1), Session(20, 3))
    methods: ClassVar[tuple[str, ...]] = ("igcf",)

    def refusal(self, method: Method) -> str | None:
        """Refuse a method without variants."""
        return None if method.variants else f"{method.name} has no ablations; igcf and igcf-paper have"

    def plays(self, method: Method, settings: Mapping[str, Any], dataset: str) -> list[Play]:
        """Return the full model and its variants."""
        variants = {f"{method.name} {what}": changes for what, changes in method.variants.items()}
        return [Play(method.name, settings)] + [
            Play(label, method.settings({**settings, **variant_settings(dataset, label), **changes}))
            for label, changes in variants.items()
        ]

    def pairs(self, session: Session, outcomes: Sequence[Outcome], means: Mapping[str, FloatArray]) -> Iterator[Pair]:
        """Compare every variant with the full model."""
        curve, last = self.target(session)
        for t in self.cutoffs(session):
            for label, method in {each.label: each.method for each in outcomes}.items():
                if label != method and (label.startswith("igcf") or t == last):
                    yield Pair(label, method, curve, t)


@dataclass(frozen=True)
class Returning(ColdStart):
    """Cold-start users with a few logged reactions; those items are never shown.

    Each number of logged reactions stands beside a cold start of the same users without the same items: some of what
    would satisfy a user is in the log and cannot be shown.
    """

    name: ClassVar[str] = "returning"
    sessions: ClassVar[tuple[Session, ...]] = (Session(40, 1),)
    methods: ClassVar[tuple[str, ...]] = ("igcf",)
    has_history: ClassVar[bool] = True
    logged: tuple[int, ...] = (1, 5, 20, 100)
    """Numbers of reactions that are logged before the first round."""
    part: Literal["random", "earliest"] = "random"
    """Which reactions of a user are logged."""

    def prepare(self, data: Interactions, setup: Setup, seed: int, users: Users) -> Case:
        """Split the log as cold start does, with the whole record of each user."""
        cold = cold_users(data, setup, seed)
        record = cold.test if users == "test" else cold.validation
        return replace(super().prepare(data, setup, seed, users), record=record)

    def plays(self, method: Method, settings: Mapping[str, Any], dataset: str) -> list[Play]:
        """Return the cold start, then each number of logged reactions, without and with the method using them."""
        rows = [Play(method.name, settings)]
        for n in self.logged:
            rows.append(Play(f"{method.name}, cold without those {n}", settings, {"logged": n, "told": False}))
            rows.append(Play(f"{method.name}, {n} logged", settings, {"logged": n, "told": True}))
        return rows

    def show(self, learner: Learner, case: Case, job: Job, play: Play, session: Session) -> Showing:
        """Play one session, after the logged reactions where there are some."""
        if not play.notes:
            return super().show(learner, case, job, play, session)
        assert case.record is not None  # noqa: S101
        rng = np.random.default_rng([job.seed, 3])  # the same for every method and number of reactions
        given = logged_part(case.record, play.notes["logged"], self.part, rng=rng)
        available = np.ones(case.truth[0].shape, dtype=np.bool_)
        available[given.user_idx, given.item_idx] = False
        logged = logged_by_user(given)

        def warm_start(users: IntArray) -> None:
            learner.know([logged[user] for user in users])  # type: ignore[attr-defined]

        world = Environment(case.truth, rounds=session.rounds, slate=session.slate, available=available)
        return world.play(learner, rng=self.rng(job, 2), begun=warm_start if play.notes["told"] else None), {}

    def pairs(self, session: Session, outcomes: Sequence[Outcome], means: Mapping[str, FloatArray]) -> Iterator[Pair]:
        """Compare each start from a log with both cold starts of the same method."""
        curve, _ = self.target(session)
        starts = {each.label: (each.method, each.notes["logged"]) for each in outcomes if each.notes.get("told")}
        for t in self.cutoffs(session):
            for label, (method, n) in starts.items():
                references = (f"{method}, cold without those {n}", method)
                yield from (Pair(label, other, curve, t) for other in references if other in means)


def tested(
    setup: Setup,
    train: Interactions,
    validation: tuple[Interactions, ...],
    test: tuple[Interactions, ...],
    users: Users,
) -> Case:
    """Return the case of a split in which the test or the validation users are played."""
    played = test if users == "test" else validation
    if not played[0].n_users:
        raise ConfigError(f"no {users} users are left beside {test[0].n_users} test users; pass a smaller --users")
    first = setup.sessions[0]
    task = Task(train, setup.satisfied, first.rounds, first.slate, validation, setup.reward, may_refit=users == "test")
    return Case(task, tuple(log.dense() for log in played), played[0].user_ids)


def cold_users(data: Interactions, setup: Setup, seed: int) -> ColdUsers:
    """Split the log into training users and the validation and test users of an experiment."""
    sizes = {"n_test": setup.n_users, "n_validation": setup.n_validation, "min_reactions": setup.min_reactions}
    rng = np.random.default_rng(seed)
    return cold_start(data, split=setup.split, by_activity=setup.by_activity, **sizes, rng=rng)


def places(log: Interactions, order: IntArray) -> IntArray:
    """Return the place of each reaction among those of its user, in an order of the log by users."""
    counts = np.bincount(log.user_idx, minlength=log.n_users)
    place = np.empty(len(log), dtype=np.int64)
    place[order] = np.arange(len(log)) - (np.cumsum(counts) - counts)[log.user_idx[order]]
    return place


def logged_part(
    record: Interactions, n: int, part: Literal["random", "earliest"], *, rng: np.random.Generator
) -> Interactions:
    """Return `n` reactions of each user, all where there are fewer; with the same `rng`, more contain fewer.

    `random` draws them, `earliest` takes the first in time, equal times in random order.
    """
    if n < 1:
        raise ConfigError(f"the number of logged reactions must be at least 1, got {n}")
    keys = [rng.random(len(record)), record.user_idx]
    if part == "earliest":
        if not has_all_times(record) or record.timestamps is None:
            raise DataError(f"{record.name} has reactions without a time; take --part random")
        keys.insert(1, record.timestamps)
    return record.subset(places(record, np.lexsort(keys)) < n)


def logged_by_user(log: Interactions) -> list[Logged]:
    """Return the reactions of each user."""
    order = np.argsort(log.user_idx, kind="stable")
    cuts = np.searchsorted(log.user_idx[order], np.arange(log.n_users + 1))
    parts = [order[start:end] for start, end in pairwise(cuts)]
    return [Logged(log.item_idx[part], log.values[part]) for part in parts]


def attributes_of(learner: Learner, case: Case, play: Play) -> tuple[Callable[[IntArray], None] | None, dict[str, Any]]:
    """Return what starts users from their attributes, where a play asks for it, and which users share which values."""
    table = case.task.train.users
    if not play.settings.get("attributes") or table is None or not isinstance(learner, ModelLearner):
        return None, {}
    given = [table.given(user_id) for user_id in case.user_ids]
    groups: dict[str, list[int]] = {}
    for place, own in enumerate(given):
        for name, value in own.items():
            for text in value if isinstance(value, list) else ():
                groups.setdefault(f"{name}: {text}", []).append(place)
    common = {name: places for name, places in sorted(groups.items()) if len(places) >= FEWEST_IN_GROUP}
    return lambda users: learner.set_attributes([given[user] for user in users.tolist()]), {"groups": common}


def group_tables(rows: Sequence[Row]) -> list[Table]:
    """Compare a method with and without attributes in each group of users, at the last round."""
    tables = []
    plain = {(row.method, row.outcome.seed, row.outcome.session): row for row in rows}
    for row in rows:
        outcome = row.outcome
        other = plain.get((outcome.label.removesuffix(WITH), outcome.seed, outcome.session))
        if "groups" not in outcome.details or other is None:
            continue
        before, after = other.curves["precision"][:, -1], row.curves["precision"][:, -1]
        lines = []
        for name, places in outcome.details["groups"].items():
            more = (after - before)[places]
            means = (f"{before[places].mean():.2f}", f"{more.mean():+.2f}")
            lines.append((name, str(len(places)), *means, f"{float(more.std() / np.sqrt(len(more))):.2f}"))
        title = f"{outcome.label} by group, {outcome.session.rounds} rounds, seed {outcome.seed}"
        header = ("group", "users", "without", "with attributes", "standard error")
        tables.append(Table(title, header, tuple(lines)))
    return tables
