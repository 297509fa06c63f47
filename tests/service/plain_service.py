"""What a service must know after any sequence of calls, as plain lists, for the stateful test to compare with."""

import math
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import Any


@dataclass(frozen=True)
class Reaction:
    """A reaction as it was sent."""

    event: str
    item: str
    value: float | None
    evidence: str = "shown"
    context: dict[str, Any] | None = None
    time: float | None = None
    """When it happened; None where that is unknown."""
    arrived: float = 0.0

    def says_the_same_as(self, other: "Reaction") -> bool:
        return (self.item, self.value, self.evidence) == (other.item, other.value, other.evidence)


@dataclass
class PlainUser:
    """One user: all that was acknowledged."""

    updated: float = -math.inf
    """Arrival of the last change; a clock that is set back does not set it back."""
    log: list[Reaction] = field(default_factory=list)
    retracted: set[str] = field(default_factory=set)
    attributes: dict[str, Any] = field(default_factory=dict)

    def react(self, told: Reaction, now: float) -> str:
        """Store a reaction; return `stored`, `duplicate` or `conflict`."""
        known = next((each for each in self.log if each.event == told.event), None)
        if known is not None:
            return "duplicate" if known.says_the_same_as(told) else "conflict"
        self.updated = max(now, self.updated)
        when = told.time
        if told.evidence != "logged":
            when = self.updated if when is None else min(when, self.updated)
        self.log.append(replace(told, time=when, arrived=self.updated))
        return "stored"

    def undo(self, event: str, now: float) -> None:
        if event not in self.retracted:
            self.updated = max(now, self.updated)
            self.retracted.add(event)

    def describe(self, attributes: dict[str, Any], now: float) -> None:
        if attributes != self.attributes:
            self.updated = max(now, self.updated)
            self.attributes = attributes

    def take_over(self, visitor: "PlainUser", now: float) -> None:
        """Add what is in force of a visitor."""
        for each in visitor.in_force():
            self.react(each, now)
        if visitor.attributes:
            self.updated = max(now, self.updated)
            self.attributes = visitor.attributes | self.attributes

    def ignore(self, items: Iterable[str], answer: str, shown: float, due: float, now: float) -> None:
        """Count items of an answer as shown without a reaction, where nothing was heard of them since."""
        done = {each.item for each in self.in_force() if each.evidence != "skip"}
        done |= {each.item for each in self.log if each.arrived > shown - 0.001}
        for item in items:
            if item not in done:
                event = f"ignored:{answer}:{sha256(item.encode()).hexdigest()[:16]}"
                self.react(Reaction(event, item, None, time=due), now)

    def in_force(self) -> list[Reaction]:
        """One reaction per item, the latest, and all skips; what was shown without a reaction replaces none."""
        live = [each for each in self.log if each.event not in self.retracted]
        reactions = [each for each in live if each.evidence != "skip"]
        moments = {id(each): -math.inf if each.time is None else each.time for each in live}
        latest = {
            each.item: each for each in sorted(reactions, key=lambda each: (each.value is not None, moments[id(each)]))
        }
        return [each for each in live if each.evidence == "skip" or latest[each.item] is each]
