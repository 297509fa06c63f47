"""Lists ranked once for users with a logged past: `known-users`."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple

import numpy as np

from igcf.arrays import BoolArray, FloatArray, IntArray
from igcf.data import ColdStart, Interactions, success_in
from igcf.data.registry import known_dataset
from igcf.errors import ConfigError, DataError
from igcf.lab.baselines import Method, Task
from igcf.lab.evaluate.protocols.base import (
    Case,
    Choices,
    Column,
    Counted,
    Grid,
    Job,
    Outcome,
    Pair,
    Play,
    Protocol,
    Session,
    Setup,
    Users,
    figures_at,
    in_stages,
    mean_of_known,
    shown_numbers,
)
from igcf.lab.evaluate.protocols.cold import reward_of
from igcf.lab.evaluate.protocols.replay_logged import logged_by_user, replay_logged
from igcf.lab.evaluate.protocols.sizes import activity_classes
from igcf.online import Learner, Shown

N_RANKED = 100
"""Number of items that are ranked for each user; what lies below counts as not found."""
NDCG_AT = (10, 100)
RECALL_AT = (20, 50)
FIT_ROUNDS = 40
"""Rounds of the sessions by which a model that validates interactively chooses its settings."""
LEAST_USERS = 5
VALIDATION_DRAWS = 3
"""Number of times that other successes of the same validation users are hidden, so that settings are not chosen by
the luck of one draw."""
COMPARED = (("ndcg", 100), ("recall", 20))
"""Metrics, with the length of the list, that methods are compared by."""


@dataclass(frozen=True)
class Ranking(Protocol):
    """Base of protocols that rank once for users whose past is given; what is hidden of them is to be found."""

    sessions: ClassVar[tuple[Session, ...]] = (Session(1, N_RANKED),)
    methods: ClassVar[tuple[str, ...]] = (
        "pop",
        "pop-satisfied",
        "item-knn",
        "ease",
        "als",
        "graph-filter",
        "pca-gp",
        "igcf-graph",
        "igcf",
    )
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
        return Setup(
            dataset=data.name,
            protocol=self,
            sessions=(Session(1, n_ranked(data)),),
            satisfied=success_in(data).threshold if choices.satisfied is None else choices.satisfied,
            split=choices.split or "auto",
            n_users=n_users,
            n_validation=max(150, n_users // 2),
            min_reactions=least,
            reward=reward_of(data),
            activity=() if known_dataset(data) else activity_classes(data, least),
        )

    def show(
        self, learner: Learner, case: Case, job: Job, play: Play, session: Session
    ) -> tuple[Shown, dict[str, Any]]:
        """Rank all items but those that are given."""
        assert case.record is not None  # noqa: S101
        (truth,) = case.truth
        given = logged_by_user(case.record)
        return replay_logged(learner, truth, given, session, is_told=True, rng=self.rng(job, 2)), {}  # type: ignore[arg-type]

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

    def count(self, outcome: Outcome, setup: Setup) -> Counted:
        """Count what was found among the hidden items."""
        found = ~np.isnan(outcome.shown.values[:, 0])  # only what was hidden draws a reaction
        curves = ranking_curves(found, outcome.n_satisfied)
        n = found.shape[1]
        figures = {
            "recall": figures_at(curves["recall"], sorted({min(each, n) for each in RECALL_AT})),
            "ndcg": figures_at(curves["ndcg"], sorted({min(each, n) for each in NDCG_AT})),
        }
        numbers = {"mrr": mean_of_known(reciprocal_ranks(found)), **shown_numbers(outcome)}
        return Counted(figures, numbers, curves)

    def pairs(self, session: Session, outcomes: Sequence[Outcome], means: Mapping[str, FloatArray]) -> Iterator[Pair]:
        """Compare each of our models with every other method."""
        for curve, k in COMPARED:
            for ours in means:
                if ours.startswith("igcf"):
                    others = (label for label in means if not label.startswith("igcf"))
                    yield from (Pair(ours, other, curve, min(k, session.slate)) for other in others)

    def columns(self, session: Session, counted: Counted) -> list[Column]:
        """Return nDCG and recall at every length, and MRR."""
        columns = [("ndcg", k, f"nDCG@{k}") for k in counted.figures["ndcg"]]
        columns += [("recall", k, f"Recall@{k}") for k in counted.figures["recall"]]
        return [*columns, ("mrr", "", "MRR")]

    def unit(self, session: Session) -> str:
        """Return what the score of a method counts."""
        return f"ndcg@{session.slate}"


@dataclass(frozen=True)
class KnownUsers(Ranking):
    """Users outside the training data most of whose successes are given; the rest is hidden."""

    name: ClassVar[str] = "known-users"
    share: float = 0.2
    """Share of each user's successes that is hidden."""

    def prepare(self, data: Interactions, setup: Setup, seed: int, users: Users) -> Case:
        """Hide part of what satisfied the users who are tested; only that is left to be found."""
        split = random_users(
            data,
            n_test=setup.n_users,
            n_validation=setup.n_validation,
            min_reactions=setup.min_reactions,
            rng=np.random.default_rng(seed),
        )
        if users == "test":
            rng = np.random.default_rng([seed, 1])
            met = hide_share(split.test, self.share, setup.satisfied, rng=rng)
        else:
            rng = np.random.default_rng([seed, 2])
            draws = [
                hide_share(split.validation, self.share, setup.satisfied, rng=rng) for _ in range(VALIDATION_DRAWS)
            ]
            met = stacked(draws)
        refits = users == "test"
        task = Task(split.train, setup.satisfied, FIT_ROUNDS, 1, (split.validation,), setup.reward, may_refit=refits)
        return Case(task, (met.hidden.dense(),), met.hidden.user_ids, met.given)

    def sentence(self, setup: Setup) -> str:
        """Describe how many items are ranked for whom."""
        users = f"at most {setup.n_users} known users of at least {setup.min_reactions} reactions"
        return f"{setup.sessions[0].slate} items ranked once for {users}"

    def shape(self, session: Session) -> str:
        """Say how much is hidden."""
        return f"{self.share:.0%} of the successes hidden"


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
        raise ConfigError(f"the share of hidden successes must lie between 0 and 1, got {share}")
    happy = np.flatnonzero(log.values >= satisfied)
    happy = happy[np.lexsort((rng.random(len(happy)), log.user_idx[happy]))]  # by user, in random order within each
    counts = np.bincount(log.user_idx[happy], minlength=log.n_users)
    place = np.arange(len(happy)) - (np.cumsum(counts) - counts)[log.user_idx[happy]]
    n_hidden = np.maximum(1, np.rint(share * counts)).astype(np.int64)
    n_hidden = np.minimum(n_hidden, counts - 1)
    is_hidden = np.zeros(len(log), dtype=np.bool_)
    is_hidden[happy[place < n_hidden[log.user_idx[happy]]]] = True
    users = np.flatnonzero(counts >= 2)
    if not len(users):
        raise DataError(f"no user of {log.name} has two reactions of at least {satisfied:g}; lower --satisfied")
    return Hidden(log.subset(~is_hidden).only_users(users), log.subset(is_hidden).only_users(users))


def stacked(parts: list[Hidden]) -> Hidden:
    """Return several draws as one, each user once per draw."""
    return Hidden(_stacked([each.given for each in parts]), _stacked([each.hidden for each in parts]))


def _stacked(logs: list[Interactions]) -> Interactions:
    starts = np.cumsum([0, *(log.n_users for log in logs[:-1])])
    times = [log.timestamps for log in logs if log.timestamps is not None]
    return replace(
        logs[0],
        user_ids=tuple(f"{user_id}/{draw}" for draw, log in enumerate(logs) for user_id in log.user_ids),
        user_idx=np.concatenate([log.user_idx + start for log, start in zip(logs, starts, strict=True)]).astype(
            np.int32
        ),
        item_idx=np.concatenate([log.item_idx for log in logs]),
        values=np.concatenate([log.values for log in logs]),
        timestamps=np.concatenate(times) if times else None,
    )


def ranking_curves(found: BoolArray, n_hidden: IntArray) -> dict[str, FloatArray]:
    """Return nDCG@k and Recall@k of each user for every k, from whether the item at each rank was hidden.

    Args:
        found: (users, ranks).
        n_hidden: number of hidden items of each user; at least 1.

    Returns:
        `ndcg`: binary gains over those of the best possible list of k items; `recall`: found among the first k over
        min(k, hidden), so that 1 can be reached at every k. Both (users, ranks).
    """
    ranks = np.arange(1, found.shape[1] + 1)
    discount = 1.0 / np.log2(1.0 + ranks)
    reachable = np.minimum(ranks, n_hidden[:, None])
    ideal = np.cumsum(discount)[reachable - 1]
    return {
        "ndcg": np.cumsum(found * discount, axis=1) / ideal,
        "recall": np.cumsum(found, axis=1) / reachable,
    }


def reciprocal_ranks(found: BoolArray) -> FloatArray:
    """Return 1 / rank of each user's first hidden item, 0 where the list holds none."""
    return np.where(found.any(axis=1), 1.0 / (1.0 + found.argmax(axis=1)), 0.0)
