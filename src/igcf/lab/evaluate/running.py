"""Run jobs in processes of this machine or on a Ray cluster, with the same numbers, skipping those that are saved."""

import socket
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from typing import Any, Literal

from igcf.data import Interactions
from igcf.errors import ConfigError, IgcfError
from igcf.lab.baselines import method_named
from igcf.lab.evaluate.jobs import code_version, job_key, load_outcomes, run_job, save_outcomes
from igcf.lab.evaluate.protocols import Job, Outcome
from igcf.threads import at_most_threads, one_thread_for_new_libraries
from igcf.training.cluster.ray_cluster import ray_cluster

TRIES = 4
"""Number of times a job is begun at most: more lost workers than that are the job's fault, memory for instance."""
GO_ON = "finished parts are kept; the same command resumes there"

Finished = Iterator[tuple[str, list[Outcome]]]
"""Names and outcomes of jobs, as they are finished, in any order."""


@dataclass(frozen=True)
class Step:
    """Event of a run: a job was started, was finished, or was found finished before (`kept`)."""

    done: int
    total: int
    job: Job
    what: Literal["started", "finished", "kept"]


Watcher = Callable[[Step], None]


@dataclass(frozen=True, kw_only=True)
class Execution:
    """Where the jobs of an experiment run, each with one thread, and what becomes of them on the way.

    Example:
        >>> import igcf
        >>> log = igcf.data.synthetic_catalogue(n_users=150, n_items=40)
        >>> setup = igcf.lab.evaluate.setup_for(log, "cold-start", rounds=5, n_users=20, min_reactions=10)
        >>> events = []
        >>> execution = igcf.lab.evaluate.Execution(watch=lambda step: events.append(step.what))
        >>> _ = igcf.lab.evaluate.evaluate(log, setup, ["pop"], execution=execution)
        >>> events
        ['started', 'finished']
    """

    engine: Literal["local", "ray"] = "local"
    """Processes of this machine, or Ray; figures do not depend on it."""
    processes: int = 1
    """Number of jobs at a time; a cluster at an address has a number of its own."""
    address: str | None = None
    """Address of a running cluster; None starts processes on this machine."""
    folder: Path | None = None
    """Folder where finished jobs are saved; a job that is there already is not run again. None saves nothing."""
    watch: Watcher | None = None
    """Function that is called when a job begins and when it ends; after an error, finished jobs are still saved."""
    command: str = ""
    """Command that is written down with the results."""

    def __post_init__(self) -> None:
        """Refuse settings that contradict each other."""
        if self.processes < 1:
            raise ConfigError(f"jobs must be at least 1, got {self.processes}")
        if self.engine not in ("local", "ray"):
            raise ConfigError(f"unknown engine {self.engine!r}; known: local, ray")
        if self.address is not None and self.engine == "local":
            raise ConfigError("an address needs --engine ray")


def on_this_machine(
    place: Execution, data: Interactions, jobs: Mapping[str, Job], started: Callable[[Job], None]
) -> Finished:
    """Run jobs in a pool of processes; a killed process ends the run with one sentence.

    With one process, or without joblib, they run sequentially in this process.
    """
    check_installed({job.method for job in jobs.values()})
    if place.processes == 1 or find_spec("joblib") is None:
        for name, job in jobs.items():
            started(job)
            yield _named_job(name, data, job)
        return
    from joblib import Parallel, delayed, parallel_config
    from joblib.externals.loky.process_executor import TerminatedWorkerError

    def calls() -> Iterator[Any]:  # read as processes become free
        for name, job in jobs.items():
            started(job)
            yield delayed(_named_job)(name, data, job)

    # the pool renews processes that have grown, and no job is lost by it
    warnings.filterwarnings("ignore", "A worker stopped while some jobs", UserWarning)
    try:
        with parallel_config(backend="loky", n_jobs=place.processes, inner_max_num_threads=1):
            pool = Parallel(return_as="generator_unordered", batch_size=1, pre_dispatch=place.processes)
            yield from pool(calls())
    except TerminatedWorkerError as error:
        raise IgcfError(f"a process was killed, perhaps for want of memory (then use fewer --jobs); {GO_ON}") from error


def check_installed(methods: Collection[str]) -> None:
    """Refuse methods without their packages, before the others have taken their time."""
    missing = {name: {each for each in method_named(name).packages if find_spec(each) is None} for name in methods}
    if unable := sorted(name for name, packages in missing.items() if packages):
        packages = sorted(set().union(*missing.values()))
        raise ConfigError(
            f"{' and '.join(packages)} not installed, which {', '.join(unable)} cannot do without; "
            "pip install 'igcf[train]', or name other methods with --methods"
        )


def on_ray(place: Execution, data: Interactions, jobs: Mapping[str, Job], started: Callable[[Job], None]) -> Finished:
    """Run jobs as Ray tasks, one processor each."""
    columns = (data.user_idx, data.item_idx, data.values, data.timestamps)
    size = sum(each.nbytes for each in columns if each is not None)
    with ray_cluster(place.address, n_cpus=place.processes, object_store_bytes=200_000_000 + 2 * size) as ray:
        shared = ray.put(data)  # owned by this process, so that it outlives workers
        task = ray.remote(num_cpus=1, max_retries=TRIES - 1)(_job_on_worker)
        running: dict[Any, str] = {}
        waiting = iter(jobs.items())
        while True:
            places = max(1, int(ray.cluster_resources().get("CPU", 0)))  # clusters grow and shrink
            for name, job in islice(waiting, max(0, places - len(running))):
                started(job)
                running[task.remote(shared, job, code_version())] = name
            if not running:
                return
            (ready,), _ = ray.wait(list(running), num_returns=1)
            name = running.pop(ready)
            try:
                outcomes = ray.get(ready)
            except ray.exceptions.RayTaskError as error:
                raise error.cause from None  # what the job itself had to say
            except ray.exceptions.RayError as error:
                raise IgcfError(f"{name} lost its worker {TRIES} times; {GO_ON}") from error
            yield name, outcomes


def _job_on_worker(data: Interactions, job: Job, version: str) -> list[Outcome]:
    if code_version() != version:
        raise IgcfError(
            f"the worker on {socket.gethostname()} has other sources of igcf than this process; use the same ones "
            "everywhere, and do not change them while jobs run"
        )
    return _named_job("", data, job)[1]


def _named_job(name: str, data: Interactions, job: Job) -> tuple[str, list[Outcome]]:
    with one_thread():
        return name, run_job(data, job)


@contextmanager
def one_thread() -> Iterator[None]:
    """Run linear algebra in one thread: sums in another order would make equal scores unequal."""
    with one_thread_for_new_libraries(), at_most_threads(1):
        yield


HERE = Execution()
"""Execution in this process, which saves nothing."""


def run_jobs(data: Interactions, jobs: Sequence[Job], execution: Execution = HERE) -> list[list[Outcome]]:
    """Run jobs about one log, equal ones once; returns the outcomes of all of them, in their order."""
    folder, fingerprint = execution.folder, data.fingerprint()
    if folder:
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            problem = error.strerror or error
            raise IgcfError(f"cannot keep results in {folder}: {problem}; choose another --out") from error
    done: dict[str, list[Outcome]] = {}
    todo: dict[str, Job] = {}
    names = [job_key(job, fingerprint) for job in jobs]

    def notify(job: Job, what: Literal["started", "finished", "kept"]) -> None:
        if execution.watch:
            execution.watch(Step(len(done), len(set(names)), job, what))

    for name, job in zip(names, jobs, strict=True):
        if name in done or name in todo:
            continue
        found = load_outcomes(job, folder / f"{name}.npz") if folder else None
        if found is None:
            todo[name] = job
        else:
            done[name] = found
            notify(job, "kept")
    runner = on_ray if execution.engine == "ray" else on_this_machine
    for name, outcomes in runner(execution, data, todo, lambda job: notify(job, "started")) if todo else ():
        if folder:
            save_outcomes(outcomes, folder / f"{name}.npz")
        done[name] = outcomes
        notify(todo[name], "finished")
    return [done[name] for name in names]
