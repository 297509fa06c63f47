"""One job: fit a method once, play it on users whose reactions are known, and save the outcome on disk."""

import hashlib
import io
import json
import os
import time
import zipfile
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal

import numpy as np

import igcf
from igcf.arrays import BoolArray, Float32Array, FloatArray, IntArray
from igcf.data import Interactions
from igcf.errors import IgcfError
from igcf.lab.baselines import Method, method_named
from igcf.lab.baselines.logged import Logged
from igcf.lab.evaluate.logged_replay import logged_by_user, replay_logged
from igcf.lab.evaluate.protocols import Case, Session, Setup, prepare
from igcf.lab.evaluate.returning import Start, logged_part
from igcf.online import Learner, Shown, replay
from igcf.online.backend import loops

CODE = (
    "arrays.py",
    "config.py",
    "data",
    "graph",
    "model",
    "training",
    "online",
    "lab/baselines",
    "lab/evaluate/jobs.py",
    "lab/evaluate/known_users.py",
    "lab/evaluate/logged_replay.py",
    "lab/evaluate/protocols.py",
    "lab/evaluate/returning.py",
)
"""Files and folders whose sources can change what is shown; their hash is part of a job's name."""
SOURCES = (".py", ".c", ".h")
BACKEND = loops.name
"""Name of the implementation of the online phase's inner loops; both agree up to rounding, not to the last digit."""

NOTE_EVERY = 20
"""Number of rounds between two measurements of the uncertainty of a model that does not keep track of it."""


@dataclass(frozen=True)
class Play:
    """One way to use a fitted method, with the label of its row in the tables."""

    label: str
    settings: Mapping[str, Any]
    start: Start | None = None
    """What is logged of returning users; None: nothing."""


@dataclass(frozen=True)
class Job:
    """One fit of a method and the plays that use it, which differ in online settings only."""

    method: str
    setup: Setup
    seed: int
    plays: tuple[Play, ...]
    users: Literal["test", "validation"] = "test"

    def key(self, fingerprint: str) -> str:
        """Return a name for the outcome that is equal for equal data, settings, code and backend."""
        plays = [[dict(play.settings), play.start and asdict(play.start)] for play in self.plays]
        plain = [self.method, self.setup.as_dict(), self.seed, plays, self.users]
        text = json.dumps([fingerprint, code_version(), plain], sort_keys=True, default=str)
        return f"{self.method}-{self.seed}-{hashlib.sha256(text.encode()).hexdigest()[:20]}"


@dataclass(frozen=True, eq=False)
class Outcome:
    """Items that one play showed to all users in one session, and what the metrics need beside them."""

    label: str
    method: str
    seed: int
    settings: Mapping[str, Any]
    start: Start | None
    session: Session
    user_ids: tuple[str, ...]
    shown: Shown
    n_satisfied: IntArray
    item_shares: FloatArray
    spread: FloatArray
    """Mean standard deviation of the items' expected rewards by round, NaN where not measured; may be empty."""
    seconds: dict[str, float]


class Watched:
    """Learner that records the uncertainty of another one before every choice."""

    def __init__(self, learner: Learner) -> None:
        self.learner = learner
        self.spread: list[float] = []
        self._weights: list[int] = []
        self._is_told = False

    def begin(self, n_users: int, *, rng: np.random.Generator) -> None:
        """Begin with a block of users; later blocks are averaged into the same rounds."""
        self.learner.begin(n_users, rng=rng)
        self._round, self._n_users = 0, n_users

    def know(self, logged: Sequence[Logged]) -> None:
        """Pass what is logged on to the watched learner, whose uncertainty is then not recorded."""
        self._is_told = True
        self.learner.know(logged)  # type: ignore[attr-defined]

    def select(self, available: BoolArray, k: int) -> IntArray:
        """Select items after recording the mean standard deviation over all of them."""
        engine = getattr(self.learner, "engine", None)
        if engine is not None and not self._is_told:
            is_cheap = getattr(engine, "tracks_variances", True)
            is_due = is_cheap or self._round % NOTE_EVERY == 0
            self._note(float(np.sqrt(engine.variances).mean()) if is_due else float("nan"))
        self._round += 1
        return self.learner.select(available, k)

    def observe(self, rows: IntArray, values: Float32Array) -> None:
        """Pass the reactions on to the watched learner."""
        self.learner.observe(rows, values)

    def _note(self, spread: float) -> None:
        if self._round == len(self.spread):
            self.spread.append(0.0)
            self._weights.append(0)
        before, self._weights[self._round] = self._weights[self._round], self._weights[self._round] + self._n_users
        share = self._n_users / (before + self._n_users)
        self.spread[self._round] += share * (spread - self.spread[self._round])


def run_job(data: Interactions, job: Job) -> list[Outcome]:
    """Fit and play; random numbers depend on seed and method only, so that plays may be grouped in any way."""
    case = prepare(data, job.setup, job.seed, job.users)
    method = method_named(job.method)
    name = zlib.crc32(job.method.encode())
    started = time.perf_counter()
    task = case.task.refitted() if method.is_refitted else case.task
    fitted = method.fit(task, job.plays[0].settings, np.random.default_rng([job.seed, 1, name]))
    fit_seconds = time.perf_counter() - started
    outcomes = []
    for play in job.plays:
        for session in job.setup.sessions:
            started = time.perf_counter()
            learner = Watched(method.play(fitted, play.settings))
            shown = _play(learner, case, job, play, session)
            outcomes.append(
                _outcome(
                    job,
                    play,
                    session,
                    user_ids=case.user_ids,
                    shown=shown,
                    n_satisfied=case.n_satisfied,
                    item_shares=case.item_shares,
                    spread=np.array(learner.spread),
                    seconds={"pretrain": round(fit_seconds, 3), "online": round(time.perf_counter() - started, 3)},
                )
            )
    return outcomes


def _play(learner: Watched, case: Case, job: Job, play: Play, session: Session) -> Shown:
    rng = np.random.default_rng([job.seed, 2, zlib.crc32(job.method.encode())])
    if case.record is None or (job.setup.protocol == "returning" and play.start is None):
        return replay(learner, case.truth, rounds=session.rounds, slate=session.slate, rng=rng)
    log, is_told = case.record, True
    if play.start is not None:
        lots = np.random.default_rng([job.seed, 3])  # the same for every method and number of reactions
        log, is_told = logged_part(log, play.start.n_logged, job.setup.part, rng=lots), play.start.is_told
    (truth,) = case.truth
    return replay_logged(learner, truth, logged_by_user(log), session, is_told=is_told, rng=rng)


def _outcome(job: Job, play: Play, session: Session, **found: Any) -> Outcome:
    return Outcome(play.label, job.method, job.seed, play.settings, play.start, session, **found)


def jobs_sharing_fits(
    method: Method, setup: Setup, seed: int, plays: Iterable[Play], users: Literal["test", "validation"] = "test"
) -> list[Job]:
    """Return jobs that cover all plays; plays that differ in online settings only share a fit."""
    groups: dict[str, list[Play]] = {}
    for play in plays:
        fit_settings = {name: value for name, value in play.settings.items() if name not in method.online}
        groups.setdefault(repr(sorted(fit_settings.items())), []).append(play)
    return [Job(method.name, setup, seed, tuple(group), users) for group in groups.values()]


def save_outcomes(outcomes: list[Outcome], path: Path) -> None:
    """Write the outcomes of a job to one file, under a temporary name first."""
    arrays: dict[str, Any] = {}
    meta = []
    for number, each in enumerate(outcomes):
        arrays[f"rows_{number}"], arrays[f"values_{number}"] = each.shown.rows, each.shown.values
        arrays[f"n_satisfied_{number}"], arrays[f"spread_{number}"] = each.n_satisfied, each.spread
        arrays[f"item_shares_{number}"] = each.item_shares.astype(np.float64)
        meta.append({"user_ids": each.user_ids, "seconds": each.seconds})
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with part.open("wb") as file:
            np.savez_compressed(file, meta=np.array(json.dumps(meta)), **arrays)
        part.replace(path)
    except OSError as error:
        raise IgcfError(f"cannot keep results in {path.parent}: {error.strerror or error}") from error
    finally:
        part.unlink(missing_ok=True)


def load_outcomes(job: Job, path: Path) -> list[Outcome] | None:
    """Read the outcomes of a job that were saved at `path`; None where there is no file or it is damaged."""
    try:
        with np.load(io.BytesIO(path.read_bytes()), allow_pickle=False) as arrays:
            meta = json.loads(str(arrays["meta"]))
            pairs = [(play, session) for play in job.plays for session in job.setup.sessions]
            return [
                _outcome(
                    job,
                    play,
                    session,
                    user_ids=tuple(meta[number]["user_ids"]),
                    shown=Shown(arrays[f"rows_{number}"], arrays[f"values_{number}"]),
                    n_satisfied=arrays[f"n_satisfied_{number}"],
                    item_shares=arrays[f"item_shares_{number}"],
                    spread=arrays[f"spread_{number}"],
                    seconds=meta[number]["seconds"],
                )
                for number, (play, session) in enumerate(pairs)
            ]
    except (OSError, ValueError, KeyError, IndexError, EOFError, zipfile.BadZipFile, zlib.error):
        return None


@cache
def code_version() -> str:
    """Return a hash of the sources that produce the numbers and of the backend in use."""
    return hash_sources(Path(igcf.__file__).parent, BACKEND)


def hash_sources(root: Path, backend: str) -> str:
    """Return a hash of the Python and C sources of `CODE` below `root`, and of the backend's name."""
    digest = hashlib.sha256(backend.encode())
    for name in CODE:
        files = [root / name] if (root / name).is_file() else sorted((root / name).rglob("*"))
        for file in files:
            if file.suffix in SOURCES:
                digest.update(str(file.relative_to(root)).encode())
                digest.update(file.read_bytes())
    return digest.hexdigest()[:16]
