"""Protocols of the experiments, by name."""

from typing import Any

import numpy as np

from igcf.data import Interactions
from igcf.errors import ConfigError
from igcf.lab.evaluate.protocols.base import Case, Choices, Job, Outcome, Play, Protocol, Session, Setup, Users
from igcf.lab.evaluate.protocols.cold import Ablation, ColdStart, Returning, TasteDrift, TopK
from igcf.lab.evaluate.protocols.new_items import NewItemsProtocol
from igcf.lab.evaluate.protocols.observed import Observed
from igcf.lab.evaluate.protocols.ranking import KnownUsers, Next
from igcf.lab.evaluate.protocols.split import Split
from igcf.lab.evaluate.protocols.thin import ThinLog

__all__ = [
    "PROTOCOLS",
    "Case",
    "Job",
    "Outcome",
    "Play",
    "Protocol",
    "Session",
    "Setup",
    "Users",
    "prepare",
    "protocol_named",
    "setup_for",
    "thinned",
]

_SESSIONS = (ColdStart, TasteDrift, TopK, Ablation, Returning, Observed, NewItemsProtocol, ThinLog)
_ALL: tuple[type[Protocol], ...] = (*_SESSIONS, KnownUsers, Next, Split)
PROTOCOLS: dict[str, type[Protocol]] = {kind.name: kind for kind in _ALL}


def protocol_named(name: str, **options: Any) -> Protocol:
    """Return the protocol called `name` with some of its options; options that are None keep their defaults."""
    if name not in PROTOCOLS:
        raise ConfigError(f"unknown protocol {name!r}; known are {', '.join(PROTOCOLS)}")
    given = {option: value for option, value in options.items() if value is not None}
    known = PROTOCOLS[name].__dataclass_fields__
    for option in given:
        if option not in known:
            others = [each.name for each in _ALL if option in each.__dataclass_fields__]
            written = "--" + option.replace("_", "-")
            raise ConfigError(f"{name} has no option {written}, which belongs to {', '.join(others) or 'no protocol'}")
    return PROTOCOLS[name](**given)


def setup_for(data: Interactions, protocol: str | Protocol, **choices: Any) -> Setup:
    """Return the experiment of a protocol on this log.

    Args:
        data: the log.
        protocol: its name, or the protocol with its options (`protocol_named`).
        **choices: `rounds`, `slate`, `satisfied`, `split`, `n_users` and `min_reactions` that differ from what the
            protocol would take; None changes nothing.
    """
    own = protocol_named(protocol) if isinstance(protocol, str) else protocol
    return own.setup(data, Choices(**choices))


def prepare(data: Interactions, setup: Setup, seed: int, users: Users = "test") -> Case:
    """Split the log as the protocol of an experiment says.

    Args:
        data: the whole log.
        setup: the experiment.
        seed: seed of everything drawn.
        users: whether the test users are played or, for tuning, the validation users.
    """
    return setup.protocol.prepare(data, setup, seed, users)


def thinned(data: Interactions, share: float, *, rng: np.random.Generator) -> Interactions:
    """Return a log with a random share of its rows, at least one; users who have none left are gone."""
    if not 0 < share <= 1:
        raise ConfigError(f"the share of rows to keep must be in (0, 1], got {share}")
    rows = rng.choice(len(data), max(1, round(share * len(data))), replace=False)
    part = data.subset(np.sort(rows))
    return part.only_users(np.unique(part.user_idx))
