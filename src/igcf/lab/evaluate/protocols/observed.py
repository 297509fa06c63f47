"""`observed`: only items to which the test user really reacted are available (docs/protocols.md).

Every shown item then gets its true reaction, as it does in a live product, and it can be said whether the chance of an
item comes true. All choices are made on validation users.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from igcf.arrays import Float32Array, FloatArray
from igcf.data import Interactions
from igcf.data.registry import known_dataset
from igcf.data.splits import observed_split
from igcf.lab.baselines import Method
from igcf.lab.evaluate.protocols.base import (
    Case,
    Choices,
    Grid,
    Job,
    Outcome,
    Play,
    Row,
    Session,
    Setup,
    Showing,
    Users,
)
from igcf.lab.evaluate.protocols.cold import ColdStart, attributes_of, group_tables, tested
from igcf.model.usage import Calibration
from igcf.online import Environment, Learner, ModelLearner
from igcf.tables import Table
from igcf.training.calibrating import LogitRecorder, Played, chance_of, coverage, places, recorded

STAGES = ((1, 5), (6, 10), (11, 20), (21, 40))
"""Rounds, first and last, over which chances are compared with what came true."""
N_BINS = 10


@dataclass(frozen=True)
class Observed(ColdStart):
    """New users who are shown only what they reacted to."""

    name: ClassVar[str] = "observed"
    sessions: ClassVar[tuple[Session, ...]] = (Session(40, 1),)
    methods: ClassVar[tuple[str, ...]] = ("random", "pop", "share", "liked-factors", "igcf")
    tuned_under: ClassVar[tuple[str, ...]] = ()

    def setup(self, data: Interactions, choices: Choices) -> Setup:
        """Return the experiment on this log; a test user has twice as many reactions as there are rounds."""
        sessions, info = choices.sessions(self.sessions), known_dataset(data)
        least = 2 * max(each.rounds * each.slate for each in sessions)
        return self.experiment(
            data,
            choices,
            sessions=sessions,
            split=choices.split or (info.default_split if info else "auto"),
            by_activity=False,
            n_users=choices.n_users or 400,
            n_validation=300,
            min_reactions=least if choices.min_reactions is None else choices.min_reactions,
        )

    def prepare(self, data: Interactions, setup: Setup, seed: int, users: Users) -> Case:
        """Split the log; test and validation users are drawn from the active ones, both alike."""
        sizes = {"n_test": setup.n_users, "n_validation": setup.n_validation, "min_reactions": setup.min_reactions}
        parts = observed_split(data, split=setup.split, **sizes, rng=np.random.default_rng(seed))
        case = tested(setup, parts.train, (parts.validation,), (parts.test,), users)
        return replace(case, task=replace(case.task, seed=seed))

    def environment(self, case: Case, session: Session) -> Environment:
        """Make available what a user reacted to."""
        (truth,) = case.truth
        return Environment(truth, rounds=session.rounds, slate=session.slate, available=~np.isnan(truth))

    def training_truth(self, case: Case, session: Session) -> tuple[Float32Array, ...]:
        """Return the training users who reacted to enough items to be shown one in each round."""
        train = case.task.train
        n_reactions = np.bincount(train.user_idx, minlength=train.n_users)
        return (train.only_users(np.flatnonzero(n_reactions >= session.rounds * session.slate)).dense(),)

    def settings_of(self, method: Method) -> Mapping[str, Any]:
        """Let `igcf` rank by liking and play as it was trained."""
        liking = {"objective": "liking", "calibrated": True, "known_users": True, "experts": "as trained"}
        return liking if method.name == "igcf" else {}

    def accepts(self, method: Method) -> bool:
        """Tell whether the method is one of this protocol's."""
        return method.name in self.methods

    def plays(self, method: Method, settings: Mapping[str, Any], dataset: str) -> list[Play]:
        """Return `igcf` with both objectives, the others as they are."""
        own = super().plays(method, settings, dataset)
        return [Play("igcf-hit", {**settings, "objective": "hit"}), *own] if method.name == "igcf" else own

    def grids(self, method: Method, *, paper: bool = False) -> list[Grid]:
        """Search nothing for `igcf`, which chooses its own policy."""
        return [{}] if method.name == "igcf" else super().grids(method, paper=paper)

    def rng(self, job: Job, purpose: int) -> np.random.Generator:
        """Return random numbers that depend on the seed only."""
        return np.random.default_rng(job.seed)

    def show(self, learner: Learner, case: Case, job: Job, play: Play, session: Session) -> Showing:
        """Play one session; of a calibrated model, also record whether its chances come true."""
        world = self.environment(case, session)
        begun, details = attributes_of(learner, case, play)
        if not (play.settings.get("calibrated") and isinstance(learner, ModelLearner)):
            return world.play(learner, rng=self.rng(job, 2), begun=begun), details
        recorder = LogitRecorder(learner, case.truth[0])
        shown = world.play(recorder, rng=np.random.default_rng(0), begun=begun)
        played = recorded(recorder, shown)
        return shown, details | {"chance": _chance(played, learner.model.calibration, session.rounds)}

    def count(self, outcome: Outcome, setup: Setup) -> Row:
        """Count the calibration error of the chance, too."""
        row = super().count(outcome, setup)
        if "chance" in outcome.details:
            row.numbers["ece"] = outcome.details["chance"]["ece"]
        return row

    def more_tables(self, rows: Sequence[Row]) -> list[Table]:
        """Return the table of the chance."""
        groups = group_tables(rows)
        outcomes = [row.outcome for row in rows if "chance" in row.outcome.details]
        found = [(each.label, each.seed, each.details["chance"]) for each in outcomes]
        if not found:
            return groups
        has_seeds = len({seed for _, seed, _ in found}) > 1
        lines = tuple(
            (
                f"{label}, seed {seed}" if has_seeds else label,
                f"{chance['ece']:.3f}",
                *(f"{each:.3f}" for each in chance["coverage"].values()),
                *(f"{each['predicted']:.2f}/{each['satisfied']:.2f}" for each in chance["by_rounds"]),
            )
            for label, seed, chance in found
        )
        first = found[0][2]
        stages = [each["rounds"] for each in first["by_rounds"]]
        header = ("method", "ECE", *(f"in {level}" for level in first["coverage"]), *stages)
        title = "chance: calibration error, coverage of counts, predicted/satisfied by round"
        return [*groups, Table(title, header, lines)]


def calibration_error(chance: FloatArray, is_success: Any) -> float:
    """Return the mean distance of chance and share satisfied over ten bins of the chance, weighted by their sizes."""
    bins = np.minimum((chance * N_BINS).astype(int), N_BINS - 1)
    gaps = [abs(float((chance - is_success)[bins == each].sum())) for each in np.unique(bins)]
    return float(sum(gaps) / chance.size)


def _chance(played: Played, calibration: Calibration, rounds: int) -> dict[str, Any]:
    """Summarise how far the predicted chances of shown items came true, and how well counts were predicted."""
    predicted, y = chance_of(played, calibration), played.is_success
    rng = np.random.default_rng(0)
    found = [places(played, look, [calibration], rng=rng)[0] for look in played.looks]
    by_rounds = []
    for first, last in ((first, min(last, rounds)) for first, last in STAGES if first <= rounds):
        chance, came_true = predicted[:, first - 1 : last], y[:, first - 1 : last]
        means = {"predicted": float(chance.mean()), "satisfied": float(came_true.mean())}
        by_rounds.append({"rounds": f"{first}-{last}", **means, "ece": calibration_error(chance, came_true)})
    return {
        "calibration": vars(calibration),
        "ece": calibration_error(predicted, y),
        "ece_uncalibrated": calibration_error(chance_of(played, Calibration()), y),
        "coverage": {f"{level:.0%}": coverage(np.concatenate(found), level) for level in (0.8, 0.95)} if found else {},
        "coverage_by_look": [coverage(each) for each in found],
        "by_rounds": by_rounds,
    }
