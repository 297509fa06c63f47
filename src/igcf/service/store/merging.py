"""An anonymous visitor becomes a known user: the visitor's reactions move into the user's log, in one transaction."""

import itertools
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from igcf.service.errors import EventConflictError
from igcf.service.store.database import Database
from igcf.service.store.records import NEUTRAL_DRIFT, Payload, user_hash
from igcf.service.store.store import FORGET_LOCK
from igcf.service.store.tables import beliefs, feedback, forgotten, merges, recommendations, users

LONGEST_ID = 256
"""Characters of an event id, so that a reaction that moved can be taken back by its id."""


@dataclass(frozen=True)
class Merged:
    """What became of a merge."""

    revision: int
    """The user's revision after it."""
    moved: int
    """Reactions that came from the visitor."""
    known: int
    """Reactions of the visitor that the user's log had already; they count once."""
    duplicate: bool
    """Whether this visitor had been merged before and nothing was left to move."""


def merge_users(database: Database, visitor: str, user_id: str) -> Merged:
    """Move what is in force of a visitor's log behind that of a user, and leave nothing of the visitor.

    An event id that the user's log has with the same reaction is the same reaction; with another reaction, the
    visitor's is stored under an id made of both. A visitor who was merged into somebody else is refused. Answers to the
    visitor that are still in the queue of another server are not written any more, as if the visitor had been deleted.
    """
    return database.write(lambda connection: _merge(connection, visitor, user_id))


def _merge(connection: sa.Connection, visitor: str, user_id: str) -> Merged:
    mark: dict[str, Any] = {
        "visitor_hash": user_hash(visitor),
        "user_hash": user_hash(user_id),
        "time": time.time(),
    }
    if connection.dialect.name == "postgresql":
        connection.execute(sa.select(sa.func.pg_advisory_xact_lock(FORGET_LOCK)))
    revisions = _lock_both(connection, visitor, user_id)
    before = connection.execute(sa.select(merges).where(merges.c.visitor_hash == mark["visitor_hash"])).first()
    if before is not None and before.user_hash != mark["user_hash"]:
        raise EventConflictError(f"visitor {visitor!r} was merged into another user before; nothing was changed")
    log = _log(connection, visitor)
    own = {row["event_id"]: row for row in _log(connection, user_id) if row["event_id"] is not None}
    retracted = {row["retracts"] for row in log}
    taken = {row["event_id"] for row in log} | own.keys()
    rows: list[dict[str, Any]] = []
    n_known = 0
    revision = revisions.get(user_id, 0)
    for row in log:
        event_id = row["event_id"]
        if row["retracts"] is not None or event_id in retracted:
            continue
        if event_id in own:
            event_id = _id_of_both(row, own, taken, mark["visitor_hash"])
            if event_id is None:
                n_known += 1
                continue
            taken.add(event_id)
        rows.append(row | {"user_id": user_id, "event_id": event_id, "revision": revision + len(rows) + 1})
    if rows:
        _append(connection, user_id, rows, is_new=user_id not in revisions)
    connection.execute(sa.update(recommendations).where(recommendations.c.user_id == visitor).values(user_id=user_id))
    for table in (feedback, users, beliefs):
        connection.execute(sa.delete(table).where(table.c.user_id == visitor))
    if log:
        connection.execute(sa.delete(merges).where(merges.c.visitor_hash == mark["visitor_hash"]))
        connection.execute(sa.insert(merges).values(mark))
    connection.execute(sa.delete(forgotten).where(forgotten.c.user_hash == mark["visitor_hash"]))
    connection.execute(sa.insert(forgotten).values(user_hash=mark["visitor_hash"], time=mark["time"]))
    return Merged(revision + len(rows), len(rows), n_known, duplicate=before is not None and not log)


def _id_of_both(
    row: dict[str, Any], own: Mapping[str, dict[str, Any]], taken: set[str], visitor_hash: str
) -> str | None:
    """Make an id for a reaction whose own id the user's log has; None where the log has this very reaction."""
    for number in itertools.count():
        tail = f":{visitor_hash[:16]}" + (f"-{number}" if number > 1 else "")
        event_id = f"{row['event_id'][: LONGEST_ID - len(tail)]}{tail}" if number else row["event_id"]
        if event_id in own and _payload(own[event_id]).agrees_with(_payload(row)):
            return None
        if event_id not in taken:
            return event_id
    raise AssertionError


def _lock_both(connection: sa.Connection, visitor: str, user_id: str) -> dict[str, int]:
    """Keep both users from being changed elsewhere; returns their revisions, of those who have one.

    They are locked in the order of their names, so that no two changes wait for each other.
    """
    query = sa.select(users.c.user_id, users.c.revision).where(users.c.user_id.in_([visitor, user_id]))
    if connection.dialect.name == "postgresql":
        query = query.order_by(users.c.user_id).with_for_update()
    return {str(name): int(revision) for name, revision in connection.execute(query)}


def _log(connection: sa.Connection, user_id: str) -> list[dict[str, Any]]:
    query = sa.select(feedback).where(feedback.c.user_id == user_id).order_by(feedback.c.revision)
    return [dict(row) for row in connection.execute(query).mappings()]


def _payload(row: dict[str, Any]) -> Payload:
    return Payload(row["item_id"], row["value"], row["evidence"], row["kind"])


def _append(connection: sa.Connection, user_id: str, rows: Sequence[dict[str, Any]], *, is_new: bool) -> None:
    """Add rows to the log of a user; the saved belief is removed, so that the next reader computes it from the log."""
    now = time.time()
    if is_new:
        new = {"user_id": user_id, "born": uuid.uuid4().hex, "revision": 0, "drift": NEUTRAL_DRIFT, "updated": now}
        connection.execute(sa.insert(users).values(new))  # one who was created meanwhile: refused, and tried again
    connection.execute(sa.insert(feedback), list(rows))
    state = {"revision": rows[-1]["revision"], "updated": now}
    connection.execute(sa.update(users).where(users.c.user_id == user_id).values(state))
    connection.execute(sa.delete(beliefs).where(beliefs.c.user_id == user_id))
