"""Who may be shown: the items left for one user and one request."""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from igcf.arrays import BoolArray
from igcf.errors import ConfigError, NoItemsLeftError
from igcf.model import Model
from igcf.online.rules import Rules, RulesWithin
from igcf.online.slates import CompiledRules

WHOLE = (int, np.integer)


class Asked(NamedTuple):
    """What a request says about the items to choose from."""

    k: int
    exclude: Iterable[str]
    candidates: Iterable[str] | None  # the only items to choose from; None: all
    rules: CompiledRules | None


def check_k(k: int) -> None:
    """Refuse a number of items that is not a whole number of at least 1."""
    if (type(k) is not int and (isinstance(k, bool) or not isinstance(k, WHOLE))) or k < 1:
        raise ConfigError(f"k must be a whole number of at least 1, got {k!r}")


def may_show(model: Model, unseen: BoolArray, now: float, asked: Asked) -> BoolArray:
    """Return which items may be shown, (1, items), or refuse where they are fewer than asked for.

    Args:
        model: with its catalogue.
        unseen: items that the user neither reacted to nor skipped, (1, items); not written to.
        now: time in seconds since 1970.
        asked: the request.
    """
    check_k(asked.k)
    available = unseen
    mask = model.catalogue.available(now)
    if mask is not None:
        available = available & mask
    if asked.rules is not None and asked.rules.allowed is not None:
        available = available & asked.rules.allowed
    if asked.candidates is not None:
        chosen = np.zeros_like(available)
        chosen[0, model.item_rows(asked.candidates)] = True
        available = available & chosen
    if not isinstance(asked.exclude, tuple) or asked.exclude:
        available = available.copy()
        available[0, [row for row in map(model.known_row, asked.exclude) if row is not None]] = False
    left = int(np.count_nonzero(available))
    if left < asked.k:
        n_seen = model.n_items - int(np.count_nonzero(unseen))
        raise NoItemsLeftError(
            f"asked for {asked.k} item{'s' if asked.k > 1 else ''}, {left} of {model.n_items} are left for this user "
            f"after {n_seen} seen, those not available, exclusions and rules; "
            "ask for fewer, or widen candidates or rules"
        )
    return available


def compiled_rules(rules: Rules | RulesWithin | None, model: Model) -> CompiledRules | None:
    """Return rules in terms of the rows of a model."""
    if rules is None:
        return None
    if not isinstance(rules, Rules | RulesWithin):
        raise ConfigError(
            f"rules is {type(rules).__name__}; expected igcf.Rules, for instance igcf.Rules.parse({{...}})"
        )
    return rules.compiled(model.catalogue)
