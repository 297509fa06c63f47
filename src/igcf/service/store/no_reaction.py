"""Items that were shown and drew nothing in time: counted by the service itself as shown without a reaction."""

import json
from hashlib import sha256
from typing import Any

import sqlalchemy as sa

from igcf.service.store.database import Database
from igcf.service.store.log import FORGET_LOCK, append, lock_users, read_events
from igcf.service.store.records import Appended, NewEvent, in_force
from igcf.service.store.tables import recommendations

AT_ONCE = 200
"""Answers in one transaction: it is short, since others wait for it."""
LOCK = 0x69676368
"""Advisory lock of PostgreSQL under which one server at a time counts."""


def count_ignored(database: Database, now: float) -> dict[str, Appended]:
    """Count the answers that are due by `now`, at most `AT_ONCE`; return what was added to the log by user.

    An item counts as ignored unless the user has reacted to it, or has skipped it or undone a reaction to it since it
    was shown. The event id is derived from answer and item, and a later reaction replaces the event like any earlier
    one, so that repeating this changes nothing.
    """
    is_due = recommendations.c.due <= now
    query = sa.select(sa.exists().where(is_due))
    if not database.read(lambda connection: connection.execute(query).scalar_one()):
        return {}
    return database.write(lambda connection: _count(connection, is_due))


def _count(connection: sa.Connection, is_due: sa.ColumnElement[bool]) -> dict[str, Appended]:
    if connection.dialect.name == "postgresql":
        if not connection.execute(sa.select(sa.func.pg_try_advisory_xact_lock(LOCK))).scalar_one():
            return {}
        connection.execute(sa.select(sa.func.pg_advisory_xact_lock_shared(FORGET_LOCK)))  # blocks deletions
    query = sa.select(recommendations).where(is_due).order_by(recommendations.c.due).limit(AT_ONCE)
    answers = connection.execute(query).all()
    user_ids = sorted({answer.user_id for answer in answers})
    lock_users(connection, user_ids)
    known = {user_id: _known(connection, user_id) for user_id in user_ids}  # once: a log may be long
    additions: dict[str, list[NewEvent]] = {}
    for answer in answers:
        additions.setdefault(answer.user_id, []).extend(_ignored(answer, *known[answer.user_id]))
    appended = append(connection, {user_id: events for user_id, events in additions.items() if events}, "")
    key = (recommendations.c.user_id, recommendations.c.recommendation_id)
    keys = [(answer.user_id, answer.recommendation_id) for answer in answers]
    connection.execute(sa.update(recommendations).where(sa.tuple_(*key).in_(keys)).values(due=None))
    return appended


def _known(connection: sa.Connection, user_id: str) -> tuple[set[str | None], dict[str | None, float]]:
    """Return the items that a user has reacted to, and when the last event about each item arrived."""
    events = read_events(connection, user_id)
    done = {event.item_id for event in in_force(events) if event.evidence != "skip"}
    return done, {event.item_id: event.arrived for event in events}


def _ignored(answer: Any, done: set[str | None], arrived: dict[str | None, float]) -> list[NewEvent]:
    """Return an event for each item of an answer that drew nothing, and add these items to `done`."""
    since = answer.time - 0.001  # stored in milliseconds
    shown = dict.fromkeys(each["item"] for each in json.loads(answer.items))
    items = [item for item in shown if item not in done and arrived.get(item, since) <= since]
    done.update(items)
    return [
        NewEvent(
            f"ignored:{answer.recommendation_id}:{sha256(item.encode()).hexdigest()[:16]}",
            item,
            None,
            answer.recommendation_id,
            time=answer.due,
            model=answer.model,
        )
        for item in items
    ]
