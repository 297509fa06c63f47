"""Settings of the service: one typed definition, frozen and checked; where their values come from is in `sources`."""

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BeforeValidator, Field, ValidationError, model_validator
from pydantic_settings import BaseSettings, NoDecode, PydanticBaseSettingsSource, SettingsConfigDict

from igcf.errors import ConfigError
from igcf.service.models.validation_messages import mistake

if TYPE_CHECKING:
    from igcf.online import Rules

CEILINGS: dict[str, float] = {"max_nu": 10.0, "max_k": 100, "max_list": 10_000, "max_batch": 1_000, "max_items": 10_000}
"""What the OpenAPI document promises at most; settings may lower it."""


def _split(value: Any) -> Any:
    """Read a list as an environment variable has it: names with commas between them."""
    return [part.strip() for part in value.split(",") if part.strip()] if isinstance(value, str) else value


Names = Annotated[tuple[str, ...], NoDecode, BeforeValidator(_split)]
Count = Annotated[int, Field(ge=1)]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
LogLevel = Literal["debug", "info", "warning", "error"]
IndexChoice = Literal["auto", "exact", "lists"]


class ServiceSettings(BaseSettings):
    """Settings of one server; built in Python, they are read from neither environment nor files.

    Example:
        >>> from igcf.service.settings import ServiceSettings
        >>> ServiceSettings(store="igcf.db", workers=2).port
        8000
    """

    model_config = SettingsConfigDict(
        frozen=True,
        extra="forbid",
        env_prefix="IGCF_",
        env_ignore_empty=True,
        use_attribute_docstrings=True,
        protected_namespaces=(),
    )

    model: str | None = None
    """Folder of the model to serve where the store has announced none."""
    store: str = "igcf.db"
    """A SQLite file or postgresql://USER@HOST/DB (its password in the environment or in a file)."""
    store_password_file: str | None = None
    """File with the password of the PostgreSQL store."""
    host: str = "127.0.0.1"
    """Address to listen on."""
    port: int = 8000
    """Port to listen on; 0: any free one."""
    workers: Count = 1
    """Server processes."""
    policy: str | None = None
    """Policy that chooses items when a request names none; unset: as the model says."""
    nu: float | None = None
    """Exploration of `policy` when a request does not say; unset: as the model says."""
    explore: float = 0.0
    """Share of the slots drawn among the 10 best items left, with known propensities; 0: none."""
    index: IndexChoice = "auto"
    """What is scored for an answer: exact, all items; lists, candidates of an index; auto, the latter if it pays."""
    forgetting: float = 1.0
    """Weight that earlier reactions keep with every new one; 1 never forgets."""
    skip_rounds: Count = 20
    """Reactions and skips after which a skipped item may be shown again."""
    skip_hours: Positive = 24.0
    """Hours after which a skipped item may be shown again, if that is sooner."""
    max_nu: float = CEILINGS["max_nu"]
    """Exploration that a request may ask for."""
    max_k: Count = int(CEILINGS["max_k"])
    """Items in one answer."""
    max_list: Count = int(CEILINGS["max_list"])
    """Entries of `exclude` and of `candidates`."""
    max_batch: Count = int(CEILINGS["max_batch"])
    """Reactions in one batch."""
    max_body: Count = 2_000_000
    """Bytes of a request body."""
    body_timeout_s: Positive = 10.0
    """Seconds that the body of a request may take to arrive; slower requests are dropped."""
    header_timeout_s: Positive = 10.0
    """A connection that takes longer to send the head of a request, or what is left of a refused one, is closed."""
    send_timeout_s: Positive = 30.0
    """A connection that takes no part of its answer for so long is closed."""
    max_connections: Count = 512
    """Open connections, per process; more are answered 503."""
    max_in_flight: Count = 64
    """Requests in work, per process, reads and writes counted apart; more are answered 503."""
    request_timeout_s: Positive = 10.0
    """A request that computes longer is ended; one for many users answers for those it has reached."""
    store_wait_s: Positive = 5.0
    """A request that waits longer for its turn to write, or for an answer of the store, is answered 503."""
    threads: Count = 4
    """Requests computed at a time, per process; the others wait in line."""
    hot_users: Count = 5_000
    """Number of users with scores kept in memory, per process."""
    hot_megabytes: Count = 256
    """Megabytes for those users; the limit that is reached first applies."""
    audit_queue: Count = 10_000
    """Answers that may wait to be written to the audit log, per process."""
    audit_days: Positive = 90.0
    """Days after which answers are deleted from the audit."""
    api_key_file: str | None = None
    """File with lines of 'server KEY', 'admin KEY' and 'page SECRET'; read again when it changes."""
    cors_origins: Names = ()
    """Origins of pages that may call."""
    allowed_hosts: Names = ()
    """Names under which the server may be called; empty: loopback names on loopback, else any."""
    models: str | None = None
    """Folder below which POST /v1/model may load models; unset: the folder that holds the first model."""
    rules: str | None = None
    """JSON file of rules that every answer keeps to, beside those of its request."""
    no_reaction_after: str | None = None
    """Time, such as 30m, after which an item that was shown and drew nothing counts as ignored; unset: never."""
    images: str | None = None
    """Folder of the pictures that the items' `image` names, shown to everybody; unset: covers are drawn."""
    max_items: Count = int(CEILINGS["max_items"])
    """Items in one batch."""
    max_items_body: Count = 20_000_000
    """Bytes of a request body that describes items."""
    log_level: LogLevel = "info"
    """How much is logged."""

    def __init__(self, **values: Any) -> None:
        """Check the values; a mistake is one sentence that begins with the name of the setting."""
        try:
            super().__init__(**values)
        except ValidationError as error:
            raise ConfigError(str(mistake(error.errors(include_url=False)))) from error

    @classmethod
    def settings_customise_sources(
        cls, settings_cls: type[BaseSettings], init_settings: PydanticBaseSettingsSource, *_: Any, **__: Any
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Take what the caller gives and nothing else."""
        return (init_settings,)

    @model_validator(mode="after")
    def _check(self) -> "ServiceSettings":
        """Refuse what cannot work, naming the setting, what was found and what was expected."""
        from igcf.online.exploration import checked_share  # imports NumPy: set its threads before
        from igcf.online.policies import named_policy

        if not self.store:  # as a variable of a script that is not set leaves it: it would name the folder here
            raise ConfigError("store: expected a name, got an empty text")
        checked_share(self.explore)
        named_policy("ucb" if self.policy is None else self.policy, nu=self.nu)
        for name, ceiling in (CEILINGS | {"port": 65535, "workers": 64}).items():
            if not 0 <= getattr(self, name) <= ceiling:
                raise ConfigError(f"{name} must be at most {ceiling}, got {getattr(self, name)}")
        if (self.no_reaction_s or 1.0) > 86_400 * self.audit_days:
            raise ConfigError(f"no_reaction_after is {self.no_reaction_after}; the audit forgets answers before that")
        if not 0 < self.forgetting <= 1:
            raise ConfigError(f"forgetting must be in (0, 1], got {self.forgetting}; 1 never forgets")
        if not 0 <= (self.nu or 0.0) <= self.max_nu < float("inf"):
            raise ConfigError(f"nu must be between 0 and max_nu = {self.max_nu}, got {self.nu}")
        return self

    def read_rules(self) -> "Rules | None":
        """Read the rules that every answer keeps to."""
        from igcf.online.rules import read_rules

        return None if self.rules is None else read_rules(Path(self.rules))

    @property
    def no_reaction_s(self) -> float | None:
        """Seconds after which an item without a reaction counts as ignored; None: never."""
        if self.no_reaction_after is None:
            return None
        found = re.fullmatch(r"(\d{1,9})([smhd])", self.no_reaction_after)
        if found is None or not int(found[1]):
            wanted = "expected a number above 0 with s, m, h or d, such as 30m"
            raise ConfigError(f"no_reaction_after: {wanted}, got {self.no_reaction_after!r}")
        return float(int(found[1]) * {"s": 1, "m": 60, "h": 3_600, "d": 86_400}[found[2]])

    def changed(self, **values: Any) -> "ServiceSettings":
        """Make settings that differ in some values."""
        return ServiceSettings(**self.model_dump() | values)
