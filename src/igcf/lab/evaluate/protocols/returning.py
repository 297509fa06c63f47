"""`returning`: cold-start users some of whose reactions were logged before the first round."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import numpy as np

from igcf.arrays import FloatArray
from igcf.data import Interactions
from igcf.data.splits import has_all_times
from igcf.errors import ConfigError, DataError
from igcf.lab.baselines import Method
from igcf.lab.evaluate.protocols.base import Case, Job, Outcome, Pair, Play, Session, Setup, Users
from igcf.lab.evaluate.protocols.cold import ColdStart, cold_users
from igcf.lab.evaluate.protocols.replay_logged import logged_by_user, replay_logged
from igcf.online import Learner, Shown

Part = Literal["random", "earliest"]


@dataclass(frozen=True)
class Returning(ColdStart):
    """Cold-start users, a few of whose reactions are logged; their items are never shown.

    Each number of logged reactions stands beside a cold start of the same users without the same items: some of what
    would satisfy a user is in the log and cannot be shown.
    """

    name: ClassVar[str] = "returning"
    sessions: ClassVar[tuple[Session, ...]] = (Session(40, 1),)
    methods: ClassVar[tuple[str, ...]] = ("igcf",)
    has_history: ClassVar[bool] = True
    logged: tuple[int, ...] = (1, 5, 20, 100)
    """Numbers of reactions that are logged before the first round."""
    part: Part = "random"
    """Which reactions of a user are logged."""

    def prepare(self, data: Interactions, setup: Setup, seed: int, users: Users) -> Case:
        """Split the log as cold start does, with the whole record of each user."""
        cold = cold_users(data, setup, seed)
        return replace(
            super().prepare(data, setup, seed, users), record=cold.test if users == "test" else cold.validation
        )

    def plays(self, method: Method, settings: Mapping[str, Any], dataset: str) -> list[Play]:
        """Return the cold start, then each number of logged reactions, without and with the method using them."""
        rows = [Play(method.name, settings)]
        for n in self.logged:
            rows.append(Play(f"{method.name}, cold without those {n}", settings, {"logged": n, "told": False}))
            rows.append(Play(f"{method.name}, {n} logged", settings, {"logged": n, "told": True}))
        return rows

    def show(
        self, learner: Learner, case: Case, job: Job, play: Play, session: Session
    ) -> tuple[Shown, dict[str, Any]]:
        """Play one session, after the logged reactions where there are some."""
        if not play.notes:
            return super().show(learner, case, job, play, session)
        assert case.record is not None  # noqa: S101
        rng = np.random.default_rng([job.seed, 3])  # the same for every method and number of reactions
        given = logged_by_user(logged_part(case.record, play.notes["logged"], self.part, rng=rng))
        (truth,) = case.truth
        told = bool(play.notes["told"])
        return replay_logged(learner, truth, given, session, is_told=told, rng=self.rng(job, 2)), {}  # type: ignore[arg-type]

    def pairs(self, session: Session, outcomes: Sequence[Outcome], means: Mapping[str, FloatArray]) -> Iterator[Pair]:
        """Compare each start from a log with both cold starts of the same method."""
        curve, _ = self.target(session)
        starts = {each.label: (each.method, each.notes["logged"]) for each in outcomes if each.notes.get("told")}
        for t in self.cutoffs(session):
            for label, (method, n) in starts.items():
                references = (f"{method}, cold without those {n}", method)
                yield from (Pair(label, other, curve, t) for other in references if other in means)


def logged_part(record: Interactions, n: int, part: Part, *, rng: np.random.Generator) -> Interactions:
    """Return `n` reactions of each user, all where there are fewer; with the same `rng`, more contain fewer.

    `random` draws them, `earliest` takes the first in time, equal times in random order.
    """
    if n < 1:
        raise ConfigError(f"the number of logged reactions must be at least 1, got {n}")
    shuffled = rng.random(len(record))
    if part == "earliest":
        if not has_all_times(record) or record.timestamps is None:
            raise DataError(f"{record.name} has reactions without a time; take --part random")
        order = np.lexsort((shuffled, record.timestamps, record.user_idx))
    else:
        order = np.lexsort((shuffled, record.user_idx))
    counts = np.bincount(record.user_idx, minlength=record.n_users)
    place = np.empty(len(record), dtype=np.int64)
    place[order] = np.arange(len(record)) - (np.cumsum(counts) - counts)[record.user_idx[order]]
    return record.subset(place < n)
