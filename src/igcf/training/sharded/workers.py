"""How many workers share a training, and what starts them; nothing here needs torch."""

import os
from dataclasses import dataclass
from typing import Literal, get_args

from igcf.config import PretrainConfig
from igcf.errors import ConfigError

Engine = Literal["local", "torchrun", "ray"]
ENGINES: tuple[str, ...] = get_args(Engine)


@dataclass(frozen=True)
class Workers:
    """Number of workers of a training, and the engine that starts them."""

    shards: int | None = None
    """Number of workers; None: one, or as many as the engine has machines or processes."""
    engine: Engine | None = None
    """What starts the workers; None: processes of this machine."""
    address: str | None = None
    """Address of a running Ray cluster; None: one is started on this machine."""

    @property
    def are_asked_for(self) -> bool:
        """Whether the caller asked for workers at all; only the graph model can be shared."""
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
