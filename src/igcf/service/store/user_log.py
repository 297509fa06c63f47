"""Reading and changing the logs of users, inside a transaction of the caller's.

A change first locks the rows of its users, so that nobody else, here or on another server, changes them meanwhile.
"""

import json
import time
import uuid
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import sqlalchemy as sa

from igcf.service.store import statements
from igcf.service.store.records import (
    NEUTRAL_DRIFT,
    Appended,
    Event,
    LearnedState,
    NewEvent,
    NewRow,
    Payload,
    Receipt,
    SavedBelief,
    UserRow,
)
from igcf.service.store.rows import advance, insert_values
from igcf.service.store.tables import feedback, users

LAST = 2**31 - 1
Known = defaultdict[str, dict[str, Payload]]
"""What is stored, by user and event id."""


def read_user(connection: sa.Connection, user_id: str) -> UserRow | None:
    """Read the row of a user and the saved belief, without waiting for those who change them."""
    row = connection.execute(statements.USER, {"user_id": user_id}).first()
    return None if row is None else UserRow(*row[:4], saved=None if row[4] is None else SavedBelief(*row[4:]))


def lock_users(connection: sa.Connection, user_ids: Sequence[str], *, waits: bool = True) -> dict[str, UserRow]:
    """Read born and revision of users and keep them from being changed elsewhere.

    Several users are locked in the order of their names, so that no two changes wait for each other. Without `waits`,
    users who are being changed elsewhere are left out.
    """
    found: Iterable[Sequence[Any]]
    if connection.dialect.name == "sqlite":
        found = json.loads(connection.exec_driver_sql(statements.LOCK_SQLITE, (json.dumps(user_ids),)).scalar_one())
    else:
        found = connection.execute(*statements.lock_rows(user_ids, waits=waits))
    return {user_id: UserRow(user_id, born, revision) for user_id, born, revision in found}


def hold_user(connection: sa.Connection, user_id: str) -> UserRow | None:
    """Keep a user from being changed elsewhere, also one without a row, who might get one meanwhile (PostgreSQL).

    Such a user has a row at revision 0 then, which the caller deletes.
    """
    if connection.dialect.name == "sqlite":
        return lock_users(connection, [user_id]).get(user_id)
    return _lock_or_create_users(connection, [user_id], waits=True)[user_id]


def read_events(connection: sa.Connection, user_id: str, after: int = 0, until: int | None = None) -> list[Event]:
    """Read the log of a user with `after` < revision <= `until`, oldest first, retractions included."""
    asked = {"user_id": user_id, "after": after, "until": LAST if until is None else until}
    return [Event(*row) for row in connection.execute(statements.EVENTS, asked)]


def append_events(
    connection: sa.Connection, additions: Mapping[str, Sequence[NewEvent]], model: str, *, waits: bool = True
) -> dict[str, Appended]:
    """Add the reactions of some users that are not in their logs yet.

    Args:
        connection: in a transaction.
        additions: reactions by user.
        model: id of the model in service, kept beside each reaction.
        waits: whether to wait for users who are being changed elsewhere; otherwise the answer lacks them.
    """
    now = time.time()
    if connection.dialect.name == "sqlite":
        return _append_sqlite(connection, additions, model, now)
    found = _lock_or_create_users(connection, sorted(additions), waits=waits)
    mine = {user_id: events for user_id, events in additions.items() if user_id in found}
    known: Known = defaultdict(dict)
    if any(user.revision for user in found.values()):
        _take_note(known, connection.execute(*statements.known_events(mine)))
    appended = {user_id: _sorted_out(found[user_id], events, known, now) for user_id, events in mine.items()}
    rows = [_row(user_id, model, event) for user_id, each in appended.items() for event in each.fresh]
    if rows:
        insert_values(connection, feedback, rows)
        advance(connection, {user_id: each.version[1] for user_id, each in appended.items() if each.fresh}, now)
    unchanged = [user_id for user_id, each in appended.items() if not each.version[1]]
    if unchanged:  # somebody without a reaction has no row
        connection.execute(sa.delete(users).where(users.c.user_id.in_(unchanged)))
    return appended


def _append_sqlite(
    connection: sa.Connection, additions: Mapping[str, Sequence[NewEvent]], model: str, now: float
) -> dict[str, Appended]:
    """Add reactions where nobody else writes meanwhile: one query, and one change to each table."""
    (names, *_), *stored = connection.exec_driver_sql(statements.FOUND_SQLITE, statements.found_sqlite(additions))
    found = {user_id: UserRow(user_id, born, revision) for user_id, born, revision in json.loads(names)}
    known: Known = defaultdict(dict)
    _take_note(known, stored)
    appended: dict[str, Appended] = {}
    rows: list[tuple[Any, ...]] = []
    new: list[tuple[Any, ...]] = []
    advanced: dict[str, int] = {}
    for user_id, events in sorted(additions.items()):  # neighbours in the tables, which are sorted too
        user = found.get(user_id) or UserRow(user_id, uuid.uuid4().hex)
        each = appended[user_id] = _sorted_out(user, events, known, now)
        if not each.fresh:
            continue
        rows += [_row(user_id, model, event) for event in each.fresh]
        if user.revision:
            advanced[user_id] = each.version[1]
        else:
            new.append((user_id, user.born, each.version[1], NEUTRAL_DRIFT, now))
    insert_values(connection, feedback, rows)
    insert_values(connection, users, new)
    if advanced:
        advance(connection, advanced, now)
    return appended


def _take_note(known: Known, rows: Iterable[Sequence[Any]]) -> None:
    for user_id, event_id, *said in rows:
        known[user_id][event_id] = Payload(*said)


def _sorted_out(user: UserRow, events: Sequence[NewEvent], known: Known, now: float) -> Appended:
    """Tell new reactions from those that are stored, and number the new ones."""
    before, mine = user.revision, known.get(user.user_id)
    if mine is None and len(events) == 1:  # most of them
        (event,) = events
        return Appended(user, [Receipt(before + 1, False, event.event_id)], [event.at(before + 1, now)])
    mine = {} if mine is None else mine
    fresh: list[NewRow] = []
    receipts: list[Receipt] = []
    for event in events:
        stored = mine.get(event.event_id)
        if stored is None:
            mine[event.event_id] = event.payload
            fresh.append(event.at(before + len(fresh) + 1, now))
        conflict = None if stored is None or stored.agrees_with(event.payload) else stored
        receipts.append(Receipt(before + len(fresh), stored is not None, event.event_id, conflict))
    return Appended(user, receipts, fresh)


def retract_event(connection: sa.Connection, user_id: str, event_id: str, model: str) -> int | None:
    """Take one reaction back; returns the revision at which it was, None when it is not in the log.

    One that was taken back before stays so: whoever did not hear of it may ask again, also this server itself, when the
    answer to its commit was lost. The saved belief is removed: the next reader computes it from what is left.
    """
    user = lock_users(connection, [user_id]).get(user_id)
    mine = feedback.c.user_id == user_id
    found = sa.select(sa.func.count()).where(mine, feedback.c.event_id == event_id)
    if user is None or not connection.execute(found).scalar_one():
        return None
    done = sa.select(sa.func.min(feedback.c.revision)).where(mine, feedback.c.retracts == event_id)
    before: int | None = connection.execute(done).scalar_one()
    if before is not None:
        return before
    now = time.time()
    row = NewRow(user.revision + 1, None, None, None, now, retracts=event_id)
    insert_values(connection, feedback, [_row(user_id, model, row)])
    advance(connection, {user_id: row.revision}, now)
    connection.execute(statements.DROP_BELIEF, {"user_id": user_id})
    return row.revision


def save_states(connection: sa.Connection, states: Mapping[str, LearnedState]) -> set[str]:
    """Keep what was learned of some users beside their logs; returns those who were saved.

    Users who are being changed elsewhere are left for another time, those who were deleted meanwhile for good.
    """
    found = lock_users(connection, sorted(states), waits=False)
    mine = [states[user_id] for user_id, user in found.items() if states[user_id].born == user.born]
    if mine:
        connection.execute(statements.DRIFT, [{"user_id": each.user_id, "drift": each.drift} for each in mine])
    rows = [
        {
            "user_id": each.user_id,
            "model": each.belief.model,
            "revision": each.belief.revision,
            "drift": each.belief.drift,
            "belief": each.belief.content,
        }
        for each in mine
        if each.belief is not None
    ]
    if rows:
        connection.execute(statements.SAVE_BELIEF, rows)
    return {each.user_id for each in mine}


def _lock_or_create_users(connection: sa.Connection, user_ids: Sequence[str], *, waits: bool) -> dict[str, UserRow]:
    found = lock_users(connection, user_ids, waits=waits)
    missing = [user_id for user_id in user_ids if user_id not in found]
    while missing:  # a row that another server inserts or deletes meanwhile is met in the next turn
        now = time.time()
        new = [{"user_id": each, "born": uuid.uuid4().hex, "drift": NEUTRAL_DRIFT, "updated": now} for each in missing]
        connection.execute(statements.CREATE, new)
        found |= lock_users(connection, missing, waits=waits)
        missing = [user_id for user_id in missing if user_id not in found] if waits else []
    return found


def _row(user_id: str, model: str, row: NewRow) -> tuple[Any, ...]:
    """Put a row of the log in the order of the columns of `feedback`."""
    told = (user_id, row.revision, row.event_id, row.item_id, row.value, row.time, row.recommendation_id)
    return (*told, model, row.retracts, row.evidence, row.kind)
