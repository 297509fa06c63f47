"""One job: fit a method once, play it on users whose reactions are known, and keep the outcome on disk."""

import hashlib
import io
import json
import os
import time
import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal

import numpy as np

import igcf
from igcf.arrays import BoolArray, Float32Array, FloatArray, IntArray
from igcf.baselines import method_named
from igcf.data import Interactions
from igcf.errors import IgcfError
from igcf.evaluate.protocols import Session, Setup, prepare
from igcf.online import Learner, Shown, replay

CODE = (
    "arrays.py",
    "config.py",
    "data",
    "graph",
    "model",
    "training",
    "online",
    "baselines",
    "evaluate/jobs.py",
    "evaluate/protocols.py",
)
"""Whatever can change what is shown; the hash of these sources is part of a job's name."""

NOTE_EVERY = 20
"""Rounds between two looks at the uncertainty of a model that does not keep track of it."""


@dataclass(frozen=True)
class Play:
    """One way to play what was fitted, under the name of its row in the tables."""

    label: str
    settings: Mapping[str, Any]


@dataclass(frozen=True)
class Job:
    """A fit and what is done with it. The plays differ in online settings only."""

    method: str
    setup: Setup
    seed: int
    plays: tuple[Play, ...]
    users: Literal["test", "validation"] = "test"

    def key(self, fingerprint: str) -> str:
        """A name for the outcome: equal for equal data, settings and code."""
        plain = [self.method, self.setup.as_dict(), self.seed, [dict(play.settings) for play in self.plays], self.users]
        text = json.dumps([fingerprint, code_version(), plain], sort_keys=True, default=str)
        return f"{self.method}-{self.seed}-{hashlib.sha256(text.encode()).hexdigest()[:20]}"


@dataclass(frozen=True, eq=False)
class Outcome:
    """What one play showed in one session."""

    label: str
    method: str
    seed: int
    settings: Mapping[str, Any]
    session: Session
    user_ids: tuple[str, ...]
    shown: Shown
    n_satisfied: IntArray
    item_shares: FloatArray
    spread: FloatArray
    """Mean standard deviation of the items' expected rewards by round, NaN where it was not looked at; may be empty"""
    seconds: dict[str, float]


class Watched:
    """A learner that takes note of its uncertainty before every choice."""

    def __init__(self, learner: Learner) -> None:
        self.learner = learner
        self.spread: list[float] = []
        self._weights: list[int] = []

    def begin(self, n_users: int, *, rng: np.random.Generator) -> None:
        """Begin; later blocks of users are averaged into the same rounds."""
        self.learner.begin(n_users, rng=rng)
        self._round, self._n_users = 0, n_users

    def select(self, available: BoolArray, k: int) -> IntArray:
        """Select, noting the mean standard deviation over all items."""
        engine = getattr(self.learner, "engine", None)
        if engine is not None:
            is_cheap = getattr(engine, "tracks_variances", True)
            is_due = is_cheap or self._round % NOTE_EVERY == 0
            self._note(float(np.sqrt(engine.variances).mean()) if is_due else float("nan"))
        self._round += 1
        return self.learner.select(available, k)

    def observe(self, rows: IntArray, values: Float32Array) -> None:
        """Pass on."""
        self.learner.observe(rows, values)

    def _note(self, spread: float) -> None:
        if self._round == len(self.spread):
            self.spread.append(0.0)
            self._weights.append(0)
        before, self._weights[self._round] = self._weights[self._round], self._weights[self._round] + self._n_users
        share = self._n_users / (before + self._n_users)
        self.spread[self._round] += share * (spread - self.spread[self._round])


def run_job(data: Interactions, job: Job) -> list[Outcome]:
    """Fit and play; the random numbers depend on seed and method only, so that plays may be grouped at will."""
    case = prepare(data, job.setup, job.seed, job.users)
    method = method_named(job.method)
    name = zlib.crc32(job.method.encode())
    started = time.perf_counter()
    fitted = method.fit(case.task, job.plays[0].settings, np.random.default_rng([job.seed, 1, name]))
    fit_seconds = time.perf_counter() - started
    outcomes = []
    for play in job.plays:
        for session in job.setup.sessions:
            started = time.perf_counter()
            learner = Watched(method.play(fitted, play.settings))
            shown = replay(
                learner,
                case.truth,
                rounds=session.rounds,
                slate=session.slate,
                rng=np.random.default_rng([job.seed, 2, name]),
            )
            outcomes.append(
                Outcome(
                    label=play.label,
                    method=job.method,
                    seed=job.seed,
                    settings=play.settings,
                    session=session,
                    user_ids=case.user_ids,
                    shown=shown,
                    n_satisfied=case.n_satisfied,
                    item_shares=case.item_shares,
                    spread=np.array(learner.spread),
                    seconds={"pretrain": round(fit_seconds, 3), "online": round(time.perf_counter() - started, 3)},
                )
            )
    return outcomes


def keep(outcomes: list[Outcome], path: Path) -> None:
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


def kept(job: Job, path: Path) -> list[Outcome] | None:
    """The outcomes that were kept at `path`; None where there are none or the file is damaged."""
    try:
        with np.load(io.BytesIO(path.read_bytes()), allow_pickle=False) as arrays:
            meta = json.loads(str(arrays["meta"]))
            pairs = [(play, session) for play in job.plays for session in job.setup.sessions]
            return [
                Outcome(
                    label=play.label,
                    method=job.method,
                    seed=job.seed,
                    settings=play.settings,
                    session=session,
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
    """A hash of the sources that produce the numbers."""
    root = Path(igcf.__file__).parent
    digest = hashlib.sha256()
    for name in CODE:
        files = [root / name] if name.endswith(".py") else sorted((root / name).rglob("*.py"))
        for file in files:
            digest.update(file.name.encode())
            digest.update(file.read_bytes())
    return digest.hexdigest()[:16]
