"""Reading and changing users' logs, inside the caller's transaction.

Every change goes through `append`, which first locks the rows of its users, so that no other server changes them.
"""

import itertools
import json
import time
import uuid
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import ARRAY

from igcf.service.errors import EventConflictError
from igcf.service.models.responses import MergeReceipt
from igcf.service.store.records import (
    EVENT_COLUMNS,
    Appended,
    Event,
    NewEvent,
    Payload,
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
"""Rows in one INSERT of SQLite; below the last, any number: so few that a connection keeps all of them prepared."""
FORGET_LOCK = 0x69676367
"""Advisory lock of PostgreSQL that keeps the audit from being written while a user is deleted."""

_USER = sa.select(users).where(users.c.user_id == sa.bindparam("user_id"))
_EVENTS = (
    sa.select(*EVENT_COLUMNS)
    .where(feedback.c.user_id == sa.bindparam("user_id"))
    .where(feedback.c.revision > sa.bindparam("after"), feedback.c.revision <= sa.bindparam("until"))
    .order_by(feedback.c.revision)
)
_LOCKED = "SELECT user_id, incarnation, revision, updated FROM users WHERE user_id = ANY(:user_ids) "
_LOCK = {
    True: sa.text(f"{_LOCKED} ORDER BY user_id FOR UPDATE"),
    False: sa.text(f"{_LOCKED} ORDER BY user_id FOR UPDATE SKIP LOCKED"),
}
_LOCK_SQLITE = (  # all rows in one: the interpreter's lock is given back and taken again for every row
    "SELECT json_group_array(json_array(user_id, incarnation, revision, updated)) FROM users "
    "WHERE user_id IN (SELECT value FROM json_each(?))"
)
_CREATE = sa.text(
    "INSERT INTO users (user_id, incarnation, revision, updated) "
    "VALUES (:user_id, :incarnation, 0, :updated) ON CONFLICT DO NOTHING"
)
_STORED = "SELECT f.user_id, f.event_id, f.item_id, f.value, f.evidence, f.kind FROM "
_STORED_SQLITE = (
    f"{_STORED} json_each(?) AS asked CROSS JOIN feedback AS f ON f.user_id = asked.key AND f.event_id = asked.value"
)
_STORED_POSTGRES = sa.text(
    f"{_STORED} unnest(CAST(:user_ids AS text[]), CAST(:event_ids AS text[])) AS asked (user_id, event_id) "
    "JOIN feedback AS f ON f.user_id = asked.user_id AND f.event_id = asked.event_id"
)
_ADVANCE_SQLITE = (
    "UPDATE users SET revision = json_extract(new.value, '$[0]'), updated = json_extract(new.value, '$[1]') "
    "FROM json_each(?) AS new WHERE users.user_id = new.key"
)
_ADVANCE_POSTGRES = sa.text(
    "UPDATE users SET revision = new.revision, updated = new.updated FROM unnest(CAST(:user_ids AS text[]), "
    "CAST(:revisions AS integer[]), CAST(:updated AS double precision[])) AS new (user_id, revision, updated) "
    "WHERE users.user_id = new.user_id"
)
VERSIONS = sa.select(users.c.user_id, users.c.incarnation, users.c.revision).where(
    users.c.user_id == sa.any_(sa.bindparam("user_ids", type_=ARRAY(sa.Text)))
)


def read_user(connection: sa.Connection, user_id: str) -> UserRow:
    """Read the state of a user."""
    row = connection.execute(_USER, {"user_id": user_id}).first()
    return UserRow(user_id) if row is None else UserRow(*row)


def read_events(connection: sa.Connection, user_id: str, after: int = 0, until: int | None = None) -> list[Event]:
    """Read the log of a user with `after` < revision <= `until`, oldest first, retractions included."""
    asked = {"user_id": user_id, "after": after, "until": LAST if until is None else until}
    return [Event(*row) for row in connection.execute(_EVENTS, asked)]


def append(
    connection: sa.Connection, additions: Mapping[str, Sequence[NewEvent]], model: str, *, waits: bool = True
) -> dict[str, Appended]:
    """Add events to the logs of users, each event id once; the only function that adds rows to the log.

    Args:
        connection: in a transaction.
        additions: events by user.
        model: id of the model in service, stored beside each event.
        waits: whether to wait for users whom another server is changing; otherwise they are left out of the result.
    """
    now = _now()
    found = lock_users(connection, sorted(additions), waits=waits, create=True)
    stored = _stored_payloads(connection, {user_id: additions[user_id] for user_id in found if found[user_id].revision})
    appended: dict[str, Appended] = {}
    rows: list[tuple[Any, ...]] = []
    for user_id, user in found.items():
        arrived = max(now, user.updated)  # a clock that was set back must not change the order
        each = appended[user_id] = _number(user, additions[user_id], stored.get(user_id, {}), arrived, model)
        rows += [_row(user_id, event) for event in each.fresh]
    insert_rows(connection, feedback, rows)
    _advance(connection, {user_id: each.fresh[-1] for user_id, each in appended.items() if each.fresh})
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
    without a row get one at revision 0, so that they are locked too.
    """
    found = _lock(connection, user_ids, waits=waits)
    while create and (missing := [user_id for user_id in user_ids if user_id not in found]):
        now = _now()
        new = [UserRow(user_id, uuid.uuid4().hex, updated=now) for user_id in missing]
        if connection.dialect.name == "sqlite":  # nobody else writes
            insert_rows(connection, users, [(each.user_id, each.incarnation, 0, now) for each in new])
            found |= {each.user_id: each for each in new}
            break
        rows = [{"user_id": each.user_id, "incarnation": each.incarnation, "updated": now} for each in new]
        connection.execute(_CREATE, rows)
        found |= _lock(connection, missing, waits=waits)
        if not waits:
            break
    return {user_id: found[user_id] for user_id in user_ids if user_id in found}


def _lock(connection: sa.Connection, user_ids: Sequence[str], *, waits: bool) -> dict[str, UserRow]:
    rows: Iterable[Sequence[Any]]
    if connection.dialect.name == "sqlite":
        rows = json.loads(connection.exec_driver_sql(_LOCK_SQLITE, (json.dumps(user_ids),)).scalar_one())
    else:
        rows = connection.execute(_LOCK[waits], {"user_ids": list(user_ids)}).all()
    return {row[0]: UserRow(*row) for row in rows}


def _stored_payloads(
    connection: sa.Connection, additions: Mapping[str, Sequence[NewEvent]]
) -> dict[str, dict[str, Payload]]:
    """Read what is stored under the event ids of new events, by user and event id."""
    asked = [(user_id, event.event_id) for user_id, each in additions.items() for event in each if event.event_id]
    if not asked:
        return {}
    rows: Iterable[Sequence[Any]]
    if connection.dialect.name == "sqlite":  # an object that may name a user several times
        pairs = ",".join([f"{json.dumps(user_id)}:{json.dumps(event_id)}" for user_id, event_id in asked])
        rows = connection.exec_driver_sql(_STORED_SQLITE, (f"{{{pairs}}}",))
    else:
        user_ids, event_ids = zip(*asked, strict=True)
        rows = connection.execute(_STORED_POSTGRES, {"user_ids": list(user_ids), "event_ids": list(event_ids)})
    found: dict[str, dict[str, Payload]] = {}
    for user_id, event_id, *payload in rows:
        found.setdefault(user_id, {})[event_id] = Payload(*payload)
    return found


def _number(
    user: UserRow, events: Sequence[NewEvent], stored: dict[str, Payload], arrived: float, model: str
) -> Appended:
    """Tell new events from those that are stored, and number the new ones."""
    fresh: list[Event] = []
    receipts: list[Receipt] = []
    for event in events:
        event_id = event.event_id or ""
        known = stored.get(event_id)
        if known is None:
            if event_id:
                stored[event_id] = event.payload
            fresh.append(event.at(user.revision + len(fresh) + 1, arrived, model))
        conflict = None if known is None or known.agrees_with(event.payload) else known
        receipts.append(Receipt(user.revision + len(fresh), known is not None, event_id, conflict))
    return Appended(user, receipts, fresh)


def _row(user_id: str, event: Event) -> tuple[Any, ...]:
    return (
        user_id, event.revision, event.event_id, event.item_id, event.value, event.time, event.arrived, event.retracts,
        event.evidence, event.kind, event.recommendation_id, event.model, event.details,
    )  # fmt: skip


def insert_rows(connection: sa.Connection, table: sa.Table, rows: Sequence[tuple[Any, ...]]) -> None:
    """Insert rows with values in the order of the table's columns, many in one statement."""
    if connection.dialect.name != "sqlite":
        if rows:
            names = table.columns.keys()
            connection.execute(sa.insert(table), [dict(zip(names, row, strict=True)) for row in rows])
        return
    start = 0
    while left := len(rows) - start:
        n = next((size for size in AT_ONCE if left >= size), left)
        connection.exec_driver_sql(_insert(table, n), tuple(itertools.chain.from_iterable(rows[start : start + n])))
        start += n


@cache
def _insert(table: sa.Table, n_rows: int) -> str:
    row = f"({', '.join('?' * len(table.columns))})"
    return f"INSERT INTO {table.name} ({', '.join(table.columns.keys())}) VALUES {', '.join([row] * n_rows)}"  # noqa: S608


def _advance(connection: sa.Connection, last: Mapping[str, Event]) -> None:
    """Set the revision of users to that of the last row of their logs."""
    if not last:
        return
    if connection.dialect.name == "sqlite":
        new = json.dumps({user_id: (event.revision, event.arrived) for user_id, event in last.items()})
        connection.exec_driver_sql(_ADVANCE_SQLITE, (new,))
        return
    columns = {
        "revisions": [event.revision for event in last.values()],
        "updated": [event.arrived for event in last.values()],
    }
    connection.execute(_ADVANCE_POSTGRES, {"user_ids": list(last), **columns})


def retract(connection: sa.Connection, user_id: str, event_id: str, model: str) -> int | None:
    """Retract one reaction, once; return the revision of the retraction, None where there is no such reaction."""
    lock_users(connection, [user_id])
    log = feedback.c
    query = sa.select(log.revision, log.retracts).where(
        log.user_id == user_id, (log.event_id == event_id) | (log.retracts == event_id)
    )
    found = {retracts: int(revision) for revision, retracts in connection.execute(query)}
    if not found:
        return None
    if event_id in found:  # this very server may ask again when the answer to its commit was lost
        return found[event_id]
    return append(connection, {user_id: [NewEvent(None, None, None, retracts=event_id)]}, model)[user_id].version[1]


def forget(connection: sa.Connection, user_id: str) -> int:
    """Delete everything about a user; return the number of rows that their log had."""
    if connection.dialect.name == "postgresql":
        connection.execute(sa.select(sa.func.pg_advisory_xact_lock(FORGET_LOCK)))
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
    if connection.dialect.name == "postgresql":
        connection.execute(sa.select(sa.func.pg_advisory_xact_lock(FORGET_LOCK)))
    lock_users(connection, sorted([visitor, user_id]), create=True)
    hashed = user_hash(visitor)
    before = connection.execute(sa.select(merges.c.user_id).where(merges.c.visitor_hash == hashed)).scalar()
    if before is not None and before != user_id:
        raise EventConflictError(f"visitor {visitor!r} was merged into another user before; nothing was changed")
    log = read_events(connection, visitor)
    own = {event.event_id: _payload(event) for event in read_events(connection, user_id) if event.event_id}
    own_attributes = attributes_in(in_force(read_events(connection, user_id)))
    events: list[NewEvent] = []
    moving = in_force(log)
    for event in moving:
        event_id = _free_id(event, own, hashed)
        if event_id is not None:
            own[event_id] = _payload(event)
            events.append(
                NewEvent(
                    event_id,
                    event.item_id,
                    event.value,
                    event.recommendation_id,
                    event.evidence,
                    event.kind,
                    None if event.evidence == "attributes" else event.time,  # merged with the user's own, dated now
                    model=event.model,
                    details=_united(event, own_attributes),
                )
            )
    appended = append(connection, {user_id: events}, model)[user_id]
    answers = sa.select(
        *(sa.literal(user_id) if each.name == "user_id" else each for each in recommendations.columns)
    ).where(recommendations.c.user_id == visitor)
    connection.execute(sa.insert(recommendations).from_select(recommendations.columns.keys(), answers))
    forget(connection, visitor)
    if log or before is not None:
        connection.execute(sa.insert(merges).values(user_id=user_id, visitor_hash=hashed, time=time.time()))
    is_repeated = before is not None and not log
    return MergeReceipt(
        user=user_id,
        revision=appended.version[1],
        moved=len(appended.fresh),
        known=len(moving) - len(events),
        duplicate=is_repeated,
    )


def _united(event: Event, own: Mapping[str, Any]) -> str | None:
    """Return the details of a visitor's event; attributes that the user has of their own come before the visitor's."""
    if event.evidence != "attributes" or event.details is None:
        return event.details
    return json.dumps({**json.loads(event.details), **own}, sort_keys=True)


def _payload(event: Event) -> Payload:
    return Payload(event.item_id, event.value, event.evidence, event.kind)


def _free_id(event: Event, own: Mapping[str, Payload], visitor_hash: str) -> str | None:
    """Find an event id that the user's log does not have; None where the log has this very reaction."""
    for number in itertools.count():
        tail = f":{visitor_hash[:16]}" + (f"-{number}" if number > 1 else "") if number else ""
        event_id = f"{(event.event_id or '')[: LONGEST_ID - len(tail)]}{tail}"
        if event_id not in own:
            return event_id
        if own[event_id].agrees_with(_payload(event)):
            return None
    raise AssertionError
