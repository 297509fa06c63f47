"""Run many jobs: in parallel processes, with progress, skipping what is already there."""

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from igcf.data import Interactions
from igcf.errors import ConfigError, IgcfError
from igcf.evaluate.jobs import Job, Outcome, keep, kept, run_and_keep, run_job

THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")


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
    processes: int = 1,
    watch: Watcher | None = None,
) -> list[list[Outcome]]:
    """The outcomes of all jobs, in their order.

    Args:
        data: the log that all jobs are about.
        jobs: what to run; equal jobs run once.
        folder: where finished jobs are kept; a job that is there already is not run again. None keeps nothing.
        processes: how many jobs run at a time, each with one thread, so that a number does not depend on it.
        watch: called when a job begins and when it ends; after an error, finished jobs are still kept.
    """
    if processes < 1:
        raise ConfigError(f"jobs must be at least 1, got {processes}")
    fingerprint = data.fingerprint()
    done: dict[str, list[Outcome]] = {}
    paths: dict[str, Path] = {}
    todo: dict[str, Job] = {}
    names = [job.key(fingerprint) for job in jobs]

    def tell(job: Job, what: Literal["started", "finished", "kept"]) -> None:
        if watch:
            watch(Step(len(done), len(set(names)), job, what))

    for name, job in zip(names, jobs, strict=True):
        if name in done or name in todo:
            continue
        paths[name] = _made(folder) / f"{name}.npz" if folder else Path(os.devnull)
        found = kept(job, paths[name]) if folder else None
        if found is None:
            todo[name] = job
        else:
            done[name] = found
            tell(job, "kept")
    for name in _finished(data, todo, paths if folder else None, processes, done, lambda job: tell(job, "started")):
        tell(todo[name], "finished")
    return [done[name] for name in names]


def _finished(
    data: Interactions,
    todo: dict[str, Job],
    paths: dict[str, Path] | None,
    processes: int,
    done: dict[str, list[Outcome]],
    started: Callable[[Job], None],
) -> Iterator[str]:
    """Run what is to do; yields each name when its outcome is in `done`."""
    if processes == 1 or not todo:
        with one_thread():
            for name, job in todo.items():
                started(job)
                done[name] = run_job(data, job)
                if paths:
                    keep(done[name], paths[name])
                yield name
        return
    from joblib import Parallel, delayed, parallel_config

    if paths is None:
        raise ConfigError("several processes need a folder to keep their results in; give --out")

    def calls() -> Iterator[Any]:  # read as processes become free
        for name, job in todo.items():
            started(job)
            yield delayed(_named_job)(name, data, job, paths[name])

    with parallel_config(backend="loky", n_jobs=processes, inner_max_num_threads=1):
        for name in Parallel(return_as="generator_unordered", batch_size=1, pre_dispatch=processes)(calls()):
            outcomes = kept(todo[name], paths[name])
            if outcomes is None:
                raise IgcfError(f"the result of {name} in {paths[name].parent} was removed while it was needed")
            done[name] = outcomes
            yield name


def _named_job(name: str, data: Interactions, job: Job, path: Path) -> str:
    with one_thread():
        run_and_keep(data, job, path)
    return name


@contextmanager
def one_thread() -> Iterator[None]:
    """Linear algebra in one thread: sums in another order would make equal scores unequal."""
    from threadpoolctl import threadpool_limits

    before = {name: os.environ.get(name) for name in THREAD_VARIABLES}
    os.environ.update(dict.fromkeys(THREAD_VARIABLES, "1"))  # for libraries that a job loads first
    if "numba" not in sys.modules:  # numba reads it once and sets the threads of everybody; it must not change later
        os.environ.setdefault("NUMBA_NUM_THREADS", "1")
    torch = sys.modules.get("torch")
    n_threads = torch.get_num_threads() if torch else 1
    if torch:
        torch.set_num_threads(1)
    try:
        with threadpool_limits(limits=1):
            yield
    finally:
        if torch:
            torch.set_num_threads(n_threads)
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _made(folder: Path) -> Path:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise IgcfError(f"cannot keep results in {folder}: {error.strerror or error}; choose another --out") from error
    return folder
