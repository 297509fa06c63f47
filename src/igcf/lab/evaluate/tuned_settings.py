"""Settings that were found on validation users, stored as data beside the code with the command that found them."""

import json
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from igcf.errors import ConfigError
from igcf.lab.baselines import method_named

if TYPE_CHECKING:
    from igcf.lab.evaluate.protocols import Protocol


@cache
def _read(dataset: str) -> dict[str, Any]:
    file = files("igcf.lab.evaluate").joinpath("settings", f"{dataset}.json")
    return dict(json.loads(file.read_text())) if file.is_file() else {}


def tuned_settings(
    dataset: str, protocol: "Protocol", method: str, changes: Mapping[str, Mapping[str, Any]] | None = None
) -> dict[str, Any]:
    """Return the settings of a method: its defaults, those of the protocol, those found by tuning, `changes`.

    `changes` holds settings by method.
    """
    known = _read(dataset)
    found = dict(protocol.settings_of(method_named(method)))
    for name in (*protocol.tuned_under, protocol.name):
        found |= known.get(name, {}).get(method, {}).get("settings", {})
    return method_named(method).settings({**found, **(changes or {}).get(method, {})})


def variant_settings(dataset: str, variant: str) -> dict[str, Any]:
    """Return what was found on validation users for one row of an ablation, `igcf-paper K = 1` for instance."""
    return dict(_read(dataset).get("ablation", {}).get(variant, {}).get("settings", {}))


def parse_changes(changes: tuple[str, ...]) -> dict[str, dict[str, Any]]:
    """Read `METHOD:NAME=VALUE` texts as settings by method; values are JSON, or plain words."""
    found: dict[str, dict[str, Any]] = {}
    for text in changes:
        target, equals, value = text.partition("=")
        method, colon, name = target.rpartition(":")  # the method may be an import path, my.module:METHOD
        if not (colon and equals and name):
            raise ConfigError(f"cannot read {text!r}; expected METHOD:NAME=VALUE, for instance icf-ucb:penalty=20")
        try:
            parsed = json.loads(value)
        except (ValueError, RecursionError):
            parsed = value
        method_named(method).settings({name: parsed})
        default = method_named(method).defaults[name]
        if isinstance(default, int | float) and isinstance(parsed, str | list | dict):
            kind = "true or false" if isinstance(default, bool) else "a number"
            raise ConfigError(f"{name} of {method} is {default} unless set; expected {kind}, got {value[:60]!r}")
        found.setdefault(method, {})[name] = parsed
    return found


def settings_document(dataset: str, protocol: str, tuning: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the contents of `settings/<dataset>.json` with the settings that a tuning found put in."""
    document: dict[str, Any] = json.loads(json.dumps(_read(dataset)))
    for found in tuning:
        if found["tried"]:
            document.setdefault(protocol, {})[found["method"]] = {
                "settings": found["settings"],
                "validation": found["score"],
                "command": found["command"],
            }
    return document
