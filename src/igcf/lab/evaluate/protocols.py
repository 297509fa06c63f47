"""Experiments of the paper: who is tested, what is fed back, for how long, what is reported (docs/protocols.md)."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np

from igcf.arrays import Float32Array, FloatArray, IntArray
from igcf.data import Interactions, cold_start, success_in, taste_drift
from igcf.data.registry import known_dataset
from igcf.data.splits import ColdStart
from igcf.errors import ConfigError
from igcf.lab.baselines import Task
from igcf.lab.evaluate import known_users
from igcf.lab.evaluate.returning import LOGGED, Part
from igcf.lab.evaluate.sizes import fitting_size

Protocol = Literal["cold-start", "taste-drift", "top-k", "ablation", "known-users", "returning"]
PROTOCOLS: tuple[Protocol, ...] = ("cold-start", "taste-drift", "top-k", "ablation", "known-users", "returning")
CUTOFFS = (10, 20, 40, 60, 120)
MIN_REACTIONS = 120
N_USERS = 200


@dataclass(frozen=True)
class Session:
    """Number of rounds with a user, and of items that are shown in each."""

    rounds: int
    slate: int


SESSIONS: dict[Protocol, tuple[Session, ...]] = {
    "cold-start": (Session(120, 1),),
    "taste-drift": (Session(120, 1),),
    "top-k": (Session(40, 3), Session(20, 5)),
    "ablation": (Session(60, 1), Session(20, 3)),
    "known-users": (Session(1, known_users.N_RANKED),),
    "returning": (Session(40, 1),),
}


@dataclass(frozen=True, kw_only=True)
class Setup:
    """Experiment on one log, up to the seed: plain values only, so that it can be hashed and written down."""

    dataset: str
    protocol: Protocol
    sessions: tuple[Session, ...]
    satisfied: float
    split: Literal["time", "users", "auto"] = "auto"
    by_activity: bool = True
    n_users: int = N_USERS
    n_validation: int = 200
    min_reactions: int = MIN_REACTIONS
    reward: Literal["raw", "satisfied"] = "raw"
    share: float = 0.2
    """Share of the successes that is hidden, where users are known."""
    logged: tuple[int, ...] = LOGGED
    """Numbers of reactions that are logged before the first round, where users return."""
    part: Part = "random"
    """Which reactions of a returning user are logged."""

    def as_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return asdict(self)

    @property
    def sentence(self) -> str:
        """One line for people: how long, with whom, and how they were chosen."""
        if self.protocol == "known-users":
            users = f"at most {self.n_users} known users of at least {self.min_reactions} reactions"
            return f"experiment: {self.sessions[0].slate} items ranked once for {users}"
        lengths = " and ".join(
            f"{each.rounds} rounds" + (f" of {each.slate} items" if each.slate > 1 else "") for each in self.sessions
        )
        split = {"time": "split in time", "users": "split by users", "auto": "split in time where there are times"}
        return (
            f"experiment: {lengths} with at most {self.n_users} test users of at least {self.min_reactions} reactions; "
            f"{split[self.split]}"
        )


@dataclass(frozen=True, eq=False)
class Case:
    """Experiment with its users: the data to learn from, and the true reactions of the users who are met."""

    task: Task
    truth: tuple[Float32Array, ...]
    """Values of shape (users, items), one table per period; NaN where there is no reaction."""
    user_ids: tuple[str, ...]
    record: Interactions | None = None
    """Reactions from before the first round: all that is given of a known user, all that a returning one ever had."""

    @property
    def n_satisfied(self) -> IntArray:
        """Number of items that satisfy each user, over all periods."""
        return np.asarray(np.sum([(table >= self.task.satisfied).sum(axis=1) for table in self.truth], axis=0))

    @property
    def item_shares(self) -> FloatArray:
        """Share of the training users who reacted to each item."""
        counts = np.bincount(self.task.train.item_idx, minlength=self.task.train.n_items)
        return counts / max(self.task.train.n_users, 1)


def cold_users(data: Interactions, setup: Setup, seed: int) -> ColdStart:
    """Split the log into training users and the validation and test users of an experiment."""
    return cold_start(
        data,
        split=setup.split,
        n_test=setup.n_users,
        n_validation=setup.n_validation,
        min_reactions=setup.min_reactions,
        by_activity=setup.by_activity,
        rng=np.random.default_rng(seed),
    )


def setup_for(  # noqa: PLR0913  (each may change one choice of the protocol)
    data: Interactions,
    protocol: Protocol,
    *,
    rounds: int | None = None,
    slate: int | None = None,
    satisfied: float | None = None,
    split: Literal["time", "users", "auto"] | None = None,
    n_users: int | None = None,
    min_reactions: int | None = None,
) -> Setup:
    """Return the experiment as the paper runs it on this data set, with changes.

    In a log that igcf does not know by name, the rounds, the least number of reactions of a test user, the number of
    test users and the split are what the log allows (`fitting_size`) where they are not given; what counts as a success
    is chosen from the values (`igcf.data.what_is_a_success`).
    """
    if protocol not in PROTOCOLS:
        raise ConfigError(f"unknown protocol {protocol!r}; known are {', '.join(PROTOCOLS)}")
    sessions = _sessions(protocol, rounds, slate)
    info = known_dataset(data)
    default_split: Literal["time", "users", "auto"] = "auto"
    if protocol == "known-users":
        if rounds is not None or slate is not None:
            raise ConfigError("known users are ranked for once; rounds and slate belong to other protocols")
        sessions = (Session(1, known_users.n_ranked(data)),)
        default_users, least = known_users.N_USERS, known_users.MIN_REACTIONS
    elif info is None:
        size = fitting_size(data, split or "auto", max(session.rounds * session.slate for session in sessions))
        if rounds is None:
            sessions = tuple(
                Session(max(1, min(each.rounds, size.n_shown // each.slate)), each.slate) for each in sessions
            )
        default_split, default_users, least = size.split, size.n_users, min(size.n_shown, sessions[0].rounds)
    else:
        default_split, default_users, least = info.default_split, N_USERS, MIN_REACTIONS
    shown = max(session.rounds * session.slate for session in sessions)
    if shown > data.n_items:
        raise ConfigError(
            f"{shown} items would be shown to each user, {data.name} has {data.n_items}; lower rounds= or slate="
        )
    return Setup(
        dataset=data.name,
        protocol=protocol,
        sessions=sessions,
        satisfied=success_in(data).threshold if satisfied is None else satisfied,
        split=split or default_split,
        by_activity=info.by_activity if info else True,
        n_users=n_users or default_users,
        n_validation=max(150, (n_users or default_users) // 2) if protocol == "known-users" else 200,
        min_reactions=least if min_reactions is None else min_reactions,
        reward="satisfied" if data.name == "kuairec" else "raw",  # watch ratios are no ratings
    )


def _sessions(protocol: Protocol, rounds: int | None, slate: int | None) -> tuple[Session, ...]:
    for name, value in (("rounds", rounds), ("slate", slate)):
        if value is not None and value < 1:
            raise ConfigError(f"{name} must be at least 1, got {value}")
    sessions = SESSIONS[protocol]
    if slate is not None:
        sessions = tuple(session for session in sessions if session.slate == slate) or (
            Session(sessions[0].rounds, slate),
        )
    if rounds is not None:
        sessions = tuple(Session(rounds, session.slate) for session in sessions)
    return sessions


def thinned(data: Interactions, share: float, *, rng: np.random.Generator) -> Interactions:
    """Return a log with a random share of its rows, at least one; users who have none left are gone."""
    if not 0 < share <= 1:
        raise ConfigError(f"the share of rows to keep must lie in (0, 1], got {share}")
    rows = rng.choice(len(data), max(1, round(share * len(data))), replace=False)
    part = data.subset(np.sort(rows))
    return part.only_users(np.unique(part.user_idx))


def prepare(data: Interactions, setup: Setup, seed: int, users: Literal["test", "validation"] = "test") -> Case:
    """Split the log; `users` says whether the test users are met or, for tuning, the validation users."""
    if setup.protocol == "known-users":
        return _prepare_known_users(data, setup, seed, users)
    if setup.protocol == "taste-drift":
        drift = taste_drift(
            data, n_test=setup.n_users, n_validation=setup.n_validation, min_reactions=setup.min_reactions
        )
        train = drift.train
        validation: tuple[Interactions, ...] = (drift.validation_before, drift.validation_after)
        test: tuple[Interactions, ...] = (drift.test_before, drift.test_after)
    else:
        cold = cold_users(data, setup, seed)
        train, validation, test = cold.train, (cold.validation,), (cold.test,)
    met = test if users == "test" else validation
    first = setup.sessions[0]
    task = Task(train, setup.satisfied, first.rounds, first.slate, validation, setup.reward, may_refit=users == "test")
    record = met[0] if setup.protocol == "returning" else None
    return Case(task, tuple(log.dense() for log in met), met[0].user_ids, record)


def _prepare_known_users(data: Interactions, setup: Setup, seed: int, users: Literal["test", "validation"]) -> Case:
    """Hide part of what satisfied the users who are met; only that is left to be found."""
    split = known_users.random_users(
        data,
        n_test=setup.n_users,
        n_validation=setup.n_validation,
        min_reactions=setup.min_reactions,
        rng=np.random.default_rng(seed),
    )
    if users == "test":
        rng = np.random.default_rng([seed, 1])
        met = known_users.hide_share(split.test, setup.share, setup.satisfied, rng=rng)
    else:
        rng = np.random.default_rng([seed, 2])
        met = known_users.stacked(
            [
                known_users.hide_share(split.validation, setup.share, setup.satisfied, rng=rng)
                for _ in range(known_users.VALIDATION_DRAWS)
            ]
        )
    task = Task(
        split.train,
        setup.satisfied,
        known_users.FIT_ROUNDS,
        1,
        (split.validation,),
        setup.reward,
        may_refit=users == "test",
    )
    return Case(task, (met.hidden.dense(),), met.hidden.user_ids, met.given)


def cutoffs(setup: Setup, session: Session) -> tuple[int, ...]:
    """Return the rounds T at which figures are reported: the paper's, and the last one."""
    if setup.protocol == "known-users":  # lengths of the list
        return known_users.cutoffs(session.slate)
    if setup.protocol == "taste-drift":  # 60, 80, 100, 120 of 120
        return tuple(sorted({max(1, session.rounds * part // 6) for part in (3, 4, 5, 6)}))
    return tuple(sorted({*(t for t in CUTOFFS if t < session.rounds and t != 60), session.rounds}))


def primary_metric(session: Session) -> str:
    """Return the metric that methods are compared and tuned by."""
    return "precision" if session.slate == 1 else "ndcg"


def primary_cutoff(setup: Setup, session: Session) -> int:
    """Return the T at which methods are tuned: the last."""
    return cutoffs(setup, session)[-1]


def check_methods(names: Sequence[str]) -> None:
    """Refuse an empty or repeated choice of methods."""
    if not names or len(set(names)) < len(names):
        raise ConfigError(f"name each method once, got {', '.join(names) or 'none'}")
