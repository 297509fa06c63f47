"""The language of rules about an answer: parsed once, compiled once per state of the catalogue (docs/catalogue.md)."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from igcf.errors import DataError, RuleError, refuse_other_than_file
from igcf.item import finite, nearest
from igcf.model.catalogue import Catalogue
from igcf.online.slates import CompiledRules, compile_rules

_Found = TypeVar("_Found")

PARTS = ("filter", "boost", "caps", "pinned", "diversity", "weight", "strength")
FILTERS = ("any", "all", "none", "min", "max")
MOST_NAMES = 1_000
LARGEST_DIVERSITY = 10.0
Amounts = tuple[tuple[str, float], ...]


@dataclass(frozen=True)
class Rules:
    """What may be in an answer and what is preferred; build it with `parse`.

    >>> import igcf
    >>> rules = igcf.Rules.parse({"filter": {"none": ["War"]}, "caps": {"Drama": 2}, "diversity": 0.5})
    >>> rules.none
    ('War',)
    """

    any: tuple[tuple[str, ...], ...] = ()
    """Of each of these groups of labels an item has at least one; a label is a category or a tag."""
    all: tuple[str, ...] = ()
    """Labels that an item has."""
    none: tuple[str, ...] = ()
    """Labels that an item does not have."""
    least: Amounts = ()
    """Smallest numbers that an item may have, by name; an item without the number is left out."""
    most: Amounts = ()
    """Largest numbers that an item may have, by name."""
    boost: Amounts = ()
    """What is added to the score of an item for each of these labels that it has."""
    caps: tuple[tuple[str, int], ...] = ()
    """How many items of an answer may have a label; `*` is every category that is not named."""
    pinned: tuple[str, ...] = ()
    """Items at the top, in this order, as far as they may be shown at all."""
    diversity: float = 0.0
    """How much an item loses that repeats what stands before it in the answer."""
    weight: str | None = None
    """Number of the items that a success counts by, such as a margin."""
    strength: float = 0.0
    """How much of the weight counts: 0 none, so that successes are all alike; 1 all of it."""

    @classmethod
    def parse(cls, given: Mapping[str, Any]) -> "Rules":
        """Read rules such as `{"filter": {"none": ["War"], "min": {"year": 1990}}, "caps": {"Drama": 2}}`."""
        try:
            parts = _object(given, "rules", PARTS)
            chosen = _object(parts.get("filter"), "filter", FILTERS)
            asked = parts.get("diversity")
            diversity = 0.0 if asked is None else finite(asked, "diversity")
            some = _names(chosen.get("any"), "filter.any")
            if chosen.get("any") is not None and not some:
                raise RuleError("filter.any is empty, which no item can satisfy; leave it out or name a label")
            rules = cls(
                any=(some,) if some else (),
                all=_names(chosen.get("all"), "filter.all"),
                none=_names(chosen.get("none"), "filter.none"),
                least=_amounts(chosen.get("min"), "filter.min"),
                most=_amounts(chosen.get("max"), "filter.max"),
                boost=_amounts(parts.get("boost"), "boost"),
                caps=tuple((name, _count(name, n)) for name, n in _amounts(parts.get("caps"), "caps")),
                pinned=_names(parts.get("pinned"), "pinned"),
                diversity=diversity,
                weight=_name(parts.get("weight"), "weight"),
                strength=0.0 if parts.get("strength") is None else finite(parts["strength"], "strength"),
            )
        except DataError as error:
            raise RuleError(str(error)) from error
        if not 0 <= diversity <= LARGEST_DIVERSITY:
            raise RuleError(f"diversity is {diversity:g}; expected 0 to {LARGEST_DIVERSITY:g}")
        if not 0 <= rules.strength <= 1:
            raise RuleError(f"strength is {rules.strength:g}; expected 0 to 1")
        if (rules.weight is None) != (parts.get("strength") is None):
            raise RuleError('weight and strength belong together: {"weight": "margin", "strength": 0.3}')
        return rules

    def together(self, other: "Rules") -> "Rules":
        """Combine both sets of rules: all filters and caps apply, boosts add up, own pinned items come first."""
        return Rules(
            any=self.any + other.any,
            all=_joined(self.all, other.all),
            none=_joined(self.none, other.none),
            least=_by_name(self.least + other.least, max),
            most=_by_name(self.most + other.most, min),
            boost=_by_name(self.boost + other.boost, sum),
            caps=tuple((name, int(n)) for name, n in _by_name(self.caps + other.caps, min)),
            pinned=_joined(self.pinned, other.pinned),
            diversity=other.diversity or self.diversity,
            weight=other.weight or self.weight,
            strength=other.strength if other.weight else self.strength,
        )

    def compiled(self, catalogue: Catalogue, *, is_lenient: bool = False) -> CompiledRules:
        """Return these rules for a catalogue, which caches them; an unknown name is an error.

        With `is_lenient`, a label, number or item that the catalogue no longer has matches nothing.
        """
        return catalogue.computed((self, is_lenient), lambda: compile_rules(self, catalogue, is_lenient=is_lenient))

    def within(self, server: "Rules") -> "RulesWithin":
        """Combine these rules of a request with those of a server."""
        return RulesWithin(self, server)


@dataclass(frozen=True)
class RulesWithin:
    """Rules of a request and those of the server that answers it, which hold at once."""

    asked: Rules
    server: Rules

    def compiled(self, catalogue: Catalogue) -> CompiledRules:
        """Return both for a catalogue; only what the request names must be there."""
        return catalogue.computed(self, lambda: self._compiled(catalogue))

    def _compiled(self, catalogue: Catalogue) -> CompiledRules:
        self.asked.compiled(catalogue)
        return self.server.together(self.asked).compiled(catalogue, is_lenient=True)


def read_rules(path: Path) -> Rules:
    """Read rules from a JSON file."""
    try:
        refuse_other_than_file(path)
        given = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise RuleError(f"cannot read the rules of {path}: {error}") from error
    try:
        return Rules.parse(given)
    except RuleError as error:
        raise RuleError(f"{path}: {error}") from error


def _object(given: Any, where: str, known: tuple[str, ...]) -> Mapping[str, Any]:
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise RuleError(f"{where} is {type(given).__name__}; expected an object with {', '.join(known)}")
    for name in given:
        if name not in known:
            raise RuleError(f"{where} has the unknown name {str(name)[:80]!r}{nearest(str(name), known)}")
    return given


def _names(given: Any, where: str) -> tuple[str, ...]:
    if given is None:
        return ()
    if (
        isinstance(given, str)
        or not isinstance(given, list | tuple)
        or not all(isinstance(each, str) for each in given)
    ):
        raise RuleError(f"{where} is {str(given)[:60]!r}; expected a list of names")
    names: tuple[str, ...] = tuple(dict.fromkeys(given))
    return _few(names, where)


def _name(given: Any, where: str) -> str | None:
    if given is not None and not isinstance(given, str):
        raise RuleError(f"{where} is {str(given)[:60]!r}; expected the name of a number of the items")
    return given


def _amounts(given: Any, where: str) -> Amounts:
    if given is None:
        return ()
    if not isinstance(given, Mapping) or not all(isinstance(name, str) for name in given):
        raise RuleError(f"{where} is {str(given)[:60]!r}; expected an object of names and numbers")
    return _few(tuple((name, finite(amount, f"{where}.{name[:80]}")) for name, amount in given.items()), where)


def _few(found: tuple[_Found, ...], where: str) -> tuple[_Found, ...]:
    if len(found) > MOST_NAMES:
        raise RuleError(f"{where} has {len(found)} names; at most {MOST_NAMES} are allowed")
    return found


def _count(name: str, amount: float) -> int:
    if amount < 0 or amount != int(amount):
        raise RuleError(f"caps.{name[:80]} is {amount:g}; expected a whole number of at least 0")
    return int(amount)


def _joined(first: tuple[str, ...], second: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(first + second))


def _by_name(amounts: Iterable[tuple[str, float]], choose: Any) -> Amounts:
    found: dict[str, list[float]] = {}
    for name, amount in amounts:
        found.setdefault(name, []).append(amount)
    return tuple((name, choose(each)) for name, each in found.items())
