"""Records of the store: the state of a user, the rows of the feedback log, and what becomes of a reaction.

Those that are made for every reaction are not frozen, which would take nine times as long; nobody changes them.
"""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass

from igcf.service.evidence import EvidenceKind as EvidenceKind

NEUTRAL_DRIFT = 1.0
"""Drift of a user whose reactions surprise exactly as much as the model expects."""
Version = tuple[str, int]
"""`born` and `revision` of a user; ("", 0) for somebody who never reacted."""


@dataclass(frozen=True)
class SavedBelief:
    """A belief as it is kept beside the log: a cache, which spares its readers the log up to its revision."""

    model: str
    """Id of the model that the belief belongs to."""
    revision: int
    """The last row of the log that is part of it."""
    drift: float
    """Moving average of the user's surprise up to there."""
    content: bytes
    """The belief as `belief_bytes.encode_belief` writes it."""


@dataclass(slots=True)
class UserRow:
    """The state of a user; revision 0 and an empty `born` for somebody who never reacted."""

    user_id: str
    born: str = ""
    """Differs between a user and the one who comes back after having been forgotten."""
    revision: int = 0
    drift: float = NEUTRAL_DRIFT
    """Moving average of the user's surprise when it was last saved."""
    saved: SavedBelief | None = None
    """A belief that was saved; None also where nobody asked for it."""


@dataclass(slots=True)
class Event:
    """One row of the log: a reaction, or the retraction of one."""

    revision: int
    event_id: str | None
    item_id: str | None
    value: float | None
    time: float
    retracts: str | None = None
    evidence: EvidenceKind = "shown"
    kind: str | None = None
    """The name under which the reaction was given, such as `purchase`; None where it was given as a value."""


@dataclass(slots=True)
class NewRow(Event):
    """A row that is added to the log."""

    recommendation_id: str | None = None


@dataclass(slots=True)
class NewEvent:
    """A reaction about to be stored."""

    event_id: str
    item_id: str
    value: float | None
    recommendation_id: str | None = None
    evidence: EvidenceKind = "shown"
    kind: str | None = None
    time: float | None = None
    """When it happened, in seconds since 1970; None: now."""

    @property
    def payload(self) -> "Payload":
        """What the reaction says."""
        return Payload(self.item_id, self.value, self.evidence, self.kind)

    def at(self, revision: int, now: float) -> "NewRow":
        """Give the reaction its place in the log."""
        when = now if self.time is None else self.time
        return NewRow(
            revision,
            self.event_id,
            self.item_id,
            self.value,
            when,
            evidence=self.evidence,
            kind=self.kind,
            recommendation_id=self.recommendation_id,
        )


@dataclass(slots=True)
class Payload:
    """What a reaction says; two reactions with the same event id must say the same."""

    item_id: str | None
    value: float | None
    evidence: EvidenceKind
    kind: str | None

    def agrees_with(self, other: "Payload") -> bool:
        """Whether both say the same; a named kind is compared by its name, since its value is the model's."""
        if self.kind is not None or other.kind is not None:
            return (self.item_id, self.evidence, self.kind) == (other.item_id, other.evidence, other.kind)
        return self == other


@dataclass(frozen=True)
class LearnedState:
    """What a server has learned of a user, to be kept beside the log."""

    user_id: str
    born: str
    drift: float
    belief: SavedBelief | None
    """None where the one that is saved will do for now."""


@dataclass(slots=True)
class Receipt:
    """What became of one reaction."""

    revision: int
    duplicate: bool
    event_id: str
    conflict: Payload | None = None
    """What is stored under this event id, where that is something else; the reaction was then not stored."""


@dataclass(slots=True)
class Appended:
    """What a committed append did."""

    before: UserRow
    """The user's row before it."""
    receipts: list[Receipt]
    """One receipt per reaction, in the order of the call."""
    fresh: list[NewRow]
    """The rows that were added to the log."""

    @property
    def version(self) -> Version:
        """The user's version after it."""
        return self.before.born, self.before.revision + len(self.fresh)


def in_force(events: Iterable[Event]) -> list[Event]:
    """Leave out retractions and what they retract; oldest first."""
    rows = list(events)
    retracted = {row.retracts for row in rows if row.retracts is not None}
    return [row for row in rows if row.retracts is None and row.event_id not in retracted]


def user_hash(user_id: str) -> str:
    """Hash the id of a deleted user; this is all that is kept of them, for a minute."""
    return hashlib.sha256(user_id.encode()).hexdigest()
