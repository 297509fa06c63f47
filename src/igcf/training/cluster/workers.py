"""How many workers share a training of the default model, and what starts them."""

from dataclasses import dataclass
from typing import Literal, get_args

from igcf.config import Config, GraphConfig
from igcf.errors import ConfigError

Engine = Literal["local", "ray"]
ENGINES: tuple[str, ...] = get_args(Engine)


@dataclass(frozen=True)
class Workers:
    """Number of workers of a training, and the engine that starts them."""

    shards: int | None = None
    """Number of workers; None: one, or one per machine of a Ray cluster."""
    engine: Engine | None = None
    """What starts the workers; None: processes of this machine."""
    address: str | None = None
    """Address of a running Ray cluster; None: one is started on this machine."""

    @property
    def are_asked_for(self) -> bool:
        """Whether the caller asked for workers at all."""
        return self != Workers()

    def check(self, config: Config) -> None:
        """Refuse what cannot work before anything is read or started."""
        if isinstance(config, GraphConfig) and self.are_asked_for:
            raise ConfigError("the graph model is trained by one process; leave shards, engine and address out")
        if self.engine is not None and self.engine not in ENGINES:
            raise ConfigError(f"engine must be one of {', '.join(ENGINES)}, got {self.engine!r}")
        if self.address is not None and self.engine != "ray":
            raise ConfigError(f"an address is that of a Ray cluster: it needs engine=ray, got {self.engine or 'local'}")
        if self.shards is not None and self.shards < 1:
            raise ConfigError(f"shards must be at least 1, got {self.shards}")
