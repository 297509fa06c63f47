"""Run many jobs on any engine: with progress, skipping those that are saved already, saving what is finished."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from igcf.data import Interactions
from igcf.errors import IgcfError
from igcf.lab.evaluate.engines import LOCAL, Engine, finished_jobs
from igcf.lab.evaluate.jobs import job_key, load_outcomes, save_outcomes
from igcf.lab.evaluate.protocols import Job, Outcome


@dataclass(frozen=True)
class Step:
    """Event that a watcher is told: a job was started, was finished, or was found finished before (`kept`)."""

    done: int
    total: int
    job: Job
    what: Literal["started", "finished", "kept"]


Watcher = Callable[[Step], None]


@dataclass(frozen=True)
class Execution:
    """Where the jobs of an experiment run, and what becomes of them on the way."""

    engine: Engine = LOCAL
    """Engine that runs the jobs, each with one thread, so that a number does not depend on where."""
    folder: Path | None = None
    """Folder where finished jobs are saved; a job that is there already is not run again. None saves nothing."""
    watch: Watcher | None = None
    """Function that is called when a job begins and when it ends; after an error, finished jobs are still saved."""
    command: str = ""
    """Command that is written down with the results."""


HERE = Execution()
"""Execution in this process, which saves nothing."""


def run_jobs(data: Interactions, jobs: Sequence[Job], execution: Execution = HERE) -> list[list[Outcome]]:
    """Run jobs about one log, equal ones once; returns the outcomes of all of them, in their order."""
    folder = execution.folder
    fingerprint = data.fingerprint()
    done: dict[str, list[Outcome]] = {}
    todo: dict[str, Job] = {}
    names = [job_key(job, fingerprint) for job in jobs]

    def tell(job: Job, what: Literal["started", "finished", "kept"]) -> None:
        if execution.watch:
            execution.watch(Step(len(done), len(set(names)), job, what))

    for name, job in zip(names, jobs, strict=True):
        if name in done or name in todo:
            continue
        found = load_outcomes(job, _made(folder) / f"{name}.npz") if folder else None
        if found is None:
            todo[name] = job
        else:
            done[name] = found
            tell(job, "kept")
    for name, outcomes in finished_jobs(execution.engine, data, todo, lambda job: tell(job, "started")):
        if folder:
            save_outcomes(outcomes, folder / f"{name}.npz")
        done[name] = outcomes
        tell(todo[name], "finished")
    return [done[name] for name in names]


def _made(folder: Path) -> Path:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise IgcfError(f"cannot keep results in {folder}: {error.strerror or error}; choose another --out") from error
    return folder
