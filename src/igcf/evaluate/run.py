"""Run many jobs on any engine: with progress, skipping what is already there, keeping what is finished."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from igcf.data import Interactions
from igcf.errors import IgcfError
from igcf.evaluate.engines import LOCAL, Engine, finished_jobs
from igcf.evaluate.jobs import Job, Outcome, keep, kept


@dataclass(frozen=True)
class Step:
    """Told to whoever watches: a job was started, was finished, or was found finished before."""

    done: int
    total: int
    job: Job
    what: Literal["started", "finished", "kept"]


Watcher = Callable[[Step], None]


def run_jobs(
    data: Interactions,
    jobs: Sequence[Job],
    *,
    folder: Path | None = None,
    engine: Engine = LOCAL,
    watch: Watcher | None = None,
) -> list[list[Outcome]]:
    """The outcomes of all jobs, in their order.

    Args:
        data: the log that all jobs are about.
        jobs: what to run; equal jobs run once.
        folder: where finished jobs are kept; a job that is there already is not run again. None keeps nothing.
        engine: what runs the jobs, each with one thread, so that a number does not depend on where.
        watch: called when a job begins and when it ends; after an error, finished jobs are still kept.
    """
    fingerprint = data.fingerprint()
    done: dict[str, list[Outcome]] = {}
    todo: dict[str, Job] = {}
    names = [job.key(fingerprint) for job in jobs]

    def tell(job: Job, what: Literal["started", "finished", "kept"]) -> None:
        if watch:
            watch(Step(len(done), len(set(names)), job, what))

    for name, job in zip(names, jobs, strict=True):
        if name in done or name in todo:
            continue
        found = kept(job, _made(folder) / f"{name}.npz") if folder else None
        if found is None:
            todo[name] = job
        else:
            done[name] = found
            tell(job, "kept")
    for name, outcomes in finished_jobs(engine, data, todo, lambda job: tell(job, "started")):
        if folder:
            keep(outcomes, folder / f"{name}.npz")
        done[name] = outcomes
        tell(todo[name], "finished")
    return [done[name] for name in names]


def _made(folder: Path) -> Path:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise IgcfError(f"cannot keep results in {folder}: {error.strerror or error}; choose another --out") from error
    return folder
