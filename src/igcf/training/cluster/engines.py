"""Starts the workers of a training on the engine that the caller asked for."""

from collections.abc import Iterator
from contextlib import contextmanager

from igcf.errors import ConfigError
from igcf.training.cluster.team import Team
from igcf.training.cluster.workers import Workers


@contextmanager
def open_team(workers: Workers) -> Iterator[Team]:
    """Start the workers, and end them with the block."""
    if workers.engine == "ray":
        from igcf.training.cluster.cluster import ray_team

        with ray_team(workers.shards, workers.address) as team:
            yield team
    elif workers.engine == "torchrun":
        with torchrun_team(workers.shards) as team:
            yield team
    elif (workers.shards or 1) > 1:
        from igcf.training.cluster.local import local_team

        with local_team(workers.shards or 1) as team:
            yield team
    else:
        yield Team()


@contextmanager
def torchrun_team(shards: int | None) -> Iterator[Team]:
    """Lead the processes that torchrun started; this one is rank 0."""
    from igcf.training.cluster.rendezvous import environment_store, rendezvous, worker_threads

    store, rank, size = environment_store()
    if shards is not None and shards != size:
        raise ConfigError(f"torchrun started {size} processes, shards={shards}; leave shards out")
    group, threads = rendezvous(store, rank, size)
    with worker_threads(threads):
        team = Team(group, store, n_workers=size)
        try:
            yield team
        finally:
            team.stop()
