"""Reading and changing the log of one user, inside a transaction of the caller's.

A change first locks the user's row, so that nobody else, here or on another server, changes this user meanwhile.
"""

import time
import uuid
from collections.abc import Sequence
from functools import partial
from typing import Any

import sqlalchemy as sa

from igcf.service.store import statements
from igcf.service.store.records import (
    NEUTRAL_DRIFT,
    Appended,
    Event,
    Learn,
    Learned,
    NewEvent,
    Payload,
    Receipt,
    StoredBelief,
    UserRow,
)
from igcf.service.store.tables import feedback, users

LAST = 2**31 - 1


def read_user(connection: sa.Connection, user_id: str) -> UserRow | None:
    """Read the row of a user, without waiting for those who change it."""
    row = connection.execute(statements.USER, {"user_id": user_id}).first()
    return None if row is None else UserRow(*row)


def lock_user(connection: sa.Connection, user_id: str) -> UserRow | None:
    """Read the row of a user and keep it from being changed elsewhere; SQLite has one writer at a time anyway."""
    is_postgres = connection.dialect.name == "postgresql"
    row = connection.execute(statements.USER_LOCKED if is_postgres else statements.USER, {"user_id": user_id}).first()
    return None if row is None else UserRow(*row)


def read_events(connection: sa.Connection, user_id: str, after: int = 0, until: int | None = None) -> list[Event]:
    """Read the log of a user with `after` < revision <= `until`, oldest first, retractions included."""
    asked = {"user_id": user_id, "after": after, "until": LAST if until is None else until}
    return [Event(*row) for row in connection.execute(statements.EVENTS, asked)]


def append_events(
    connection: sa.Connection, user_id: str, events: Sequence[NewEvent], learn: Learn[Learned]
) -> Appended[Learned]:
    """Add the reactions that are not in the log yet, and save the belief that `learn` computes from them."""
    user = _lock_or_create_user(connection, user_id)
    asked = {"user_id": user_id, "event_ids": [event.event_id for event in events]}
    known = {str(row[0]): Payload(*row[1:]) for row in connection.execute(statements.KNOWN, asked)}
    fresh: list[NewEvent] = []
    receipts: list[Receipt] = []
    for event in events:
        stored = known.get(event.event_id)
        if stored is None:
            known[event.event_id] = event.payload
            fresh.append(event)
        conflict = None if stored is None or stored.agrees_with(event.payload) else stored
        receipts.append(Receipt(user.revision + len(fresh), stored is not None, event.event_id, conflict))
    if not fresh:
        _drop_if_new(connection, user)
        return Appended(user, receipts, fresh, None)
    learned = learn(user, partial(read_events, connection, user_id), fresh)
    rows = [
        _row(user, user.revision + number, learned.model, **vars(event)) for number, event in enumerate(fresh, start=1)
    ]
    _write(connection, user, rows, learned)
    return Appended(user, receipts, fresh, learned)


def retract_event(connection: sa.Connection, user_id: str, event_id: str, model: str) -> int | None:
    """Take one reaction back; returns the new revision, None when it is not in the log or was taken back before.

    The belief is removed: the next reader computes it from what is left.
    """
    user = _lock_or_create_user(connection, user_id)
    mine = feedback.c.user_id == user_id
    found = sa.select(sa.func.count()).where(mine, feedback.c.event_id == event_id)
    done = sa.select(sa.func.count()).where(mine, feedback.c.retracts == event_id)
    if not connection.execute(found).scalar_one() or connection.execute(done).scalar_one():
        _drop_if_new(connection, user)
        return None
    _write(connection, user, [_row(user, user.revision + 1, model, retracts=event_id)], None)
    return user.revision + 1


def _lock_or_create_user(connection: sa.Connection, user_id: str) -> UserRow:
    row = lock_user(connection, user_id)
    while row is None:  # a row that another server inserts or deletes meanwhile is met in the next turn
        connection.execute(
            sa.text(
                "INSERT INTO users (user_id, born, revision, drift, updated) "
                "VALUES (:user_id, :born, 0, :drift, :updated) ON CONFLICT DO NOTHING"
            ),
            {"user_id": user_id, "born": uuid.uuid4().hex, "drift": NEUTRAL_DRIFT, "updated": time.time()},
        )
        row = lock_user(connection, user_id)
    return row


def _drop_if_new(connection: sa.Connection, user: UserRow) -> None:
    """Leave a user to whom nothing happened as they were: somebody without a reaction has no row."""
    if user.revision == 0:
        connection.execute(sa.delete(users).where(users.c.user_id == user.user_id))


def _row(user: UserRow, revision: int, model: str, **columns: Any) -> dict[str, Any]:
    empty = dict.fromkeys(("event_id", "item_id", "value", "recommendation_id", "retracts", "kind"))
    row = empty | {"evidence": "shown", "user_id": user.user_id, "revision": revision, "model": model} | columns
    return row | {"time": time.time() if row.get("time") is None else row["time"]}


def _write(connection: sa.Connection, user: UserRow, rows: list[dict[str, Any]], belief: StoredBelief | None) -> None:
    """Add rows to the log and bring the user's row to the last of them; without a belief, the saved one is removed."""
    connection.execute(statements.APPEND, rows)
    connection.execute(
        statements.SAVE,
        {
            "of_user": user.user_id,
            "new_revision": rows[-1]["revision"],
            "new_model": None if belief is None else belief.model,
            "new_belief": None if belief is None else belief.content,
            "new_drift": user.drift if belief is None else belief.drift,
            "now": time.time(),
        },
    )
