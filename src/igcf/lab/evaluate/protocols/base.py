"""What a protocol is: who is tested, what is fed back, for how long, what is counted and how it is described."""

import math
import time
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np

from igcf.arrays import Float32Array, FloatArray, IntArray
from igcf.data import Interactions, success_in
from igcf.errors import ConfigError
from igcf.lab.baselines import METHODS, Method, Task, method_named
from igcf.lab.evaluate import metrics
from igcf.lab.evaluate.protocols.fits import Fits
from igcf.lab.evaluate.protocols.sizes import ActivityClass
from igcf.online import Environment, Learner, Shown
from igcf.tables import Table

CUTOFFS = (10, 20, 40, 60, 120)
ALWAYS = ("precision", "share", "recall", "ndcg", "after_drift")
"""Figures that every row of the JSON document has, empty where the protocol does not count them."""
MOST_POINTS = 64
"""Largest number of points of a grid that is searched as a whole."""
Users = Literal["test", "validation"]
Grid = Mapping[str, tuple[Any, ...]]
Figures = dict[str, float]
"""One number per T, which is the key as text."""
Column = tuple[str, str, str]
"""Name of a figure, its T (empty for a single number), and the heading of its column."""


@dataclass(frozen=True)
class Session:
    """Number of rounds with a user, and of items that are shown in each.

    Example:
        >>> import igcf
        >>> session = igcf.lab.evaluate.Session(rounds=24, slate=5)
        >>> session.rounds * session.slate
        120
    """

    rounds: int
    slate: int

    def __str__(self) -> str:
        """Describe the session in words."""
        items = f" of {self.slate} items" if self.slate > 1 else ""
        return f"{self.rounds} round{'s' if self.rounds > 1 else ''}{items}"


@dataclass(frozen=True)
class Play:
    """One way to use a fitted method, with the label of its row in the tables."""

    label: str
    settings: Mapping[str, Any]
    notes: Mapping[str, Any] = field(default_factory=dict)
    """What the protocol needs to know about this row; it is written into the JSON document."""


@dataclass(frozen=True, kw_only=True)
class Setup:
    """Experiment on one log, up to the seed: plain values only, so that it can be hashed and written down.

    Example:
        >>> import igcf
        >>> log = igcf.data.synthetic_catalogue(n_users=150, n_items=40)
        >>> setup = igcf.lab.evaluate.setup_for(log, "cold-start", rounds=5, n_users=20, min_reactions=10)
        >>> setup.sessions, setup.n_users
        ((Session(rounds=5, slate=1),), 20)
    """

    dataset: str
    protocol: "Protocol"
    sessions: tuple[Session, ...]
    satisfied: float
    split: Literal["time", "users", "auto"] = "auto"
    by_activity: bool = True
    n_users: int = 200
    n_validation: int = 200
    min_reactions: int = 120
    reward: Literal["raw", "satisfied"] = "raw"
    activity: tuple[ActivityClass, ...] = ()
    """Classes of users by which the results are shown: for a log of one's own with ordinary test users."""

    def as_dict(self) -> dict[str, Any]:
        """Return plain values for JSON; the options of the protocol stand beside the others."""
        return {**asdict(self), "protocol": self.protocol.name, **asdict(self.protocol)}

    @property
    def sentence(self) -> str:
        """One line for people: how long, with whom, and how they were chosen."""
        return f"experiment: {self.protocol.sentence(self)}"


@dataclass(frozen=True, eq=False)
class Case:
    """Experiment with its users: the data to learn from, and the true reactions of the users who are tested."""

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


@dataclass(frozen=True)
class Job:
    """One fit of a method and the plays that use it, which differ in online settings only."""

    method: str
    setup: Setup
    seed: int
    plays: tuple[Play, ...]
    users: Users = "test"


@dataclass(frozen=True, eq=False)
class Outcome:
    """Items that one play showed to all users in one session, and what the metrics need beside them."""

    label: str
    method: str
    seed: int
    settings: Mapping[str, Any]
    notes: Mapping[str, Any]
    session: Session
    user_ids: tuple[str, ...]
    shown: Shown
    n_satisfied: IntArray
    n_reactions: IntArray
    """Number of reactions of each user in the whole log."""
    item_shares: FloatArray
    details: Mapping[str, Any]
    """Further plain values that the protocol reports."""
    seconds: dict[str, float]


Showing = tuple[Shown, dict[str, Any]]
"""What one play in one session showed, and further values that the protocol reports."""


class Played(NamedTuple):
    """What one play in one session showed, further values that the protocol reports, and the seconds it took."""

    shown: Shown
    details: dict[str, Any]
    seconds: dict[str, float]


@dataclass(frozen=True, eq=False)
class Row:
    """Figures of one method, seed and session, counted from `outcome`.

    Example:
        >>> import igcf
        >>> log = igcf.data.synthetic_catalogue(n_users=150, n_items=40)
        >>> setup = igcf.lab.evaluate.setup_for(log, "cold-start", rounds=5, n_users=20, min_reactions=10)
        >>> row = igcf.lab.evaluate.evaluate(log, setup, ["pop"]).rows[0]
        >>> list(row.figures["precision"])
        ['5']
    """

    outcome: Outcome
    figures: dict[str, Figures]
    """By name, for instance `precision`; each holds one number per T."""
    numbers: Figures
    """Single numbers by name, for instance `coverage`."""
    curves: dict[str, FloatArray]
    """The same figures of each user, shape (users, T)."""

    @property
    def method(self) -> str:
        """Label of the row in the tables."""
        return self.outcome.label

    def as_dict(self) -> dict[str, Any]:
        """Return the row of the JSON document."""
        each = self.outcome
        always: dict[str, Figures] = {name: {} for name in ALWAYS}
        shape = {"slate": each.session.slate, "rounds": each.session.rounds, "users": len(each.user_ids)}
        found = {**always, **self.figures, **self.numbers, **each.notes, **each.details}
        config = {"config": dict(each.settings), "seconds": each.seconds}
        return {"method": self.method, "seed": each.seed, **shape, **found, **config}


class Pair(NamedTuple):
    """Row and reference that are compared, the curve and the T."""

    label: str
    reference: str
    curve: str
    t: int


@dataclass(frozen=True)
class Protocol:
    """Base of all protocols: sessions of some rounds with users with known reactions.

    A protocol is a frozen dataclass; its fields are the options. Whatever differs between protocols is a method or
    a class variable here; nothing else asks which protocol it is.
    """

    name: ClassVar[str] = ""
    sessions: ClassVar[tuple[Session, ...]] = (Session(120, 1),)
    methods: ClassVar[tuple[str, ...]] = ("random", "pop", "pop-satisfied", "mf", "icf-ucb", "icf-ts", "pca-gp", "igcf")
    """Methods that run unless others are named."""
    has_history: ClassVar[bool] = False
    """Whether methods must be able to start from a logged history."""
    tuned_under: ClassVar[tuple[str, ...]] = ("cold-start",)
    """Protocols with settings that hold here too, except for those found under this one."""
    axis: ClassVar[str] = "round"
    """What the curves of the report run over."""

    def setup(self, data: Interactions, choices: "Choices") -> Setup:
        """Return the experiment on a log."""
        raise NotImplementedError

    def experiment(self, data: Interactions, choices: "Choices", **sizes: Any) -> Setup:
        """Return the experiment of these sizes, with what all protocols take from the log."""
        return Setup(
            dataset=data.name,
            protocol=self,
            satisfied=success_in(data).threshold if choices.satisfied is None else choices.satisfied,
            # the reward that the paper gives to a learner: watch ratios are not ratings
            reward="satisfied" if data.name == "kuairec" else "raw",
            **sizes,
        )

    def prepare(self, data: Interactions, setup: Setup, seed: int, users: Users) -> Case:
        """Split the log; `users` says whether the test users are played or, for tuning, the validation users."""
        raise NotImplementedError

    def given(self, case: Case) -> Task:
        """Return what an agent may learn from."""
        return case.task

    def environment(self, case: Case, session: Session) -> Environment:
        """Return the test users, ready to play."""
        return Environment(case.truth, rounds=session.rounds, slate=session.slate)

    def training_truth(self, case: Case, session: Session) -> tuple[Float32Array, ...]:
        """Return the reactions of the users with whom an agent may train, in the form of `Case.truth`."""
        return (case.task.train.dense(),)

    def sentence(self, setup: Setup) -> str:
        """Describe how long, with whom, and how they were chosen."""
        lengths = " and ".join(map(str, setup.sessions))
        split = {"time": "split in time", "users": "split by users", "auto": "split in time where there are times"}
        rule = "the paper's rule, the most active first" if setup.by_activity else "drawn at random"
        if setup.activity:
            rule = f"drawn from all who have so many, {sum(each.share for each in setup.activity):.0%} of the users"
        return (
            f"{lengths} with at most {setup.n_users} test users of at least {setup.min_reactions} reactions ({rule}); "
            f"{split[setup.split]}"
        )

    # running

    def settings_of(self, method: Method) -> Mapping[str, Any]:
        """Return settings of a method that differ from its defaults under this protocol."""
        return method.logged_settings if self.has_history else {}

    def refusal(self, method: Method) -> str | None:
        """Say why this protocol cannot run a method; None where it can."""
        if self.has_history and not method.uses_logged:
            able = ", ".join(each.name for each in METHODS.values() if each.uses_logged)
            return f"{method.name} cannot start from a logged history; methods that can: {able}"
        return None

    def accepts(self, method: Method) -> bool:
        """Tell whether `--methods all` includes a method."""
        return self.refusal(method) is None and (self.has_history or not method.needs_logged)

    def plays(self, method: Method, settings: Mapping[str, Any], dataset: str) -> list[Play]:
        """Return the rows of one method."""
        return [Play(method.name, settings)]

    def rng(self, job: Job, purpose: int) -> np.random.Generator:
        """Return random numbers that depend on seed and method only, so that plays may be grouped in any way."""
        return np.random.default_rng([job.seed, purpose, zlib.crc32(job.method.encode())])

    def run(self, case: Case, job: Job, fits: Fits) -> Iterator[Played]:
        """Fit the method, or take the fit from `fits`, and yield what each play shows in each session, plays first."""
        method = method_named(job.method)
        task = case.task.refitted() if method.is_refitted else case.task
        fitted, fit_seconds = fits.of(method, task, job.plays[0].settings, self.rng(job, 1))
        for play in job.plays:
            for session in job.setup.sessions:
                started = time.perf_counter()
                shown, details = self.show(method.play(fitted, play.settings), case, job, play, session)
                online = time.perf_counter() - started
                yield Played(shown, details, {"pretrain": round(fit_seconds, 3), "online": round(online, 3)})

    def show(self, learner: Learner, case: Case, job: Job, play: Play, session: Session) -> Showing:
        """Play one session with all users."""
        raise NotImplementedError

    def grids(self, method: Method, *, paper: bool = False) -> list[Grid]:
        """Return the grids to search in turn, each around the best point of the previous one."""
        return [method.paper_grid] if paper and method.paper_grid else in_stages(method.grid)

    # counting

    def cutoffs(self, session: Session) -> tuple[int, ...]:
        """Return the rounds T at which figures are reported: the paper's, and the last one."""
        return tuple(sorted({*(t for t in CUTOFFS if t < session.rounds and t != 60), session.rounds}))

    def target(self, session: Session) -> tuple[str, int]:
        """Return the curve and the T that methods are tuned and ranked by."""
        return "precision" if session.slate == 1 else "ndcg", self.cutoffs(session)[-1]

    def metric_name(self, curve: str, session: Session, t: int) -> str:
        """Return the name of a figure in comparisons and in the paper's tables."""
        return f"{curve}_{session.slate}@{t}" if curve == "ndcg" else f"{curve}@{t}"

    def count(self, outcome: Outcome, setup: Setup) -> Row:
        """Count the figures of one outcome."""
        satisfied = outcome.shown.values >= setup.satisfied
        session = outcome.session
        curves = {
            "precision": metrics.cumulative_precision(satisfied),
            "recall": metrics.cumulative_recall(satisfied, outcome.n_satisfied),
        }
        if session.slate > 1:
            curves["ndcg"] = metrics.cumulative_ndcg(satisfied)
        at = self.cutoffs(session)
        figures = {name: figures_at(curve, at) for name, curve in curves.items()}
        figures["share"] = {t: value / (int(t) * session.slate) for t, value in figures["precision"].items()}
        return Row(outcome, figures, shown_numbers(outcome), curves)

    def pairs(self, session: Session, outcomes: Sequence[Outcome], means: Mapping[str, FloatArray]) -> Iterator[Pair]:
        """Yield what is compared in a session: our models with the best baseline at every T, all others at the last.

        `means` are, by label, the means over users of the curve that methods are ranked by, for every T.
        """
        curve, _ = self.target(session)
        baselines = [label for label in means if label in METHODS and not label.startswith("igcf")]
        for t in self.cutoffs(session) if baselines else ():
            best = max(baselines, key=lambda label: float(means[label][t - 1]))
            for label in means:
                if label != best and (label.startswith("igcf") or t == session.rounds):
                    yield Pair(label, best, curve, t)

    # describing

    def columns(self, session: Session, row: Row) -> list[Column]:
        """Return the columns of a session's table."""
        at = [str(t) for t in self.cutoffs(session)]
        main, _ = self.target(session)
        short = "P" if main == "precision" else f"nDCG{session.slate}"
        columns = [(main, t, f"{short}@{t}") for t in at]
        if main == "ndcg":
            columns.append(("precision", at[-1], f"P@{at[-1]}"))
        columns += [("recall", t, f"R@{t}") for t in (at if main == "precision" else at[-1:])]
        return [*columns, ("share", at[-1], f"share@{at[-1]}")]

    def shape(self, session: Session) -> str:
        """Describe a session in the title of its table."""
        return str(session)

    def unit(self, session: Session) -> str:
        """Return what the score of a method counts, in words."""
        what = "satisfied items" if session.slate == 1 else f"cumulative nDCG with lists of {session.slate}"
        return f"{what} in {Session(session.rounds, 1)}"

    def more_tables(self, rows: Sequence[Row]) -> list[Table]:
        """Return tables of this protocol only."""
        return []


@dataclass(frozen=True)
class Choices:
    """Choices of the caller; None leaves one to the protocol."""

    rounds: int | None = None
    slate: int | None = None
    satisfied: float | None = None
    split: Literal["time", "users", "auto"] | None = None
    n_users: int | None = None
    min_reactions: int | None = None

    def __post_init__(self) -> None:
        """Refuse sizes below one."""
        for name in ("rounds", "slate", "n_users"):
            if (value := getattr(self, name)) is not None and value < 1:
                raise ConfigError(f"{name} must be at least 1, got {value}")

    def sessions(self, own: tuple[Session, ...]) -> tuple[Session, ...]:
        """Return the sessions of a protocol with the rounds and slate of the caller."""
        if self.slate is not None:
            own = tuple(each for each in own if each.slate == self.slate) or (Session(own[0].rounds, self.slate),)
        if self.rounds is not None:
            own = tuple(Session(self.rounds, each.slate) for each in own)
        return own


def in_stages(grid: Grid) -> list[Grid]:
    """Return a grid as it is, or one setting at a time where it has too many points."""
    few = math.prod(map(len, grid.values())) <= MOST_POINTS
    return [grid] if few else [{name: values} for name, values in grid.items()]


def figures_at(curve: FloatArray, at: Sequence[int], *, offset: int = 0) -> Figures:
    """Return the mean over users at each T; the curve begins after `offset` rounds."""
    return {str(t): mean_of_known(curve[:, t - 1 - offset]) for t in at if t > offset}


def mean_of_known(values: FloatArray) -> float:
    """Return the mean of all values that are not NaN, 0 without any."""
    known = values[~np.isnan(values)]
    return float(known.mean()) if len(known) else 0.0


def shown_numbers(outcome: Outcome) -> Figures:
    """Return coverage and novelty of what was shown."""
    return {
        "coverage": metrics.coverage(outcome.shown.rows, len(outcome.item_shares)),
        "novelty": metrics.novelty(outcome.shown.rows, outcome.item_shares),
    }
