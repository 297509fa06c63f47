"""Records of the store: a user's state, the rows of the feedback log, and which of these rows are in force.

Records made for every reaction are not frozen, which would take nine times as long; nobody changes them.
"""

import hashlib
import json
import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from igcf.service.models.responses import EvidenceKind as EvidenceKind
from igcf.service.store.tables import feedback

Version = tuple[str, int]
"""`incarnation` and `revision` of a user; ("", 0) for a user without reactions."""


@dataclass(slots=True)
class UserRow:
    """The state of a user; revision 0 and an empty `incarnation` for a user without reactions."""

    user_id: str
    incarnation: str = ""
    """Differs between a user and the same id after a deletion."""
    revision: int = 0
    updated: float = -math.inf
    """Arrival of the last row."""


@dataclass(slots=True)
class NewEvent:
    """A reaction, or the retraction of one, about to be stored."""

    event_id: str | None
    item_id: str | None
    value: float | None
    recommendation_id: str | None = None
    evidence: EvidenceKind = "shown"
    kind: str | None = None
    """The name under which the reaction was given, such as `purchase`; None where it was given as a value."""
    time: float | None = None
    """When it happened, in seconds since 1970; None: now, or unknown where it is logged."""
    retracts: str | None = None
    model: str | None = None
    """Id of the model that it was given to; None: the one in service."""
    details: str | None = None
    """As JSON: attributes of the user, or the context of a reaction."""

    def agrees_with(self, other: "NewEvent") -> bool:
        """Whether both say the same; a named kind is compared by its name, since its value is the model's."""
        said, told = (self.item_id, self.evidence, self.kind), (other.item_id, other.evidence, other.kind)
        return said == told and (self.kind is not None or self.value == other.value)

    def at(self, revision: int, arrived: float, model: str) -> "Event":
        """Give the event its place in the log; what was shown did not happen after its arrival."""
        when = self.time
        if self.evidence != "logged":
            when = arrived if when is None else min(when, arrived)
        return Event(
            self.event_id, self.item_id, self.value, self.recommendation_id, self.evidence, self.kind, when,
            self.retracts, model if self.model is None else self.model, self.details, revision, arrived,
        )  # fmt: skip


@dataclass(slots=True)
class Event(NewEvent):
    """One row of the log."""

    revision: int = 0
    arrived: float = 0.0
    """When it was stored; never goes back within one user's log."""


@dataclass(slots=True)
class Receipt:
    """What became of one reaction."""

    revision: int
    duplicate: bool
    event_id: str
    conflict: NewEvent | None = None
    """What is stored under this event id where that is something else; the reaction was then not stored."""


@dataclass(slots=True)
class Appended:
    """What a committed append did."""

    before: UserRow
    """The user's row before it."""
    receipts: list[Receipt]
    """One receipt per reaction, in the order of the call."""
    fresh: list[Event]
    """The rows that were added to the log."""

    @property
    def version(self) -> Version:
        """The user's version after it."""
        return self.before.incarnation, self.before.revision + len(self.fresh)


def in_force(events: Iterable[Event]) -> list[Event]:
    """Select the events in force, in the order of the log; `rows_in_force` selects the same in SQL.

    A retraction and what it retracts are not in force. Of several reactions to one item the latest is: by the time at
    which it happened (an unknown time is the earliest), then by revision. An item shown without a reaction (value None)
    replaces no reaction. Skips are no reactions: all of them are in force. Of attributes, which concern no item, the
    latest are.
    """
    rows = list(events)
    retracted = {row.retracts for row in rows if row.retracts is not None}
    live = [row for row in rows if row.retracts is None and row.event_id not in retracted]
    latest = {row.item_id: row for row in sorted(live, key=_order) if row.evidence != "skip"}
    return [row for row in live if row.evidence == "skip" or latest[row.item_id] is row]


def attributes_in(events: Iterable[Event]) -> dict[str, Any]:
    """Return the attributes of a user out of events in force."""
    return next((json.loads(row.details or "{}") for row in events if row.evidence == "attributes"), {})


def _order(row: Event) -> tuple[bool, float, int]:
    return row.value is not None, -math.inf if row.time is None else row.time, row.revision


def rows_in_force(*conditions: "sa.ColumnElement[bool]") -> sa.Subquery:
    """Select the rows of the log in force, as `in_force` does; `conditions` may be about user and item only."""
    log, other = feedback.c, feedback.alias("retraction").c
    is_retracted = sa.exists().where(other.user_id == log.user_id, other.retracts == log.event_id)
    place = sa.func.row_number().over(
        partition_by=[log.user_id, log.item_id, log.evidence == "skip"],
        order_by=[log.value.is_(None), log.time.is_(None), log.time.desc(), log.revision.desc()],
    )
    live = sa.select(feedback, place.label("place")).where(log.retracts.is_(None), ~is_retracted, *conditions)
    found = live.subquery("live")
    return sa.select(found).where((found.c.place == 1) | (found.c.evidence == "skip")).subquery("in_force")


def user_hash(user_id: str) -> str:
    """Hash the id of a deleted user; it is kept for a minute."""
    return hashlib.sha256(user_id.encode()).hexdigest()
