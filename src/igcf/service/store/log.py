"""Reading and changing users' logs, inside the caller's transaction.

Every change goes through `append`, which first locks the rows of its users, so that no other server changes them.
"""

import itertools
import json
import time
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from functools import cache
from operator import attrgetter
from typing import Any

import sqlalchemy as sa

from igcf.service.errors import EventConflictError
from igcf.service.models.responses import MergeReceipt
from igcf.service.store.records import (
    Appended,
    Event,
    NewEvent,
    Receipt,
    UserRow,
    attributes_in,
    in_force,
    user_hash,
)
from igcf.service.store.tables import deletions, feedback, merges, recommendations, users

LAST = 2**31 - 1
LONGEST_ID = 256
"""Characters of an event id."""
AT_ONCE = (512, 64)
"""Rows in one INSERT; below the last, any number: so few that a connection keeps all of them prepared."""
FORGET_LOCK = 0x69676367
"""Advisory lock of PostgreSQL that keeps the audit from being written while a user is deleted."""

_EVENTS = (
    sa.select(*(feedback.c[field.name] for field in fields(Event)))
    .where(feedback.c.user_id == sa.bindparam("user_id"))
    .where(feedback.c.revision > sa.bindparam("after"), feedback.c.revision <= sa.bindparam("until"))
    .order_by(feedback.c.revision)
)
_LOCK_POSTGRES = (
    "SELECT user_id, incarnation, revision, updated FROM users WHERE user_id = ANY(%s) ORDER BY user_id FOR UPDATE"
)
_LOCK_SQLITE = (  # all rows in one: the interpreter's lock is given back and taken again for every row
    "SELECT json_group_array(json_array(user_id, incarnation, revision, updated)) FROM users "
    "WHERE user_id IN (SELECT value FROM json_each(?))"
)
_STORED = (
    "SELECT f.user_id, f.event_id, f.item_id, f.value, f.recommendation_id, f.evidence, f.kind FROM {} feedback AS f "
    "ON f.user_id = asked.key AND f.event_id = asked.value"
)
_ASKED = {"sqlite": "json_each(?) AS asked CROSS JOIN", "postgresql": "json_each_text(%s) AS asked JOIN"}
_ADVANCE = "ON CONFLICT (user_id) DO UPDATE SET revision = excluded.revision, updated = excluded.updated"
_VALUES = attrgetter(*feedback.columns.keys()[1:])
"""All that a row of the log says of an event, but its user."""


def read_events(connection: sa.Connection, user_id: str, after: int = 0, until: int | None = None) -> list[Event]:
    """Read the log of a user with `after` < revision <= `until`, oldest first, retractions included."""
    asked = {"user_id": user_id, "after": after, "until": LAST if until is None else until}
    return [Event(*row) for row in connection.execute(_EVENTS, asked)]


def append(
    connection: sa.Connection, additions: Mapping[str, Sequence[NewEvent]], model: str, *, waits: bool = True
) -> dict[str, Appended]:
    """Add events to the logs of users, each event id once; the only function that adds rows to the log.

    `model` is that in service, stored beside each event. Without `waits`, users whom another server is changing are
    left out of the result.
    """
    now = _now()
    found = lock_users(connection, sorted(additions), waits=waits, create=True)
    stored = _stored_events(connection, {user_id: additions[user_id] for user_id in found if found[user_id].revision})
    appended: dict[str, Appended] = {}
    rows: list[tuple[Any, ...]] = []
    reached: list[tuple[Any, ...]] = []
    for user_id, user in found.items():
        arrived = max(now, user.updated)  # a clock that was set back must not change the order
        each = appended[user_id] = _number(user, additions[user_id], stored.get(user_id, {}), arrived, model)
        rows += [(user_id, *_VALUES(event)) for event in each.fresh]
        reached += [(user_id, *each.version, arrived)] if each.fresh else []
    insert_rows(connection, feedback, rows)
    insert_rows(connection, users, reached, _ADVANCE)
    empty = [user_id for user_id, each in appended.items() if not each.version[1]]
    if empty:  # a user without a reaction has no row
        connection.execute(sa.delete(users).where(users.c.user_id.in_(empty)))
    return appended


def _now() -> float:
    """Return the time in whole milliseconds, which JSON in SQLite keeps exactly."""
    return round(time.time(), 3)


def lock_users(
    connection: sa.Connection, user_ids: Sequence[str], *, waits: bool = True, create: bool = False
) -> dict[str, UserRow]:
    """Read users and keep other servers from changing them until the end of the transaction.

    Rows are locked in the order of their names, so that no two changes wait for each other. With `create`, users
    without a row are locked too: PostgreSQL gives them one at revision 0, in SQLite nobody else writes.
    """
    found = _lock(connection, user_ids, waits=waits)
    while create and (missing := [user_id for user_id in user_ids if user_id not in found]):
        new = [UserRow(user_id, uuid.uuid4().hex, updated=_now()) for user_id in missing]
        if connection.dialect.name == "sqlite":
            found |= {each.user_id: each for each in new}
            break
        rows = [(each.user_id, each.incarnation, 0, each.updated) for each in new]
        insert_rows(connection, users, rows, "ON CONFLICT DO NOTHING")
        found |= _lock(connection, missing, waits=waits)
        if not waits:
            break
    return {user_id: found[user_id] for user_id in user_ids if user_id in found}


def _lock(connection: sa.Connection, user_ids: Sequence[str], *, waits: bool) -> dict[str, UserRow]:
    rows: Iterable[Sequence[Any]]
    if connection.dialect.name == "sqlite":
        rows = json.loads(connection.exec_driver_sql(_LOCK_SQLITE, (json.dumps(user_ids),)).scalar_one())
    else:
        query = _LOCK_POSTGRES if waits else f"{_LOCK_POSTGRES} SKIP LOCKED"
        rows = connection.exec_driver_sql(query, (list(user_ids),)).all()
    return {row[0]: UserRow(*row) for row in rows}


def _stored_events(
    connection: sa.Connection, additions: Mapping[str, Sequence[NewEvent]]
) -> dict[str, dict[str, NewEvent]]:
    """Read what is stored under the event ids of new events, by user and event id."""
    asked = [(user_id, event.event_id) for user_id, each in additions.items() for event in each if event.event_id]
    if not asked:
        return {}
    # One object, which may name a user several times.
    pairs = ",".join([f"{json.dumps(user_id)}:{json.dumps(event_id)}" for user_id, event_id in asked])
    rows = connection.exec_driver_sql(_STORED.format(_ASKED[connection.dialect.name]), (f"{{{pairs}}}",))
    found: dict[str, dict[str, NewEvent]] = {}
    for user_id, *said in rows:
        found.setdefault(user_id, {})[said[0]] = NewEvent(*said)
    return found


def _number(
    user: UserRow, events: Sequence[NewEvent], stored: dict[str, NewEvent], arrived: float, model: str
) -> Appended:
    """Tell new events from those that are stored, and number the new ones."""
    fresh: list[Event] = []
    receipts: list[Receipt] = []
    for event in events:
        event_id = event.event_id or ""
        known = stored.get(event_id)
        if known is None:
            if event_id:
                stored[event_id] = event
            fresh.append(event.at(user.revision + len(fresh) + 1, arrived, model))
        conflict = None if known is None or known.agrees_with(event) else known
        receipts.append(Receipt(user.revision + len(fresh), known is not None, event_id, conflict))
    return Appended(user, receipts, fresh)


def insert_rows(
    connection: sa.Connection, table: sa.Table, rows: Sequence[tuple[Any, ...]], conflict: str = ""
) -> None:
    """Insert rows with values in the order of the table's columns, many in one statement."""
    start = 0
    while left := len(rows) - start:
        n = next((size for size in AT_ONCE if left >= size), left)
        statement = _insert(table, n, "?" if connection.dialect.name == "sqlite" else "%s", conflict)
        connection.exec_driver_sql(statement, tuple(itertools.chain.from_iterable(rows[start : start + n])))
        start += n


@cache
def _insert(table: sa.Table, n_rows: int, place: str, conflict: str) -> str:
    row = f"({', '.join([place] * len(table.columns))})"
    names = ", ".join(table.columns.keys())
    return f"INSERT INTO {table.name} ({names}) VALUES {', '.join([row] * n_rows)} {conflict}"  # noqa: S608


def retract(connection: sa.Connection, user_id: str, event_id: str, model: str) -> int | None:
    """Retract one reaction, once; return the revision of the retraction, None where there is no such reaction."""
    lock_users(connection, [user_id])
    log = feedback.c
    query = sa.select(log.revision, log.retracts).where(
        log.user_id == user_id, (log.event_id == event_id) | (log.retracts == event_id)
    )
    found = {retracts: int(revision) for revision, retracts in connection.execute(query)}
    if not found or event_id in found:  # this very server may ask again when the answer to its commit was lost
        return found.get(event_id)
    return append(connection, {user_id: [NewEvent(None, None, None, retracts=event_id)]}, model)[user_id].version[1]


def hold_audit(connection: sa.Connection, *, shared: bool) -> None:
    """Keep answers from being written while a user is deleted, and the other way round; SQLite has one writer."""
    if connection.dialect.name == "postgresql":
        lock = sa.func.pg_advisory_xact_lock_shared if shared else sa.func.pg_advisory_xact_lock
        connection.execute(sa.select(lock(FORGET_LOCK)))


def forget(connection: sa.Connection, user_id: str) -> int:
    """Delete everything about a user; return the number of rows that their log had."""
    hold_audit(connection, shared=False)
    lock_users(connection, [user_id], create=True)  # a first reaction comes before all of this, or after it
    deleted = connection.execute(sa.delete(feedback).where(feedback.c.user_id == user_id)).rowcount
    for table in (users, recommendations, merges):
        connection.execute(sa.delete(table).where(table.c.user_id == user_id))
    mark = {"user_hash": user_hash(user_id), "time": time.time()}
    connection.execute(sa.delete(merges).where(merges.c.visitor_hash == mark["user_hash"]))
    connection.execute(sa.delete(deletions).where(deletions.c.user_hash == mark["user_hash"]))
    connection.execute(sa.insert(deletions).values(mark))
    return int(deleted)


def merge(connection: sa.Connection, visitor: str, user_id: str, model: str) -> MergeReceipt:
    """Add what is in force of a visitor's log to that of a user, and delete the visitor.

    An event id that the user's log has with the same reaction is the same reaction; with another reaction, the
    visitor's is stored under an id made of both. A visitor who was merged into another user is refused.
    """
    hold_audit(connection, shared=False)
    lock_users(connection, sorted([visitor, user_id]), create=True)
    hashed = user_hash(visitor)
    before = connection.execute(sa.select(merges.c.user_id).where(merges.c.visitor_hash == hashed)).scalar()
    if before is not None and before != user_id:
        raise EventConflictError(f"visitor {visitor!r} was merged into another user before; nothing was changed")
    log, own_log = read_events(connection, visitor), read_events(connection, user_id)
    own: dict[str, NewEvent] = {event.event_id: event for event in own_log if event.event_id}
    own_attributes = attributes_in(in_force(own_log))
    events: list[NewEvent] = []
    moving = in_force(log)
    for event in moving:
        event_id = _free_id(event, own, hashed)
        if event_id is None:
            continue
        own[event_id] = event
        when, details = event.time, event.details
        if event.evidence == "attributes":  # united with the user's own, which come first, and dated now
            when, details = None, json.dumps({**json.loads(details or "{}"), **own_attributes}, sort_keys=True)
        new = NewEvent(
            event_id, event.item_id, event.value, event.recommendation_id, event.evidence, event.kind, when, None,
            event.model, details,
        )  # fmt: skip
        events.append(new)
    appended = append(connection, {user_id: events}, model)[user_id]
    answers = sa.select(
        *(sa.literal(user_id) if each.name == "user_id" else each for each in recommendations.columns)
    ).where(recommendations.c.user_id == visitor)
    connection.execute(sa.insert(recommendations).from_select(recommendations.columns.keys(), answers))
    forget(connection, visitor)
    if log or before is not None:
        connection.execute(sa.insert(merges).values(user_id=user_id, visitor_hash=hashed, time=time.time()))
    return MergeReceipt(
        user=user_id,
        revision=appended.version[1],
        moved=len(appended.fresh),
        known=len(moving) - len(events),
        duplicate=before is not None and not log,
    )


def _free_id(event: Event, own: Mapping[str, NewEvent], visitor_hash: str) -> str | None:
    """Find an event id that the user's log does not have; None where the log has this very reaction."""
    for number in itertools.count():
        tail = f":{visitor_hash[:16]}" + (f"-{number}" if number > 1 else "") if number else ""
        event_id = f"{(event.event_id or '')[: LONGEST_ID - len(tail)]}{tail}"
        if event_id not in own:
            return event_id
        if own[event_id].agrees_with(event):
            return None
    raise AssertionError
