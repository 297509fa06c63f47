"""Where the workers of a training run."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal, get_args

from igcf.config import PretrainConfig
from igcf.errors import ConfigError
from igcf.training.sharded.team import Team

Engine = Literal["local", "torchrun", "ray"]
ENGINES: tuple[str, ...] = get_args(Engine)


@dataclass(frozen=True)
class Workers:
    """How many workers share a training, and what starts them."""

    shards: int | None = None
    """None: one, or as many as the engine has machines or processes."""
    engine: Engine | None = None
    """Processes of this machine unless said otherwise."""
    address: str | None = None
    """Of a running Ray cluster; None: one is started on this machine."""

    @property
    def are_asked_for(self) -> bool:
        """Whether anything was said; only the graph model can be shared."""
        return self != Workers()

    def check(self, config: PretrainConfig) -> None:
        """Refuse what cannot work before anything is read or started."""
        if self.engine is not None and self.engine not in ENGINES:
            raise ConfigError(f"engine must be one of {', '.join(ENGINES)}, got {self.engine!r}")
        if self.shards is not None and not 1 <= self.shards <= config.dim:
            raise ConfigError(
                f"shards must be between 1 and dim={config.dim}, got {self.shards}; a worker holds at least one column"
            )
        if self.address is not None and self.engine != "ray":
            raise ConfigError(f"an address is that of a Ray cluster: it needs engine=ray, got {self.engine or 'local'}")
        if self.are_asked_for and config.device != "cpu":
            raise ConfigError(f"several workers compute on the CPU; got device={config.device}")
        if self.engine == "torchrun" and "RANK" not in os.environ:
            raise ConfigError("engine=torchrun is for processes that torchrun started: torchrun ... -m igcf pretrain")

    @property
    def follows(self) -> bool:
        """Whether torchrun started this process as one that takes orders."""
        return self.engine == "torchrun" and os.environ.get("RANK", "0") != "0"


@contextmanager
def team_of(workers: Workers) -> Iterator[Team]:
    """Start the workers, end them with the block."""
    if workers.engine == "ray":
        from igcf.training.sharded.cluster import ray_team

        with ray_team(workers.shards, workers.address) as team:
            yield team
    elif workers.engine == "torchrun":
        with torchrun_team(workers.shards) as team:
            yield team
    elif (workers.shards or 1) > 1:
        from igcf.training.sharded.local import local_team

        with local_team(workers.shards or 1) as team:
            yield team
    else:
        yield Team()


@contextmanager
def torchrun_team(shards: int | None) -> Iterator[Team]:
    """The processes that torchrun started; this is the first one."""
    from igcf.training.sharded.meeting import at_most_threads, environment_store, meet

    store, rank, size = environment_store()
    if shards is not None and shards != size:
        raise ConfigError(f"torchrun started {size} processes, shards={shards}; leave shards out")
    group, threads = meet(store, rank, size)
    with at_most_threads(threads):
        team = Team(group, store, n_workers=size)
        try:
            yield team
        finally:
            team.stop()
