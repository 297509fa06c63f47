"""Where the settings of a server come from: options, then the environment, then a TOML file, then the defaults."""

import json
import os
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from pydantic_settings import EnvSettingsSource, TomlConfigSettingsSource

from igcf.errors import ConfigError, refuse_other_than_file
from igcf.service.settings import ServiceSettings
from igcf.service.store.urls import PASSWORDS, database_url, printed_store

FILE_VARIABLE = "IGCF_CONFIG"
OTHER_VARIABLES = {f"IGCF_{name}" for name in ("CACHE_DIR", "COMPILED", "DATA_DIR", "PLAIN_LOOPS", "API_KEY", "CONFIG")}
"""Variables that are not settings of a server."""


@dataclass(frozen=True)
class LoadedSettings:
    """Settings and the origin of each: an option, a variable, a file, or `default`."""

    settings: ServiceSettings
    origins: Mapping[str, str]
    notes: tuple[str, ...] = ()  # variables that look like misspelt settings

    def described(self) -> dict[str, dict[str, Any]]:
        """Values and origins by name, passwords masked."""
        values = self.settings.model_dump() | {"store": printed_store(self.settings.store)}
        return {name: {"value": value, "from": self.origins[name]} for name, value in values.items()}

    def toml(self) -> str:
        """The settings as a file that `--config` reads; one that is unset is a comment."""
        lines = ["# Settings in force, and where each comes from; a file of this form is read by --config."]
        for name, each in self.described().items():
            value = each["value"]
            is_unset = value is None or (name == "store" and value != self.settings.store)  # it has a password
            text = f"# {name} = {'(unset)' if value is None else value}" if is_unset else f"{name} = {_toml(value)}"
            lines.append(f"{text}  # {each['from']}")
        return "\n".join(lines) + "\n"


def load_settings(
    options: Mapping[str, Any], *, file: Path | None = None, flags: Mapping[str, str] | None = None
) -> LoadedSettings:
    """Read the settings from all places: options that were given, variables, and a TOML file (or that of IGCF_CONFIG).

    `flags` says what an option is called where that is not the setting with hyphens.
    """
    if file is None and os.environ.get(FILE_VARIABLE):
        file = Path(os.environ[FILE_VARIABLE])
    if "store" in options:
        refuse_password("--store", options["store"])
    places: list[tuple[Mapping[str, Any], Callable[[str], str]]] = [
        (options, lambda name: (flags or {}).get(name, f"--{name.replace('_', '-')}")),
        (EnvSettingsSource(ServiceSettings)(), lambda name: f"IGCF_{name.upper()}"),
        ({} if file is None else _read(file), lambda name: str(file)),
    ]
    values: dict[str, Any] = {}
    origins = dict.fromkeys(ServiceSettings.model_fields, "default")
    for place, origin in places:
        for name in place.keys() - values.keys():
            values[name], origins[name] = place[name], origin(name)
    try:
        settings = ServiceSettings(**values)
    except ConfigError as error:
        named = next((name for name in values if str(error).startswith((f"{name} ", f"{name}:", f"{name}."))), None)
        raise ConfigError(f"{error} (from {origins[named]})" if named else str(error)) from error
    if settings.store_password_file is not None:
        settings = settings.changed(store=_with_password(settings.store, Path(settings.store_password_file)))
    return LoadedSettings(settings, origins, tuple(_misspelt()))


def refuse_password(option: str, store: str) -> None:
    """Refuse a store's password on the command line, where everybody on the machine can read it."""
    url = database_url(store)
    if url.password or set(PASSWORDS) & url.query.keys():
        raise ConfigError(
            f"{option} holds a password, which others on this machine can read in the process list; leave it out and "
            "set IGCF_STORE_PASSWORD_FILE, PGPASSWORD or ~/.pgpass, or give the whole URL as IGCF_STORE"
        )


def nearest(name: str) -> str:
    """Ask about the setting that was probably meant; empty if none is similar."""
    found = get_close_matches(name, ServiceSettings.model_fields, 1)
    return f"; did you mean {found[0]}?" if found else ""


def _read(file: Path) -> dict[str, Any]:
    if not file.is_file():
        raise ConfigError(f"settings file {file} does not exist; `igcf serve --print-config` shows what it may hold")
    try:
        found: dict[str, Any] = TomlConfigSettingsSource(ServiceSettings, file)()
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError) as error:
        raise ConfigError(f"cannot read the settings in {file}: {error}") from error
    for name in found:
        if name not in ServiceSettings.model_fields:
            raise ConfigError(f"{file}: unknown setting {name}{nearest(name)}")
    return found


def _with_password(store: str, file: Path) -> str:
    url = database_url(store)
    if not url.drivername.startswith("postgresql"):
        raise ConfigError(f"store_password_file is for a PostgreSQL store, and store is {store}")
    try:
        refuse_other_than_file(file)
        password = file.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"cannot read the password of the store in {file}: {error}") from error
    return url.set(password=password).render_as_string(hide_password=False)


def _misspelt() -> list[str]:
    known = OTHER_VARIABLES | {f"IGCF_{name.upper()}" for name in ServiceSettings.model_fields}
    strange = sorted(name for name in os.environ.keys() - known if name.startswith("IGCF_"))
    asked = {name: nearest(name.removeprefix("IGCF_").lower()) for name in strange}
    return [f"the environment variable {name} is unknown{question}" for name, question in asked.items()]


def _toml(value: Any) -> str:
    return json.dumps(list(value) if isinstance(value, tuple) else value, ensure_ascii=False)
