"""How the processes of a distributed training find each other and share the cores of their machines."""

import os
import socket
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from datetime import timedelta

from torch.distributed import Store  # type: ignore[attr-defined]
from torch.distributed.rendezvous import rendezvous as torch_rendezvous

from igcf.errors import WorkerLostError
from igcf.graph.sparse_products import compiled
from igcf.threads import at_most_threads
from igcf.training.cluster.group import Group
from igcf.training.cluster.team import worker_loop

PATIENCE_SECONDS = 120
"""Seconds that the other processes may take to start."""


def rendezvous(
    store: Store,
    rank: int,
    size: int,
    *,
    host: str | None = None,
    works: bool = True,
    check: Callable[[], None] = lambda: None,
) -> tuple[Group, int]:
    """Wait for all ranks and connect with them; `check` is called meanwhile and may raise.

    Returns the connections, and how many threads this process may use: the cores of a machine are shared by the
    ranks on it that work.
    """
    keys = [f"here/{other}" for other in range(size)]
    begun = time.monotonic()
    try:
        store.set(keys[rank], socket.gethostname() if works else "-")
        while not store.check(keys):
            check()
            if time.monotonic() - begun > PATIENCE_SECONDS:
                here = sum(store.check([key]) for key in keys)
                raise WorkerLostError(f"only {here} of {size} processes started within {PATIENCE_SECONDS} s")
            time.sleep(0.02)
        machines = [store.get(key).decode() for key in keys]
    except RuntimeError as error:
        raise WorkerLostError(f"the workers' store is gone ({str(error).splitlines()[0]})") from error
    group = Group(store, rank, size, host=host)
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return group, max(cores // max(machines.count(machines[rank]), 1), 1)


def worker_threads(number: int) -> AbstractContextManager[None]:
    """Let torch and the compiled sparse products use at most `number` threads."""
    compiled()  # loads numba where it is installed, so that it can be limited
    return at_most_threads(number, ("numba", "torch"))


def environment_store() -> tuple[Store, int, int]:
    """Return the store, rank and number of processes that torchrun's variables name."""
    store, rank, size = next(iter(torch_rendezvous("env://", timeout=timedelta(seconds=PATIENCE_SECONDS))))
    return store, rank, size


def work_for_environment(host: str | None = None) -> None:
    """Work for the job that torchrun's variables (RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT) name."""
    store, rank, size = environment_store()
    try:
        group, threads = rendezvous(store, rank, size, host=host)
    except WorkerLostError:  # rank 0 says what happened
        return
    with worker_threads(threads):
        worker_loop(group, store)
