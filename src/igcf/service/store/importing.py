"""Loading a whole log of reactions: many users in one transaction, every reaction once however often it is repeated."""

import hashlib
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import sqlalchemy as sa

from igcf.service.store.database import Database
from igcf.service.store.records import NEUTRAL_DRIFT, NewEvent
from igcf.service.store.rows import advance
from igcf.service.store.statements import CREATE, DROP_BELIEF
from igcf.service.store.store import Store
from igcf.service.store.tables import feedback, users

if TYPE_CHECKING:
    from igcf.arrays import FloatArray
    from igcf.data import Interactions

BATCH = 10_000
"""Reactions in one transaction, give or take the last user's."""
ASKED_AT_ONCE = 500
"""Users that one query names; databases bound the number of parameters."""
_REVISIONS = sa.select(users.c.user_id, users.c.revision).where(
    users.c.user_id.in_(sa.bindparam("user_ids", expanding=True))
)
_EVENT_IDS = sa.select(feedback.c.user_id, feedback.c.event_id).where(
    feedback.c.user_id.in_(sa.bindparam("user_ids", expanding=True)), feedback.c.event_id.is_not(None)
)


@dataclass(frozen=True)
class UserLog:
    """The logged reactions of one user."""

    user_id: str
    events: Sequence[NewEvent]


def logged_event_id(user_id: str, item_id: str, value: float | None, when: float | None) -> str:
    """Make an event id out of what a logged reaction says, so that a repeated import counts once."""
    number = "" if value is None else f"{value:.6g}"  # six digits: a log keeps values as float32
    moment = "" if when is None else f"{when:.3f}"
    said = "\x1f".join((user_id, item_id, number, moment))
    return f"log-{hashlib.blake2b(said.encode(), digest_size=16).hexdigest()}"


@dataclass(frozen=True)
class Imported:
    """What an import did."""

    users: int
    reactions: int
    """Reactions in the log that was read."""
    stored: int
    """Reactions that were not in the store before."""


def import_interactions(
    store: Store, data: "Interactions", model: str, report: Callable[[int], None] = lambda _: None
) -> Imported:
    """Store a whole log as logged reactions, in durable batches; killed and repeated, it stores every reaction once.

    Args:
        store: where to.
        data: the log.
        model: id of the model in service, kept beside each reaction.
        report: called after each batch with the number of reactions done.
    """
    stored = done = 0
    batch: list[UserLog] = []
    waiting = 0
    for log in _user_logs(data):
        batch.append(log)
        waiting += len(log.events)
        if waiting >= BATCH:
            stored += import_logs(store.database, batch, model)
            done += waiting
            report(done)
            batch, waiting = [], 0
    stored += import_logs(store.database, batch, model)
    report(done + waiting)
    return Imported(data.n_users, len(data), stored)


def _user_logs(data: "Interactions") -> Iterator[UserLog]:
    order = np.argsort(data.user_idx, kind="stable")
    ends = np.cumsum(np.bincount(data.user_idx, minlength=data.n_users)).tolist()
    items, item_rows = data.item_ids, data.item_idx[order].tolist()
    # Shortest decimal text of a float32, read again: 3.7 is stored as 3.7.
    distinct, which = np.unique(data.values[order], return_inverse=True)
    numbers, places = [float(str(value)) for value in distinct], which.tolist()
    times = _seconds(data, order)
    start = 0
    for user_id, end in zip(data.user_ids, ends, strict=True):
        events = []
        for n in range(start, end):
            item_id, value, when = items[item_rows[n]], numbers[places[n]], times[n]
            events.append(NewEvent(logged_event_id(user_id, item_id, value, when), item_id, value, time=when))
        start = end
        if events:
            yield UserLog(user_id, events)


def _seconds(data: "Interactions", order: "np.ndarray[tuple[int], np.dtype[np.int64]]") -> list[float | None]:
    """Return the times in seconds, in the order `order`; None where a time is unknown."""
    from igcf.data.interactions import MISSING_TIME

    if data.timestamps is None:
        return [None] * len(order)
    times = data.timestamps[order]
    is_known = times != MISSING_TIME
    largest = int(np.abs(times[is_known]).max(initial=0))
    seconds: FloatArray = times / time_unit(largest)
    return [second if known else None for second, known in zip(seconds.tolist(), is_known.tolist(), strict=True)]


def time_unit(largest: int) -> float:
    """Return how many units of a log's times a second has; numbers too large for seconds are milli- or microseconds."""
    return 1e6 if largest > 1e14 else 1e3 if largest > 1e11 else 1.0


def import_logs(database: Database, logs: Sequence[UserLog], model: str) -> int:
    """Add logged reactions of many users in one transaction; returns how many were not in the log before.

    The saved beliefs of these users are removed: the next reader computes them from the log.
    """
    return database.write(lambda connection: _import(connection, logs, model))


def _import(connection: sa.Connection, logs: Sequence[UserLog], model: str) -> int:
    now = time.time()
    found = _lock_users(connection, sorted(log.user_id for log in logs), now)
    known = _known_events(connection, [user_id for user_id, revision in found.items() if revision])
    rows, unchanged = [], []
    advanced: dict[str, int] = {}
    for log in logs:
        seen, revision = known.get(log.user_id, set()), found[log.user_id]
        for event in log.events:
            if event.event_id in seen:
                continue
            seen.add(event.event_id)
            revision += 1
            rows.append(
                {
                    "user_id": log.user_id,
                    "revision": revision,
                    "event_id": event.event_id,
                    "item_id": event.item_id,
                    "value": event.value,
                    "time": now if event.time is None else event.time,
                    "model": model,
                    "evidence": "logged",
                    "kind": event.kind,
                }
            )
        if revision > found[log.user_id]:
            advanced[log.user_id] = revision
        elif not revision:
            unchanged.append(log.user_id)
    if rows:
        connection.execute(sa.insert(feedback), rows)
        advance(connection, advanced, now)
        connection.execute(DROP_BELIEF, [{"user_id": user_id} for user_id in advanced])
    if unchanged:  # somebody without a reaction has no row
        connection.execute(sa.delete(users).where(users.c.user_id.in_(unchanged)))
    return len(rows)


def _lock_users(connection: sa.Connection, user_ids: Sequence[str], now: float) -> dict[str, int]:
    """Read the revisions of users, creating those who are new; sorted names keep two imports from a deadlock."""
    new = [
        {"user_id": user_id, "born": uuid.uuid4().hex, "drift": NEUTRAL_DRIFT, "updated": now} for user_id in user_ids
    ]
    if new:
        connection.execute(CREATE, new)
    query = _REVISIONS.order_by(users.c.user_id)
    if connection.dialect.name == "postgresql":
        query = query.with_for_update()
    found: dict[str, int] = {}
    for part in _parts(user_ids):
        found |= {row.user_id: row.revision for row in connection.execute(query, {"user_ids": part})}
    missing = [user_id for user_id in user_ids if user_id not in found]  # deleted by another server meanwhile
    return found | _lock_users(connection, missing, now) if missing else found


def _known_events(connection: sa.Connection, user_ids: Sequence[str]) -> dict[str, set[str]]:
    known: dict[str, set[str]] = {user_id: set() for user_id in user_ids}
    for part in _parts(user_ids):
        for user_id, event_id in connection.execute(_EVENT_IDS, {"user_ids": part}):
            known[user_id].add(event_id)
    return known


def _parts(user_ids: Sequence[str]) -> Iterator[list[str]]:
    for start in range(0, len(user_ids), ASKED_AT_ONCE):
        yield list(user_ids[start : start + ASKED_AT_ONCE])
