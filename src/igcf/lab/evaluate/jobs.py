"""One job: fit a method once, play it on users with known reactions, and save the outcomes on disk."""

import hashlib
import io
import json
import os
import zipfile
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np

import igcf
from igcf.data import Interactions
from igcf.errors import IgcfError
from igcf.lab.baselines import Method, method_named
from igcf.lab.baselines.registry import method_source
from igcf.lab.evaluate.protocols import Job, Outcome, Play, Setup, Users
from igcf.lab.evaluate.protocols.fits import Fits
from igcf.online import Shown
from igcf.online.backend import loops

CODE = (
    *("arrays.py", "config.py", "data", "graph", "model", "training", "online", "lab/baselines"),
    *("lab/evaluate/jobs.py", "lab/evaluate/metrics.py", "lab/evaluate/protocols"),
)
"""Files and folders of code that can change what is shown; their hash is part of a job's name."""
SOURCES = (".py", ".c", ".h")
PACKAGES = ("numpy", "scipy", "torch", "implicit")
"""Packages that can change what is shown; they are part of a job's name, too."""
ARRAYS = ("n_satisfied", "n_reactions", "item_shares")
"""What is saved of an outcome beside the items shown."""
ONE_SPLIT = ("cold-start", "top-k", "ablation", "returning")
"""Protocols that split a log alike, so that equal settings give equal fits."""
SIZES = ("satisfied", "split", "by_activity", "n_users", "n_validation", "min_reactions", "reward")
"""What the split of these protocols depends on, beside the seed."""
BACKEND = loops.name
"""Implementation of the online phase's inner loops; both agree up to rounding, not to the last digit."""


def job_key(job: Job, fingerprint: str) -> str:
    """Return a name for the outcomes of a job that is equal for equal data, settings, code, packages and backend."""
    plays = [[dict(play.settings), dict(play.notes)] for play in job.plays]
    plain = [job.method, method_source(job.method), job.setup.as_dict(), job.seed, plays, job.users]
    text = json.dumps([fingerprint, code_version(), plain], sort_keys=True, default=str)
    return f"{job.method.replace(':', '.')}-{job.seed}-{hashlib.sha256(text.encode()).hexdigest()[:20]}"


def sharing_key(job: Job, fingerprint: str) -> str:
    """Return a name that jobs have in common where one fit may serve all of them."""
    method, setup = method_named(job.method), job.setup
    split = setup.as_dict() | dict.fromkeys(("sessions", "activity"))
    if setup.protocol.name in ONE_SPLIT:
        split = {name: getattr(setup, name) for name in SIZES}
    fit = (method.fit_settings(job.plays[0].settings), method.session_sizes(*vars(setup.sessions[0]).values()))
    return repr((fingerprint, job.method, job.seed, job.users, split, fit))


def run_job(data: Interactions, job: Job, fits: Fits | None = None) -> list[Outcome]:
    """Fit and play; random numbers depend on seed and method only, so that plays may be grouped in any way.

    Args:
        data: the whole log.
        job: what is fitted and played.
        fits: fits that were made on this log before; one of them may be what the job needs.
    """
    if not getattr(job.setup.protocol, "attributes", False):
        data = replace(data, users=None)  # nobody asks for them, and a fit would take longer
    protocol = job.setup.protocol
    case = protocol.prepare(data, job.setup, job.seed, job.users)
    counts = dict(zip(data.user_ids, np.bincount(data.user_idx, minlength=data.n_users).tolist(), strict=True))
    n_reactions = np.array([counts.get(user_id, 0) for user_id in case.user_ids])
    same = {"n_satisfied": case.n_satisfied, "n_reactions": n_reactions, "item_shares": case.item_shares}
    return _outcomes(
        job, [{"user_ids": case.user_ids, **same, **each._asdict()} for each in protocol.run(case, job, fits or Fits())]
    )


def _outcomes(job: Job, found: Sequence[Mapping[str, Any]]) -> list[Outcome]:
    """Return what was found of each play in each session, plays first."""
    plays = [(play, session) for play in job.plays for session in job.setup.sessions]
    return [
        Outcome(play.label, job.method, job.seed, play.settings, play.notes, session, **each)
        for (play, session), each in zip(plays, found, strict=True)
    ]


def jobs_sharing_fits(
    method: Method, setup: Setup, seed: int, plays: Iterable[Play], users: Users = "test"
) -> list[Job]:
    """Return jobs that cover all plays; plays that differ in online settings only share a fit."""
    groups: dict[str, list[Play]] = {}
    for play in plays:
        groups.setdefault(repr(method.fit_settings(play.settings)), []).append(play)
    return [Job(method.name, setup, seed, tuple(group), users) for group in groups.values()]


def save_outcomes(outcomes: list[Outcome], path: Path) -> None:
    """Write the outcomes of a job to one file, under a temporary name first."""
    arrays: dict[str, Any] = {}
    for number, each in enumerate(outcomes):
        arrays |= {f"rows_{number}": each.shown.rows, f"values_{number}": each.shown.values}
        arrays |= {f"{name}_{number}": getattr(each, name) for name in ARRAYS}
    meta = [{"user_ids": each.user_ids, "seconds": each.seconds, "details": each.details} for each in outcomes]
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
            found = json.loads(str(arrays["meta"]))
            for number, each in enumerate(found):
                each["user_ids"] = tuple(each["user_ids"])
                each["shown"] = Shown(arrays[f"rows_{number}"], arrays[f"values_{number}"])
                each |= {name: arrays[f"{name}_{number}"] for name in ARRAYS}
            return _outcomes(job, found)
    except (OSError, ValueError, KeyError, TypeError, EOFError, zipfile.BadZipFile, zlib.error):
        return None


@cache
def code_version() -> str:
    """Return a hash of the sources that produce the numbers, of the backend in use and of the packages' versions."""
    return hash_sources(Path(igcf.__file__).parent, f"{BACKEND} {package_versions()}")


def package_versions() -> dict[str, str]:
    """Return the installed versions of the packages that produce numbers, `none` for one that is missing."""
    found = {}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "none"
    return found


def hash_sources(root: Path, context: str) -> str:
    """Return a hash of the Python and C sources of `CODE` below `root`, and of what they run with."""
    digest = hashlib.sha256(context.encode())
    for name in CODE:
        files = [root / name] if (root / name).is_file() else sorted((root / name).rglob("*"))
        for file in files:
            if file.suffix in SOURCES:
                digest.update(str(file.relative_to(root)).encode())
                digest.update(file.read_bytes())
    return digest.hexdigest()[:16]
