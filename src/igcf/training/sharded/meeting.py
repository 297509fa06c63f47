"""How the processes of a job find each other and share the cores of their machines."""

import os
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta

import torch
from torch.distributed import Store  # type: ignore[attr-defined]
from torch.distributed.rendezvous import rendezvous

from igcf.errors import WorkerLostError
from igcf.graph.sparse_products import compiled
from igcf.training.sharded.group import Group
from igcf.training.sharded.team import follow

PATIENCE_SECONDS = 120
"""How long the others may take to start."""


def meet(
    store: Store,
    rank: int,
    size: int,
    *,
    host: str | None = None,
    works: bool = True,
    check: Callable[[], None] = lambda: None,
) -> tuple[Group, int]:
    """Wait for all ranks and connect with them; `check` may raise meanwhile.

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
        raise WorkerLostError(f"the workers' meeting point is gone ({str(error).splitlines()[0]})") from error
    group = Group(store, rank, size, host=host)
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return group, max(cores // max(machines.count(machines[rank]), 1), 1)


@contextmanager
def at_most_threads(number: int) -> Iterator[None]:
    """Fewer threads for torch and the compiled kernels."""
    in_torch = torch.get_num_threads()
    torch.set_num_threads(min(in_torch, number))
    if compiled() is None:
        yield
        torch.set_num_threads(in_torch)
        return
    import numba

    in_kernels = numba.get_num_threads()
    numba.set_num_threads(min(in_kernels, number))
    try:
        yield
    finally:
        torch.set_num_threads(in_torch)
        numba.set_num_threads(in_kernels)


def environment_store() -> tuple[Store, int, int]:
    """The meeting point, rank and number of processes that torchrun's variables name."""
    store, rank, size = next(iter(rendezvous("env://", timeout=timedelta(seconds=PATIENCE_SECONDS))))
    return store, rank, size


def follow_environment(host: str | None = None) -> None:
    """Be a worker of the job that torchrun's variables (RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT) name."""
    store, rank, size = environment_store()
    try:
        group, threads = meet(store, rank, size, host=host)
    except WorkerLostError:  # rank 0 says what happened
        return
    with at_most_threads(threads):
        follow(group, store)
