"""Workers as actors of a Ray cluster, which form a gloo group; the calling process gives the orders."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

from torch.distributed import TCPStore  # type: ignore[attr-defined]

from igcf.errors import ConfigError, WorkerLostError
from igcf.training.sharded.meeting import PATIENCE_SECONDS, follow_environment, meet
from igcf.training.sharded.team import Team

OBJECT_STORE_BYTES = 100 << 20
"""Of a cluster started here; what the workers exchange does not go through it."""


class Follower:
    """What an actor does."""

    def process(self) -> int:
        """Its process, to name it by."""
        return os.getpid()

    def follow(self, variables: dict[str, str]) -> None:
        """Work until the caller says stop."""
        os.environ.update(variables)
        follow_environment(_own_address())


@contextmanager
def ray_team(n_workers: int | None, address: str | None) -> Iterator[Team]:
    """Actors on the cluster at `address`, or on one that is started here and ends with the block.

    Without `n_workers` there is one on each machine.
    """
    try:
        ray: Any = import_module("ray")
    except ImportError as error:
        raise ConfigError(f"engine=ray needs Ray ({error}); pip install 'igcf[scale]'") from error
    with _cluster(ray, address, n_workers or 1):
        n_workers = n_workers or sum(bool(node["Alive"]) for node in ray.nodes())
        kind = ray.remote(num_cpus=1, max_restarts=0, scheduling_strategy="SPREAD")(Follower)
        actors = [kind.remote() for _ in range(n_workers)]
        try:
            yield from _led(ray, actors)
        finally:
            for actor in actors:
                ray.kill(actor)


def _led(ray: Any, actors: list[Any]) -> Iterator[Team]:
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
        actor.follow.remote(
            {"RANK": str(rank), "WORLD_SIZE": str(size), "MASTER_ADDR": host, "MASTER_PORT": str(store.port)}
        )
        for rank, actor in enumerate(actors, start=1)
    ]

    def fate(seconds: float) -> str | None:
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
        if text := fate(0):
            raise WorkerLostError(text)

    try:
        group, _ = meet(store, 0, size, host=host, works=False, check=check)
        team = Team(group, store, n_workers=len(actors), coordinated=True)
        yield team
        team.stop()
        ray.wait(jobs, num_returns=len(jobs), timeout=PATIENCE_SECONDS)
    except WorkerLostError as error:
        raise WorkerLostError(fate(5.0) or str(error)) from error


def _own_address() -> str:
    """Of this machine, as the cluster knows it."""
    ray: Any = import_module("ray")
    return str(ray.util.get_node_ip_address())


@contextmanager
def _cluster(ray: Any, address: str | None, n_cpus: int) -> Iterator[None]:
    if ray.is_initialized():
        yield
        return
    options: dict[str, Any] = {"logging_level": "ERROR", "log_to_driver": False}
    if address is None:
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        options |= {
            "num_cpus": n_cpus,
            "object_store_memory": OBJECT_STORE_BYTES,
            "include_dashboard": False,
            "_node_ip_address": "127.0.0.1",
        }
    try:
        ray.init(address=address or "local", **options)
    except (ConnectionError, OSError, RuntimeError, ValueError) as error:
        where = "start a Ray cluster here" if address is None else f"reach the Ray cluster at {address}"
        raise ConfigError(f"cannot {where}: {str(error).strip().splitlines()[0]}") from error
    try:
        yield
    finally:
        ray.shutdown()
