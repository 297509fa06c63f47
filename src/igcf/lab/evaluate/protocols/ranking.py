"""Lists ranked once for users with a logged past: `known-users` and `next`."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple

import numpy as np
import scipy.sparse as sp

from igcf.arrays import BoolArray, FloatArray, IntArray
from igcf.data import Interactions
from igcf.data.registry import known_dataset
from igcf.data.splits import ColdStart, has_all_times
from igcf.errors import ConfigError, DataError
from igcf.lab.baselines import Method, Task
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
    in_stages,
    mean_of_known,
    shown_numbers,
)
from igcf.lab.evaluate.protocols.cold import logged_by_user, places
from igcf.lab.evaluate.protocols.sizes import activity_classes
from igcf.online import Learner, Shown

N_RANKED = 100
"""Number of items ranked for each user; items below count as not found."""
NDCG_AT, RECALL_AT = (10, 100), (20, 50)
FIT_ROUNDS = 40
"""Rounds of the sessions by which a model that validates interactively chooses its settings."""
BLOCK = 256
"""Users who are ranked for at a time."""
LEAST_USERS = 5
VALIDATION_DRAWS = 3
"""Number of times that other successes of the same validation users are hidden, so that settings are not chosen by
the luck of one draw."""
COMPARED = (("ndcg", 100), ("recall", 20))
"""Metrics, with the length of the list, that methods are compared by."""


@dataclass(frozen=True, eq=False, kw_only=True)
class RankingCase(Case):
    """Users with a record, and items that are hidden from it."""

    hidden: sp.csr_array
    """Values of the hidden reactions, shape (users, items)."""

    @property
    def n_satisfied(self) -> IntArray:
        """Number of hidden items of each user."""
        return np.asarray(np.diff(self.hidden.indptr))


@dataclass(frozen=True)
class Ranking(Protocol):
    """Base of protocols that rank once for users with a given past; their hidden items are to be found."""

    sessions: ClassVar[tuple[Session, ...]] = (Session(1, N_RANKED),)
    has_history: ClassVar[bool] = True
    axis: ClassVar[str] = "length k of the list"
    n_users: ClassVar[int] = 600
    """Number of test users, where as many qualify."""
    least_reactions: ClassVar[int] = 5
    """Least number of reactions of a test or validation user."""

    def setup(self, data: Interactions, choices: Choices) -> Setup:
        """Return the experiment on this log."""
        if choices.rounds is not None or choices.slate is not None:
            raise ConfigError("known users are ranked for once; rounds and slate belong to other protocols")
        n_users = choices.n_users or self.n_users
        least = self.least_reactions if choices.min_reactions is None else choices.min_reactions
        return self.experiment(
            data,
            choices,
            sessions=(Session(1, n_ranked(data)),),
            split=choices.split or "auto",
            n_users=n_users,
            n_validation=max(150, n_users // 2),
            min_reactions=least,
            activity=() if known_dataset(data) else activity_classes(data, least),
        )

    def show(self, learner: Learner, case: Case, job: Job, play: Play, session: Session) -> Showing:
        """Rank all items but those that are given."""
        assert isinstance(case, RankingCase) and case.record is not None  # noqa: S101, PT018
        logged, rng = logged_by_user(case.record), self.rng(job, 2)
        rows = np.empty((len(logged), 1, session.slate), dtype=np.int32)
        values = np.empty(rows.shape, dtype=np.float32)
        for start in range(0, len(logged), BLOCK):
            users = range(start, min(start + BLOCK, len(logged)))
            available = np.ones((len(users), case.hidden.shape[1]), dtype=np.bool_)
            for place, user in enumerate(users):
                available[place, logged[user].rows] = False
            learner.begin(len(users), rng=rng)
            learner.know(logged[start : users.stop])  # type: ignore[attr-defined]
            rows[start : users.stop, 0] = learner.select(available, session.slate)
            for user in users:
                truth = np.full(case.hidden.shape[1], np.nan, dtype=np.float32)
                own = slice(*case.hidden.indptr[user : user + 2])
                truth[case.hidden.indices[own]] = case.hidden.data[own]
                values[user, 0] = truth[rows[user, 0]]
        return Shown(rows, values), {}

    def grids(self, method: Method, *, paper: bool = False) -> list[Grid]:
        """Return the grid of a method for users with a history."""
        return super().grids(method, paper=paper) if method.known_grid is None else in_stages(method.known_grid)

    def cutoffs(self, session: Session) -> tuple[int, ...]:
        """Return the lengths at which a list is judged by any metric."""
        return tuple(sorted({min(at, session.slate) for at in (*NDCG_AT, *RECALL_AT)}))

    def target(self, session: Session) -> tuple[str, int]:
        """Return nDCG of the whole list."""
        return "ndcg", session.slate

    def metric_name(self, curve: str, session: Session, t: int) -> str:
        """Return the name of a figure in comparisons."""
        return f"{curve}@{t}"

    def count(self, outcome: Outcome, setup: Setup) -> Row:
        """Count what was found among the hidden items."""
        found = ~np.isnan(outcome.shown.values[:, 0])  # only what was hidden draws a reaction
        curves = metrics.ranking_curves(found, outcome.n_satisfied)
        figures = {
            name: figures_at(curves[name], sorted({min(each, found.shape[1]) for each in at}))
            for name, at in (("recall", RECALL_AT), ("ndcg", NDCG_AT))
        }
        numbers = {"mrr": mean_of_known(metrics.reciprocal_ranks(found)), **shown_numbers(outcome)}
        return Row(outcome, figures, numbers, curves)

    def pairs(self, session: Session, outcomes: Sequence[Outcome], means: Mapping[str, FloatArray]) -> Iterator[Pair]:
        """Compare each of our models with every other method."""
        ours, others = ([label for label in means if label.startswith("igcf") == is_own] for is_own in (True, False))
        for curve, k in COMPARED:
            yield from (Pair(own, other, curve, min(k, session.slate)) for own in ours for other in others)

    def columns(self, session: Session, row: Row) -> list[Column]:
        """Return nDCG and recall at every length, and MRR."""
        words = (("ndcg", "nDCG"), ("recall", "Recall"))
        return [(name, k, f"{word}@{k}") for name, word in words for k in row.figures[name]] + [("mrr", "", "MRR")]

    def unit(self, session: Session) -> str:
        """Return what the score of a method counts."""
        return f"nDCG@{session.slate}"


@dataclass(frozen=True)
class KnownUsers(Ranking):
    """Users outside the training data with most successes given and the rest hidden."""

    name: ClassVar[str] = "known-users"
    methods: ClassVar[tuple[str, ...]] = (
        *("pop", "pop-satisfied", "item-knn", "ease", "slim", "als", "ials", "mult-vae", "graph-filter"),
        *("pca-gp", "igcf-graph", "igcf"),
    )
    share: float = 0.2
    """Share of each user's successes that is hidden."""

    def settings_of(self, method: Method) -> Mapping[str, Any]:
        """Return settings of a method under this protocol; by what is hidden at random here it chooses, too."""
        own = {"hidden_successes": "random"} if "hidden_successes" in method.defaults else {}
        return {**super().settings_of(method), **own}

    def prepare(self, data: Interactions, setup: Setup, seed: int, users: Users) -> RankingCase:
        """Hide part of what satisfied the users who are tested; only that is left to be found."""
        sizes = {name: getattr(setup, name) for name in ("n_validation", "min_reactions")}
        split = random_users(data, n_test=setup.n_users, **sizes, rng=np.random.default_rng(seed))
        is_test = users == "test"
        rng = np.random.default_rng([seed, 1 if is_test else 2])
        log, n_draws = (split.test, 1) if is_test else (split.validation, VALIDATION_DRAWS)
        draws = [hide_share(log, self.share, setup.satisfied, rng=rng) for _ in range(n_draws)]
        given, hidden = draws[0] if is_test else map(stacked, zip(*draws, strict=True))
        task = Task(split.train, setup.satisfied, FIT_ROUNDS, 1, (split.validation,), setup.reward, may_refit=is_test)
        return RankingCase(task, (), hidden.user_ids, given, hidden=hidden.matrix(hidden.values))

    def sentence(self, setup: Setup) -> str:
        """Describe how many items are ranked for whom."""
        users = f"at most {setup.n_users} known users of at least {setup.min_reactions} reactions"
        return f"{setup.sessions[0].slate} items ranked once for {users}"

    def shape(self, session: Session) -> str:
        """Say how much is hidden."""
        return f"{self.share:.0%} of the successes hidden"


@dataclass(frozen=True)
class Next(Ranking):
    """Users with a past and a future: all that happened before a moment is the log, what they like later is hidden.

    Everything before the moment may be learned from, the past of the test users included. Settings are tuned at an
    earlier moment: the same share of the log again.
    """

    name: ClassVar[str] = "next"
    methods: ClassVar[tuple[str, ...]] = (
        *("pop", "pop-recent", "item-knn", "ease", "slim", "als", "ials", "mult-vae", "graph-filter"),
        *("ease-trend", "als-trend", "igcf", "igcf-trend"),
    )
    tuned_under: ClassVar[tuple[str, ...]] = ()
    n_users: ClassVar[int] = 2000
    moment: float = 0.8
    """Share of the reactions that happened before the moment."""

    def __post_init__(self) -> None:
        """Refuse a moment outside the log."""
        if not 0 < self.moment < 1:
            raise ConfigError(f"the moment must be between 0 and 1, got {self.moment}")

    def prepare(self, data: Interactions, setup: Setup, seed: int, users: Users) -> RankingCase:
        """Split the log at the moment; for tuning, split the part before it again."""
        if users == "validation":
            data = data.subset(before(data, self.moment))
        is_past = before(data, self.moment)
        log, later = data.subset(is_past), data.subset(~is_past & (data.values >= setup.satisfied))
        in_log = np.bincount(log.item_idx, minlength=data.n_items) > 0
        later = later.subset(in_log[later.item_idx])
        n_past, n_later = (np.bincount(part.user_idx, minlength=data.n_users) for part in (log, later))
        rng = np.random.default_rng(seed)
        able = rng.permutation(np.flatnonzero((n_past >= setup.min_reactions) & (n_later > 0)))
        if len(able) < LEAST_USERS:
            raise DataError(
                f"{len(able)} users of {data.name} have at least {setup.min_reactions} reactions before the moment and "
                f"a success after it; this protocol needs {LEAST_USERS}; lower --min-reactions or change --moment"
            )
        tested = np.sort(able[: setup.n_users])
        enough = rng.permutation(np.flatnonzero(n_past >= setup.min_reactions))
        hidden = later.only_users(tested)
        return known_case(log, np.flatnonzero(n_past), enough, tested, hidden.matrix(hidden.values), setup)

    def sentence(self, setup: Setup) -> str:
        """Describe the moment and the users."""
        return (
            f"{setup.sessions[0].slate} items ranked once, after {self.moment:.0%} of the reactions, for at most "
            f"{setup.n_users} users with at least {setup.min_reactions} reactions before that moment and a success "
            "after it"
        )

    def shape(self, session: Session) -> str:
        """Describe the moment."""
        return f"after {self.moment:.0%} of the reactions"


def known_case(
    log: Interactions, known: IntArray, drawn: IntArray, tested: IntArray, hidden: sp.csr_array, setup: Setup
) -> RankingCase:
    """Return the case of users who are in the log themselves; the first of `drawn`, at most a fifth, validate."""
    validation = np.sort(drawn[: min(setup.n_validation, len(drawn) // 5)])
    train, held_out = log.only_users(np.setdiff1d(known, validation)), log.only_users(validation)
    task = Task(train, setup.satisfied, FIT_ROUNDS, 1, (held_out,), setup.reward)
    record = log.only_users(tested)
    return RankingCase(task, (), record.user_ids, record, hidden=hidden)


def before(data: Interactions, share: float) -> BoolArray:
    """Tell which reactions happened before the moment at which this share of them had; equal times fall together."""
    if data.timestamps is None or not has_all_times(data):
        raise DataError(f"{data.name} has reactions without a time; this protocol needs all of them")
    moment = np.sort(data.timestamps)[int(share * len(data))]
    return np.asarray(data.timestamps < moment)


def n_ranked(data: Interactions) -> int:
    """Return how many items are ranked: 100, or what is left to the most active user of a small catalogue."""
    left = data.n_items - int(np.bincount(data.user_idx, minlength=1).max())
    if left < min(NDCG_AT):
        raise DataError(
            f"a user of {data.name} reacted to all but {left} of {data.n_items} items; ranking needs {min(NDCG_AT)}"
        )
    return min(N_RANKED, left)


class Hidden(NamedTuple):
    """Users with two parts of what they did; both have the same users in the same rows."""

    given: Interactions
    hidden: Interactions


def random_users(
    data: Interactions, *, n_test: int, n_validation: int, min_reactions: int, rng: np.random.Generator
) -> ColdStart:
    """Draw test and validation users among those with enough reactions, at most a fifth each; train on all others."""
    activity = np.bincount(data.user_idx, minlength=data.n_users)
    order = rng.permutation(np.flatnonzero(activity >= min_reactions))
    if len(order) < LEAST_USERS:
        raise DataError(
            f"{data.name} has {len(order)} users with at least {min_reactions} reactions; this protocol needs "
            f"{LEAST_USERS}; lower --min-reactions"
        )
    n_test, n_validation = (min(n, len(order) // 5) for n in (n_test, n_validation))
    test, validation = np.sort(order[:n_test]), np.sort(order[n_test : n_test + n_validation])
    train = np.setdiff1d(np.flatnonzero(activity), np.r_[test, validation])
    return ColdStart(data.only_users(train), data.only_users(validation), data.only_users(test))


def hide_share(log: Interactions, share: float, satisfied: float, *, rng: np.random.Generator) -> Hidden:
    """Hide a share of each user's successes, at least one; the other reactions of any kind are given.

    Users with fewer than two successes are left out: with one, nothing that satisfied them would be given.
    """
    if not 0 < share < 1:
        raise ConfigError(f"the share of hidden successes must be between 0 and 1, got {share}")
    happy = np.flatnonzero(log.values >= satisfied)
    liked = log.subset(happy)
    counts = np.bincount(liked.user_idx, minlength=log.n_users)
    n_hidden = np.minimum(np.maximum(1, np.rint(share * counts)).astype(np.int64), counts - 1)
    place = places(liked, np.lexsort((rng.random(len(happy)), liked.user_idx)))  # random among those of the user
    is_hidden = np.zeros(len(log), dtype=np.bool_)
    is_hidden[happy[place < n_hidden[liked.user_idx]]] = True
    users = np.flatnonzero(counts >= 2)
    if not len(users):
        raise DataError(f"no user of {log.name} has two reactions of at least {satisfied:g}; lower --satisfied")
    return Hidden(log.subset(~is_hidden).only_users(users), log.subset(is_hidden).only_users(users))


def stacked(logs: Sequence[Interactions]) -> Interactions:
    """Return several draws of the same users as one log, each user once per draw."""
    starts = np.cumsum([0, *(log.n_users for log in logs[:-1])])
    times = [log.timestamps for log in logs if log.timestamps is not None]
    rows = [log.user_idx + start for log, start in zip(logs, starts, strict=True)]
    return replace(
        logs[0],
        user_ids=tuple(f"{user_id}/{draw}" for draw, log in enumerate(logs) for user_id in log.user_ids),
        user_idx=np.concatenate(rows).astype(np.int32),
        item_idx=np.concatenate([log.item_idx for log in logs]),
        values=np.concatenate([log.values for log in logs]),
        timestamps=np.concatenate(times) if times else None,
    )
