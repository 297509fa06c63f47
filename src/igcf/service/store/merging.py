"""An anonymous visitor becomes a known user: the visitor's reactions move into the user's log, in one transaction."""

import itertools
import time
import uuid
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from igcf.service.errors import EventConflictError
from igcf.service.store.database import Database
from igcf.service.store.records import NEUTRAL_DRIFT, Payload, user_hash
from igcf.service.store.store import FORGET_LOCK
from igcf.service.store.tables import beliefs, feedback, forgotten, merges, recommendations, users
from igcf.service.store.user_log import hold_user

LONGEST_ID = 256
"""Characters of an event id, so that a reaction that moved can be taken back by its id."""
_CONTENT = [column.name for column in feedback.c if column.name not in ("user_id", "event_id", "revision")]
"""What a row of the log has in common with its copy in the log of another user."""


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
    now = time.time()
    if connection.dialect.name == "postgresql":
        connection.execute(sa.select(sa.func.pg_advisory_xact_lock(FORGET_LOCK)))
    revisions = lock_both(connection, visitor, user_id)
    hold_user(connection, visitor)
    is_repeated = promised(connection, visitor, user_id)
    log, revision = read_log(connection, visitor), revisions.get(user_id, 0)
    rows, n_known = rows_to_add(log, read_log(connection, user_id), user_id, revision, user_hash(visitor))
    if rows:
        add_rows(connection, user_id, rows, is_new=user_id not in revisions)
    connection.execute(sa.update(recommendations).where(recommendations.c.user_id == visitor).values(user_id=user_id))
    drop_visitor(connection, visitor, now)
    if log:
        mark_merge(connection, visitor, user_id, now)
    return Merged(revision + len(rows), len(rows), n_known, duplicate=is_repeated and not log)


def promised(connection: sa.Connection, visitor: str, user_id: str) -> bool:
    """Whether a visitor was merged into this user before; one who was merged into another is refused."""
    query = sa.select(merges.c.user_hash).where(merges.c.visitor_hash == user_hash(visitor))
    before = connection.execute(query).scalar()
    if before is not None and before != user_hash(user_id):
        raise EventConflictError(f"visitor {visitor!r} was merged into another user before; nothing was changed")
    return before is not None


def mark_merge(connection: sa.Connection, visitor: str, user_id: str, now: float) -> None:
    """Keep the hashes of a visitor and of the user whom the visitor became."""
    connection.execute(sa.delete(merges).where(merges.c.visitor_hash == user_hash(visitor)))
    mark = {"visitor_hash": user_hash(visitor), "user_hash": user_hash(user_id), "time": now}
    connection.execute(sa.insert(merges).values(mark))


def drop_visitor(connection: sa.Connection, visitor: str, now: float) -> None:
    """Leave nothing of a visitor but the mark of a deletion."""
    for table in (feedback, users, beliefs):
        connection.execute(sa.delete(table).where(table.c.user_id == visitor))
    connection.execute(sa.delete(forgotten).where(forgotten.c.user_hash == user_hash(visitor)))
    connection.execute(sa.insert(forgotten).values(user_hash=user_hash(visitor), time=now))


def rows_to_add(
    log: Sequence[dict[str, Any]], own_log: Sequence[dict[str, Any]], user_id: str, revision: int, visitor_hash: str
) -> tuple[list[dict[str, Any]], int]:
    """Find the rows in force of a visitor's log that a user's lacks, numbered behind it; and how many it has.

    What was taken back after an earlier attempt had moved it, which was interrupted or has to go on, is taken back here
    too.
    """
    own = {row["event_id"]: row for row in own_log if row["event_id"] is not None}
    retracted = {row["retracts"] for row in log}
    taken = {row["event_id"] for row in log} | own.keys()
    copies = _copies(log, own_log, visitor_hash) if retracted != {None} else {}
    rows: list[dict[str, Any]] = []
    n_known = 0
    for row in log:
        event_id = row["event_id"]
        if row["retracts"] in copies:
            numbered = {"user_id": user_id, "revision": revision + len(rows) + 1}
            rows.append(row | numbered | {"retracts": copies[row["retracts"]]})
        if row["retracts"] is not None or event_id in retracted:
            continue
        if event_id in own:
            event_id = _id_of_both(row, own, taken, visitor_hash)
            if event_id is None:
                n_known += 1
                continue
            taken.add(event_id)
        rows.append(row | {"user_id": user_id, "event_id": event_id, "revision": revision + len(rows) + 1})
    return rows, n_known


def _copies(log: Sequence[dict[str, Any]], own_log: Sequence[dict[str, Any]], visitor_hash: str) -> dict[str, str]:
    """Find the reactions of a visitor of which a user's log has a copy in force; their ids there, by the visitor's."""
    retracted = {row["retracts"] for row in own_log}
    in_force: defaultdict[tuple[Any, ...], list[str]] = defaultdict(list)
    for row in own_log:
        if row["event_id"] is not None and row["event_id"] not in retracted:
            in_force[tuple(row[name] for name in _CONTENT)].append(row["event_id"])
    return {
        row["event_id"]: event_id
        for row in log
        if row["event_id"] is not None
        for event_id in in_force[tuple(row[name] for name in _CONTENT)]
        if event_id == row["event_id"] or f":{visitor_hash[:16]}" in event_id
    }


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


def lock_both(connection: sa.Connection, visitor: str, user_id: str) -> dict[str, int]:
    """Keep both users from being changed elsewhere; returns their revisions, of those who have one.

    They are locked in the order of their names, so that no two changes wait for each other.
    """
    query = sa.select(users.c.user_id, users.c.revision).where(users.c.user_id.in_([visitor, user_id]))
    if connection.dialect.name == "postgresql":
        query = query.order_by(users.c.user_id).with_for_update()
    return {str(name): int(revision) for name, revision in connection.execute(query)}


def read_log(connection: sa.Connection, user_id: str) -> list[dict[str, Any]]:
    """Read all rows of a user's log, in all columns."""
    query = sa.select(feedback).where(feedback.c.user_id == user_id).order_by(feedback.c.revision)
    return [dict(row) for row in connection.execute(query).mappings()]


def _payload(row: dict[str, Any]) -> Payload:
    return Payload(row["item_id"], row["value"], row["evidence"], row["kind"])


def add_rows(connection: sa.Connection, user_id: str, rows: Sequence[dict[str, Any]], *, is_new: bool) -> None:
    """Add rows to the log of a user; the saved belief is removed, so that the next reader computes it from the log."""
    now = time.time()
    if is_new:
        new = {"user_id": user_id, "born": uuid.uuid4().hex, "revision": 0, "drift": NEUTRAL_DRIFT, "updated": now}
        connection.execute(sa.insert(users).values(new))  # one who was created meanwhile: refused, and tried again
    connection.execute(sa.insert(feedback), list(rows))
    state = {"revision": rows[-1]["revision"], "updated": now}
    connection.execute(sa.update(users).where(users.c.user_id == user_id).values(state))
    connection.execute(sa.delete(beliefs).where(beliefs.c.user_id == user_id))
