"""The protocol `observed`: only items to which the test user really reacted are available (docs/protocols.md).

Every shown item then gets its true reaction, as it does in a live product, and it can be said whether the chance of an
item comes true. All choices are made on validation users.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from igcf.arrays import FloatArray
from igcf.data import Interactions, success_in
from igcf.data.registry import known_dataset
from igcf.data.splits import ColdStart, Split, observed_split
from igcf.errors import ConfigError
from igcf.lab.baselines.liked import fit_liked_factors, like_shares, liked_factors_model
from igcf.lab.baselines.simple import RandomItems, RankedItems, interaction_counts
from igcf.lab.baselines.task import Task
from igcf.lab.evaluate.significance import Comparison, compare
from igcf.model import Model
from igcf.model.usage import Calibration
from igcf.online import Greedy, Learner, ModelLearner, replay
from igcf.online.policies import own_policy
from igcf.tables import Table
from igcf.training import pretrain
from igcf.training.calibrating import Played, chance_of, coverage, places, play_observed

OBSERVED_METHODS = ("random", "pop", "share", "liked-factors", "igcf-hit", "igcf")
OURS, REFERENCES = "igcf", ("share", "liked-factors")
CUTOFFS = (10, 20, 40)
ROUNDS = 40
STAGES = ((1, 5), (6, 10), (11, 20), (21, 40))
"""Rounds, first and last, over which chances are compared with what came true."""
N_BINS = 10
DIMS, PENALTIES, NOISES = (8, 16, 32), (2.0, 5.0, 10.0), (0.05, 0.1, 0.2, 0.5)
"""What tuning of the factor model tries, one after the other."""


@dataclass(frozen=True)
class ObservedSetup:
    """An experiment of this protocol: plain values only."""

    dataset: str
    satisfied: float
    rounds: int = ROUNDS
    split: Split = "auto"
    n_users: int = 400
    n_validation: int = 300


@dataclass(frozen=True, eq=False)
class ObservedRow:
    """What one method reached with the test users."""

    method: str
    successes: dict[int, FloatArray]
    """Successes of each user up to a round, by round."""
    seconds: float
    """Seconds of fitting, tuning and playing."""
    settings: dict[str, Any] = field(default_factory=dict)
    chance: dict[str, Any] | None = None
    """Calibration of the chance; None for methods that tell none."""

    def as_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        precision = {str(t): float(each.mean()) for t, each in self.successes.items()}
        return {
            "method": self.method,
            "precision": precision,
            "successes": {str(t): each.astype(int).tolist() for t, each in self.successes.items()},
            "seconds": self.seconds,
            "settings": self.settings,
            "chance": self.chance,
        }


@dataclass(frozen=True, eq=False)
class ObservedResults:
    """All methods on the same test users."""

    setup: ObservedSetup
    seed: int
    n_users: int
    n_items: int
    rows: tuple[ObservedRow, ...]
    comparisons: tuple[Comparison, ...]
    command: str = ""

    def as_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {
            "protocol": "observed",
            "command": self.command,
            **vars(self.setup),
            "seed": self.seed,
            "test_users": self.n_users,
            "items": self.n_items,
            "methods": [row.as_dict() for row in self.rows],
            "comparisons": [vars(each) for each in self.comparisons],
        }


def observed_setup(
    data: Interactions, *, satisfied: float | None = None, rounds: int | None = None, split: Split | None = None
) -> ObservedSetup:
    """Return the experiment on this log; a log that igcf does not know by name is split in time where it can be."""
    info = known_dataset(data)
    satisfied = success_in(data, satisfied).threshold
    own_split: Split = split or (info.default_split if info else "auto")
    return ObservedSetup(data.name, satisfied, ROUNDS if rounds is None else rounds, own_split)


def observed(
    data: Interactions,
    setup: ObservedSetup,
    methods: Sequence[str] = OBSERVED_METHODS,
    *,
    seed: int = 0,
    step: Callable[[str], None] = lambda method: None,
    command: str = "",
) -> ObservedResults:
    """Play the test users with each method; `step` is told the name of each before it is fitted."""
    unknown = [name for name in methods if name not in OBSERVED_METHODS]
    if unknown:
        raise ConfigError(f"unknown method {unknown[0]!r} of observed; known are {', '.join(OBSERVED_METHODS)}")
    parts = observed_split(
        data,
        split=setup.split,
        n_test=setup.n_users,
        n_validation=setup.n_validation,
        min_reactions=2 * setup.rounds,
        rng=np.random.default_rng(seed),
    )
    rows = []
    for name in methods:
        step(name)
        rows.append(_row(name, parts, setup, seed))
    return ObservedResults(
        setup, seed, parts.test.n_users, data.n_items, tuple(rows), tuple(_comparisons(rows)), command
    )


def _row(name: str, parts: ColdStart, setup: ObservedSetup, seed: int) -> ObservedRow:
    begun = time.perf_counter()
    task = Task(parts.train, setup.satisfied, setup.rounds, validation=(parts.validation,))
    truth = parts.test.dense()
    settings: dict[str, Any] = {}
    chance = None
    if name.startswith("igcf"):
        model = pretrain(
            parts.train,
            validation=parts.validation,
            satisfied=setup.satisfied,
            validate_rounds=setup.rounds,
            objective="hit" if name == "igcf-hit" else "liking",
            seed=seed,
            progress=False,
        )
        settings = {"objective": model.objective, "nu": model.policy.nu, **model.metadata["chosen"]}
        policy = own_policy(model.policy)
        played = play_observed(ModelLearner(model, policy), truth, setup.rounds)
        is_success = played.is_success
        chance = _chance(played, model.calibration, setup.rounds)
    else:
        learner, settings = _baseline(name, task, seed)
        shown = replay(learner, truth, rounds=setup.rounds, rng=np.random.default_rng(seed), only_reacted=True)
        is_success = shown.values[:, :, 0] >= setup.satisfied
    successes = {t: is_success[:, :t].sum(axis=1).astype(np.float64) for t in cutoffs(setup.rounds)}
    return ObservedRow(name, successes, time.perf_counter() - begun, settings, chance)


def cutoffs(rounds: int) -> list[int]:
    """Return the rounds after which successes are counted."""
    return [t for t in CUTOFFS if t < rounds] + [rounds]


def _baseline(name: str, task: Task, seed: int) -> tuple[Learner, dict[str, Any]]:
    if name == "random":
        return RandomItems(), {}
    if name == "pop":
        return RankedItems(interaction_counts(task)), {}
    if name == "share":
        return RankedItems(like_shares(task)), {}
    model, settings = tuned_liked_factors(task, seed)
    return ModelLearner(model, Greedy()), settings


def tuned_liked_factors(task: Task, seed: int) -> tuple[Model, dict[str, Any]]:
    """Tune size, penalty and noise of the factor model one after the other on the validation users."""
    (truth,) = task.validation_truth()
    fits: dict[tuple[int, float], Any] = {}
    scores: dict[tuple[int, float, float], float] = {}

    def model_of(point: tuple[int, float, float]) -> Model:
        dim, penalty, noise = point
        if (dim, penalty) not in fits:
            fits[dim, penalty] = fit_liked_factors(task, dim, penalty, seed=seed)
        return liked_factors_model(task, fits[dim, penalty], noise)

    def score(point: tuple[int, float, float]) -> float:
        if point not in scores:
            learner = ModelLearner(model_of(point), Greedy())
            shown = replay(learner, truth, rounds=task.rounds, rng=np.random.default_rng(0), only_reacted=True)
            scores[point] = float((shown.values >= task.satisfied).sum(axis=(1, 2)).mean())
        return scores[point]

    dim = max(DIMS, key=lambda each: score((each, 5.0, 0.1)))
    penalty = max(PENALTIES, key=lambda each: score((dim, each, 0.1)))
    noise = max(NOISES, key=lambda each: score((dim, penalty, each)))
    return model_of((dim, penalty, noise)), {"dim": dim, "penalty": penalty, "noise_var": noise}


def calibration_error(chance: FloatArray, is_success: Any) -> float:
    """Return the mean distance of chance and share satisfied over ten bins of the chance, weighted by their sizes."""
    bins = np.minimum((chance * N_BINS).astype(int), N_BINS - 1)
    gaps = [abs(float((chance - is_success)[bins == each].sum())) for each in np.unique(bins)]
    return float(sum(gaps) / chance.size)


def _chance(played: Played, calibration: Calibration, rounds: int) -> dict[str, Any]:
    """Summarise how far the chances told of shown items came true, and how well counts were predicted."""
    told, y = chance_of(played, calibration), played.is_success
    rng = np.random.default_rng(0)
    found = [places(look, calibration, rng=rng) for look in played.looks]
    stages = [(first, min(last, rounds)) for first, last in STAGES if first <= rounds]
    return {
        "calibration": vars(calibration),
        "ece": calibration_error(told, y),
        "ece_uncalibrated": calibration_error(chance_of(played, Calibration()), y),
        "coverage": {f"{level:.0%}": coverage(np.concatenate(found), level) for level in (0.8, 0.95)} if found else {},
        "coverage_by_look": [coverage(each) for each in found],
        "by_rounds": [
            {
                "rounds": f"{first}-{last}",
                "told": float(told[:, first - 1 : last].mean()),
                "satisfied": float(y[:, first - 1 : last].mean()),
                "ece": calibration_error(told[:, first - 1 : last], y[:, first - 1 : last]),
            }
            for first, last in stages
        ],
    }


def _comparisons(rows: Sequence[ObservedRow]) -> list[Comparison]:
    by_name = {row.method: row for row in rows}
    if OURS not in by_name:
        return []
    return [
        compare(OURS, name, f"precision@{t}", ours, by_name[name].successes[t])
        for name in REFERENCES
        if name in by_name
        for t, ours in by_name[OURS].successes.items()
    ]


def observed_tables(results: ObservedResults) -> list[Table]:
    """Build the table of successes, that of the chance, and the comparisons."""
    at = list(results.rows[0].successes)
    means = [[float(row.successes[t].mean()) for t in at] for row in results.rows]
    best = {(max(range(len(means)), key=lambda row: means[row][column]), column + 1) for column in range(len(at))}
    title = f"{results.setup.dataset}, observed: {results.n_users} test users, successes in {at[-1]} rounds"
    rows = tuple((row.method, *(f"{each:.2f}" for each in own)) for row, own in zip(results.rows, means, strict=True))
    tables = [Table(title, ("method", *(f"P@{t}" for t in at)), rows, frozenset(best))]
    told = [(row.method, row.chance) for row in results.rows if row.chance is not None]
    if told:
        stages = [each["rounds"] for each in told[0][1]["by_rounds"]]
        lines = tuple(
            (
                name,
                f"{chance['ece']:.3f}",
                *(f"{each:.3f}" for each in chance["coverage"].values()),
                *(f"{each['told']:.2f}/{each['satisfied']:.2f}" for each in chance["by_rounds"]),
            )
            for name, chance in told
        )
        header = ("method", "ECE", *(f"in {level}" for level in told[0][1]["coverage"]), *stages)
        tables.append(Table("chance: calibration error, coverage of counts, told/satisfied by round", header, lines))
    if results.comparisons:
        lines = tuple(
            (f"{each.method} - {each.reference}", each.metric, f"{each.difference:+.2f}", f"{each.p_value:.2g}")
            for each in results.comparisons
        )
        tables.append(Table("paired differences", ("methods", "metric", "difference", "p"), lines))
    return tables
