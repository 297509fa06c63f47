"""How many workers share a training, and what starts them; nothing here needs torch."""

import os
from dataclasses import dataclass
from typing import Literal, get_args

from igcf.config import Config, GraphConfig
from igcf.errors import ConfigError

Engine = Literal["local", "ray", "dask", "torchrun"]
ENGINES: tuple[str, ...] = get_args(Engine)
GRAPH_ENGINES, EXPERTS_ENGINES = ("local", "torchrun", "ray"), ("local", "ray", "dask")
"""Engines of the graph model, and of the default model."""


@dataclass(frozen=True)
class Workers:
    """Number of workers of a training, and the engine that starts them."""

    shards: int | None = None
    """Number of workers; None: one, or as many as the engine has machines or processes."""
    engine: Engine | None = None
    """What starts the workers; None: processes of this machine."""
    address: str | None = None
    """Address of a running Ray or Dask cluster; None: one is started on this machine."""

    @property
    def are_asked_for(self) -> bool:
        """Whether the caller asked for workers at all."""
        return self != Workers()

    def check(self, config: Config) -> None:
        """Refuse what cannot work before anything is read or started."""
        is_graph = isinstance(config, GraphConfig)
        possible = GRAPH_ENGINES if is_graph else EXPERTS_ENGINES
        if self.engine is not None and self.engine not in possible:
            model = "the graph model" if is_graph else "the default model"
            raise ConfigError(f"engine must be one of {', '.join(possible)} for {model}, got {self.engine!r}")
        if self.address is not None and self.engine not in ("ray", "dask"):
            raise ConfigError(
                f"an address is that of a cluster: it needs engine=ray or engine=dask, got {self.engine or 'local'}"
            )
        if not isinstance(config, GraphConfig):
            if self.shards is not None and self.shards < 1:
                raise ConfigError(f"shards must be at least 1, got {self.shards}")
            return
        if self.shards is not None and not 1 <= self.shards <= config.dim:
            raise ConfigError(
                f"shards must be between 1 and dim={config.dim}, got {self.shards}; a worker holds at least one column"
            )
        if self.are_asked_for and config.device != "cpu":
            raise ConfigError(f"several workers compute on the CPU; got device={config.device}")
        if self.engine == "torchrun" and "RANK" not in os.environ:
            raise ConfigError("engine=torchrun is for processes that torchrun started: torchrun ... -m igcf pretrain")
