"""Run jobs in processes of this machine or on a Ray cluster, with the same numbers, skipping those that are saved."""

import socket
import warnings
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from typing import Any, Literal, NamedTuple

from igcf.data import Interactions
from igcf.errors import ConfigError, IgcfError
from igcf.lab.baselines import method_named
from igcf.lab.evaluate.jobs import code_version, job_key, load_outcomes, run_job, save_outcomes, sharing_key
from igcf.lab.evaluate.protocols import Job, Outcome
from igcf.lab.evaluate.protocols.fits import Fits
from igcf.threads import at_most_threads, one_thread_for_new_libraries
from igcf.training.cluster.ray_cluster import ray_cluster

TRIES = 4
"""Number of times a job is begun at most: more lost workers than that are the job's fault, memory for instance."""
GO_ON = "finished parts are kept; the same command resumes there"

Work = tuple[Interactions, Job]
"""A job and the log that it is about."""
Group = dict[str, Job]
"""Jobs about one log by name, which run in turn because they may share a fit."""
Groups = Iterator[list[tuple[str, list[Outcome]]]]
"""Names and outcomes of the jobs of each group, as groups are finished, in any order."""


class Finished(NamedTuple):
    """A finished job."""

    places: list[int]
    """Where the job was in what was to run; an equal job is run once."""
    outcomes: list[Outcome]
    was_kept: bool
    """Whether it was finished before."""


@dataclass(frozen=True)
class Step:
    """Event of a run: a job was started, was finished, or its outcome of an earlier run was reused."""

    done: int
    total: int
    job: Job
    what: Literal["started", "finished", "reused"]


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
    place: Execution, groups: Sequence[tuple[Interactions, Group]], started: Callable[[Group], None]
) -> Groups:
    """Run groups of jobs in a pool of processes; a killed process ends the run with one sentence.

    With one process, or without joblib, they run sequentially in this process.
    """
    check_installed({job.method for _, jobs in groups for job in jobs.values()})
    if place.processes == 1 or find_spec("joblib") is None:
        for data, jobs in groups:
            started(jobs)
            yield _run_group(data, jobs)
        return
    from joblib import Parallel, delayed, parallel_config
    from joblib.externals.loky.process_executor import TerminatedWorkerError

    def calls() -> Iterator[Any]:  # read as processes become free
        for data, jobs in groups:
            started(jobs)
            yield delayed(_run_group)(data, jobs)

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


def on_ray(place: Execution, groups: Sequence[tuple[Interactions, Group]], started: Callable[[Group], None]) -> Groups:
    """Run groups of jobs as Ray tasks, one processor each."""
    logs = {id(data): data for data, _ in groups}
    columns = [each for log in logs.values() for each in (log.user_idx, log.item_idx, log.values, log.timestamps)]
    size = sum(each.nbytes for each in columns if each is not None)
    with ray_cluster(place.address, n_cpus=place.processes, object_store_bytes=200_000_000 + 2 * size) as ray:
        shared = {own: ray.put(log) for own, log in logs.items()}  # owned by this process, so that they outlive workers
        task = ray.remote(num_cpus=1, max_retries=TRIES - 1)(_group_on_worker)
        running: dict[Any, str] = {}
        waiting = iter(groups)
        while True:
            places = max(1, int(ray.cluster_resources().get("CPU", 0)))  # clusters grow and shrink
            for data, jobs in islice(waiting, max(0, places - len(running))):
                started(jobs)
                running[task.remote(shared[id(data)], jobs, code_version())] = ", ".join(jobs)
            if not running:
                return
            (ready,), _ = ray.wait(list(running), num_returns=1)
            names = running.pop(ready)
            try:
                outcomes = ray.get(ready)
            except ray.exceptions.RayTaskError as error:
                raise error.cause from None  # what the job itself had to say
            except ray.exceptions.RayError as error:
                raise IgcfError(f"{names} lost its worker {TRIES} times; {GO_ON}") from error
            yield outcomes


def _group_on_worker(data: Interactions, jobs: Group, version: str) -> list[tuple[str, list[Outcome]]]:
    if code_version() != version:
        raise IgcfError(
            f"the worker on {socket.gethostname()} has other sources of igcf than this process; use the same ones "
            "everywhere, and do not change them while jobs run"
        )
    return _run_group(data, jobs)


def _run_group(data: Interactions, jobs: Group) -> list[tuple[str, list[Outcome]]]:
    fits = Fits()
    with one_thread():
        return [(name, run_job(data, job, fits)) for name, job in jobs.items()]


@contextmanager
def one_thread() -> Iterator[None]:
    """Run linear algebra in one thread: sums in another order would make equal scores unequal."""
    with one_thread_for_new_libraries(), at_most_threads(1):
        yield


HERE = Execution()
"""Execution in this process, which saves nothing."""


def run_jobs(data: Interactions, jobs: Sequence[Job], execution: Execution = HERE) -> list[list[Outcome]]:
    """Run jobs about one log; returns the outcomes of all of them, in their order."""
    found: dict[int, list[Outcome]] = {}
    for each in run_work([(data, job) for job in jobs], execution):
        found |= dict.fromkeys(each.places, each.outcomes)
    return [found[place] for place in range(len(jobs))]


def run_work(work: Sequence[Work], execution: Execution = HERE) -> Iterator[Finished]:
    """Run jobs about any logs, equal ones once, and yield each as it is finished.

    They begin in the order of `work`, but jobs that may share a fit run in turn, in one process.
    """
    fingerprints = {id(data): data.fingerprint() for data in {id(data): data for data, _ in work}.values()}
    places: dict[str, list[int]] = {}
    for place, (data, job) in enumerate(work):
        places.setdefault(job_key(job, fingerprints[id(data)]), []).append(place)
    file_of, n_done = _files(execution.folder), 0

    def notify(what: Literal["started", "finished", "reused"], *names: str) -> None:
        for name in names if execution.watch else ():
            execution.watch(Step(n_done, len(places), work[places[name][0]][1], what))  # type: ignore[misc]

    groups: dict[str, tuple[Interactions, Group]] = {}
    for name, own in places.items():
        data, job = work[own[0]]
        found = load_outcomes(job, file_of(name)) if execution.folder else None
        if found is None:
            groups.setdefault(sharing_key(job, fingerprints[id(data)]), (data, {}))[1][name] = job
            continue
        n_done += 1
        notify("reused", name)
        yield Finished(own, found, was_kept=True)
    runner = on_ray if execution.engine == "ray" else on_this_machine
    for group in runner(execution, list(groups.values()), lambda jobs: notify("started", *jobs)) if groups else ():
        for name, outcomes in group:
            if execution.folder:
                save_outcomes(outcomes, file_of(name))
            n_done += 1
            notify("finished", name)
            yield Finished(places[name], outcomes, was_kept=False)


def _files(folder: Path | None) -> Callable[[str], Path]:
    """Return where the outcomes of a job are saved, by its name, after making the folder."""
    if folder:
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            problem = error.strerror or error
            raise IgcfError(f"cannot keep results in {folder}: {problem}; choose another --out") from error
    return lambda name: (folder or Path()) / f"{name}.npz"
