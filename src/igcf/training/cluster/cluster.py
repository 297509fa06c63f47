"""Workers as actors of a Ray cluster, which form a gloo group; the calling process gives the orders."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

from torch.distributed import TCPStore  # type: ignore[attr-defined]

from igcf.errors import ConfigError, WorkerLostError
from igcf.training.cluster.ray_cluster import ray_cluster
from igcf.training.cluster.rendezvous import PATIENCE_SECONDS, rendezvous, work_for_environment
from igcf.training.cluster.team import Team

OBJECT_STORE_BYTES = 100 << 20
"""Shared memory of a cluster started here; what the workers exchange does not go through it."""


class RayWorker:
    """An actor of a Ray cluster that works for rank 0."""

    def process(self) -> int:
        """Return the number of the process, to name the worker by."""
        return os.getpid()

    def work(self, variables: dict[str, str]) -> None:
        """Work until rank 0 says stop."""
        os.environ.update(variables)
        work_for_environment(_own_address())


@contextmanager
def ray_team(n_workers: int | None, address: str | None) -> Iterator[Team]:
    """Start actors on the cluster at `address`, or on one that is started here and ends with the block.

    Without `n_workers` there is one on each machine.
    """
    with ray_cluster(address, n_cpus=n_workers or 1, object_store_bytes=OBJECT_STORE_BYTES) as ray:
        n_workers = n_workers or sum(bool(node["Alive"]) for node in ray.nodes())
        kind = ray.remote(num_cpus=1, max_restarts=0, scheduling_strategy="SPREAD")(RayWorker)
        actors = [kind.remote() for _ in range(n_workers)]
        try:
            yield from _drive(ray, actors)
        finally:
            for actor in actors:
                ray.kill(actor)


def _drive(ray: Any, actors: list[Any]) -> Iterator[Team]:
    """Connect the actors with this process, give the orders, and report who was lost."""
    size = len(actors) + 1
    names = [actor.process.remote() for actor in actors]
    ready, _ = ray.wait(names, num_returns=len(names), timeout=PATIENCE_SECONDS)
    if len(ready) < len(names):
        raise ConfigError(
            f"the Ray cluster has room for {len(ready)} of {len(names)} workers; each needs one CPU, lower shards"
        )
    pids = ray.get(names)
    host = _own_address()
    store = TCPStore(host, 0, size, is_master=True, wait_for_workers=False)
    jobs = [
        actor.work.remote(
            {"RANK": str(rank), "WORLD_SIZE": str(size), "MASTER_ADDR": host, "MASTER_PORT": str(store.port)}
        )
        for rank, actor in enumerate(actors, start=1)
    ]

    def exit_reason(seconds: float) -> str | None:
        ended, _ = ray.wait(jobs, num_returns=len(jobs), timeout=seconds)
        for job in ended:
            try:
                ray.get(job)
            except ray.exceptions.RayError as error:
                number = jobs.index(job)
                reason = type(error).__name__
                return f"worker {number + 1} of {len(jobs)} (process {pids[number]} on the Ray cluster) died ({reason})"
        return None

    def check() -> None:
        if text := exit_reason(0):
            raise WorkerLostError(text)

    try:
        group, _ = rendezvous(store, 0, size, host=host, works=False, check=check)
        team = Team(group, store, n_workers=len(actors), coordinated=True)
        yield team
        team.stop()
        ray.wait(jobs, num_returns=len(jobs), timeout=PATIENCE_SECONDS)
    except WorkerLostError as error:
        raise WorkerLostError(exit_reason(5.0) or str(error)) from error


def _own_address() -> str:
    """Return the address of this machine as the cluster knows it."""
    ray: Any = import_module("ray")
    return str(ray.util.get_node_ip_address())
