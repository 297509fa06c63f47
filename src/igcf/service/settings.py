"""Frozen, validated settings of the service; `igcf serve` fills them, worker processes receive them as JSON."""

import json
from dataclasses import asdict, dataclass
from typing import Any

from igcf.errors import ConfigError
from igcf.online.policies import named_policy

CEILINGS: dict[str, float] = {"max_nu": 10.0, "max_k": 100, "max_list": 10_000, "max_batch": 1_000, "max_items": 10_000}
"""What the OpenAPI document promises at most; settings may lower it."""


@dataclass(frozen=True, kw_only=True)
class ServiceSettings:
    """What one server process is allowed to do."""

    store: str = "igcf.db"
    """A SQLite file or a database URL."""
    policy: str | None = None
    """How items are chosen when a request does not say; None: as the model says."""
    nu: float | None = None
    """Exploration of `ucb` when a request does not say; None: as the model says."""
    forgetting: float = 1.0
    """Weight that earlier reactions keep with every new one; 1 never forgets."""
    skip_rounds: int = 20
    """Reactions and skips after which a skipped item may be shown again."""
    skip_hours: float = 24.0
    """Hours after which a skipped item may be shown again, if that comes first."""
    max_nu: float = CEILINGS["max_nu"]
    max_k: int = int(CEILINGS["max_k"])
    max_list: int = int(CEILINGS["max_list"])
    """Entries of `exclude` and of `candidates`."""
    max_batch: int = int(CEILINGS["max_batch"])
    """Reactions in one batch."""
    max_body: int = 2_000_000
    """Bytes of a request body."""
    body_timeout_s: float = 10.0
    """A request whose body takes longer to arrive is dropped."""
    header_timeout_s: float = 10.0
    """A connection that takes longer to send the head of a request, or what is left of a refused one, is closed."""
    send_timeout_s: float = 30.0
    """A connection that takes no part of its answer for so long is closed."""
    max_connections: int = 512
    """Open connections, per process; more are answered 503."""
    max_connections_per_address: int = 128
    """Open connections of one address, per process; more are answered 503."""
    max_in_flight: int = 64
    """Requests in work at a time, per process, those that change something and the others counted apart.

    More are answered 503 with Retry-After."""
    store_wait_s: float = 5.0
    """A request that waits longer for its turn to write, or for an answer of the store, is answered 503."""
    threads: int = 4
    """Requests computed at a time, per process; the others wait in line."""
    hot_users: int = 5_000
    """Users whose scores are kept in memory, per process."""
    hot_megabytes: int = 256
    """Memory for those users; whichever of the two limits is met first counts."""
    audit_queue: int = 10_000
    """Answers that may wait to be written to the audit log, per process."""
    api_key_file: str | None = None
    cors_origins: tuple[str, ...] = ()
    allowed_hosts: tuple[str, ...] = ()
    """Names under which the server may be called (`Host`), without ports; empty: any."""
    models_root: str | None = None
    """Folder below which `POST /v1/model` may load models; None: the parent of the first model's folder."""
    rules: str | None = None
    """JSON file of rules that every answer keeps to, beside those of its request."""
    max_items: int = int(CEILINGS["max_items"])
    """Items in one batch."""
    max_items_body: int = 20_000_000
    """Bytes of a request body that describes items."""
    log_level: str = "info"

    def __post_init__(self) -> None:
        """Refuse what cannot work, naming the field, what was found and what was expected."""
        nu = 0.0 if self.nu is None else self.nu
        named_policy("ucb" if self.policy is None else self.policy, nu=nu)
        counts = (
            "max_k max_list max_batch max_body max_in_flight max_connections max_connections_per_address threads "
            "hot_users hot_megabytes audit_queue skip_rounds max_items max_items_body"
        )
        for name in counts.split():
            if getattr(self, name) < 1:
                raise ConfigError(f"{name} must be at least 1, got {getattr(self, name)}")
        for name, ceiling in CEILINGS.items():
            if getattr(self, name) > ceiling:
                raise ConfigError(f"{name} must be at most {ceiling}, got {getattr(self, name)}")
        if not self.skip_hours > 0:
            raise ConfigError(f"skip_hours must be above 0, got {self.skip_hours}")
        for name in ("body_timeout_s", "header_timeout_s", "send_timeout_s", "store_wait_s"):
            if not 0 < getattr(self, name) < float("inf"):
                raise ConfigError(f"{name} must be a positive number of seconds, got {getattr(self, name)}")
        if not 0 < self.forgetting <= 1:
            raise ConfigError(f"forgetting must lie in (0, 1], got {self.forgetting}; 1 never forgets")
        if not 0 <= nu <= self.max_nu < float("inf"):
            raise ConfigError(f"nu must lie between 0 and max_nu = {self.max_nu}, got {self.nu}")

    def to_json(self) -> str:
        """The settings as one line; holds the path of the key file, never a key, and may hold a database's password."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> "ServiceSettings":
        """The settings that `to_json` wrote."""
        fields: dict[str, Any] = json.loads(text)
        return cls(**fields | {name: tuple(fields[name]) for name in ("cors_origins", "allowed_hosts")})
