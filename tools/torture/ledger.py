"""Requests of the clients and their responses, which the checker compares with the store."""

import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

Body = dict[str, Any]


@dataclass
class Reaction:
    """One reaction that a client sent, under an event id of its own."""

    user: str
    event_id: str
    item: str
    value: float | None
    evidence: str = "shown"
    is_acknowledged: bool = False
    revision: int | None = None
    """Number that the acknowledgement named; None where it said "duplicate", or was one of a history."""
    is_taken_back: bool | None = False
    """None: a client asked for it and got no answer."""

    def body(self) -> Body:
        """Write the reaction as requests have it."""
        said: Body = {"kind": "skip"} if self.evidence == "skip" else {"value": self.value}
        if self.evidence == "logged":
            said["time"] = 1.0e9
        return {"item": self.item, "event_id": self.event_id} | said


@dataclass
class Ledger:
    """All reactions by user and event id, and the users to be deleted."""

    reactions: dict[str, dict[str, Reaction]] = field(default_factory=dict)
    deleted: dict[str, bool] = field(default_factory=dict)
    """Users to be deleted, and whether that was acknowledged; nobody writes to them afterwards."""
    problems: list[str] = field(default_factory=list)
    """Answers that no client should get."""
    n_requests: int = 0
    n_lost: int = 0
    """Requests without an answer, or answered 503."""
    allowed: set[int] = field(default_factory=lambda: {200, 404, 503})
    """Statuses that clients may be answered with; others are problems."""
    touched: set[str] = field(default_factory=set)
    """Users to whom something was sent since the last check."""
    lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, reaction: Reaction) -> None:
        """Note a reaction, before it is sent."""
        with self.lock:
            self.reactions.setdefault(reaction.user, {})[reaction.event_id] = reaction
            self.touched.add(reaction.user)

    def acknowledge(self, reaction: Reaction, receipt: Body) -> None:
        """Record the response to a reaction."""
        with self.lock:
            reaction.is_acknowledged = True
            if not receipt.get("duplicate", True):
                reaction.revision = int(receipt["revision"])

    def count(self, *, is_lost: bool) -> None:
        """Count a request."""
        with self.lock:
            self.n_requests += 1
            self.n_lost += is_lost

    def complain(self, problem: str) -> None:
        """Note an answer that no client should get."""
        with self.lock:
            self.problems.append(problem)

    def of(self, user: str) -> list[Reaction]:
        """All reactions of one user, in the order of sending."""
        with self.lock:
            return list(self.reactions.get(user, {}).values())

    def users(self) -> list[str]:
        """All users who reacted and are not to be deleted."""
        with self.lock:
            return [user for user in self.reactions if user not in self.deleted]

    def take_touched(self) -> list[str]:
        """Users to whom something was sent since the last call, without those who are to be deleted."""
        with self.lock:
            touched, self.touched = self.touched, set()
            return sorted(touched - self.deleted.keys())

    def unsure(self) -> Iterator[Reaction]:
        """Yield the reactions without a response."""
        for user in self.users():
            yield from (reaction for reaction in self.of(user) if not reaction.is_acknowledged)
