"""The audit: every answer given, written by a thread so that answers do not wait, and the items that drew nothing."""

import json
import logging
import threading
import time
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

import sqlalchemy as sa
from pydantic_core import to_json

from igcf.errors import StoreError
from igcf.service.errors import OverloadedError
from igcf.service.store.database import Database
from igcf.service.store.log import append, hold_audit, insert_rows, lock_users, read_events
from igcf.service.store.records import Appended, NewEvent, in_force, user_hash
from igcf.service.store.store import Store
from igcf.service.store.tables import deletions, recommendations

BATCH = 500
PAUSE_S = 0.5
"""Between two turns of writing: few large transactions, since reactions wait for them; a crash loses so much of it."""
KEPT_ITEMS = 20
"""Items of one answer that the audit keeps, the first ones: a small request may ask for a large answer."""
KEPT_DIGITS = 6
"""Decimals of the numbers that it keeps."""
DELETED_AT_ONCE = 1_000
"""Old answers that one transaction deletes, so that nobody waits for long."""
FORGET_GRACE_S = 60.0
"""How long the hash of a deleted user is kept, so that answers still in a queue are not written; nor are, for so long,
those to a returning user."""
TIDY_EVERY_S = 10.0
COUNTED_AT_ONCE = 200
"""Answers whose ignored items one transaction counts: it is short, since others wait for it."""
COUNT_LOCK = 0x69676369
"""Advisory lock of PostgreSQL under which one server at a time counts."""

log = logging.getLogger("igcf.service")


@dataclass(frozen=True)
class Answer:
    """One recommendation as it was given."""

    recommendation_id: str
    user_id: str
    model: str
    revision: int
    policy: str
    propensity: str
    """`exact`, or `estimated` from repeated draws"""
    items: list[dict[str, Any]]
    time: float
    experiment: str | None = None
    arm: str | None = None
    due: float | None = None
    """From when on items without a reaction count as ignored; None: never."""


class AuditLog:
    """A bounded list and its writer; what is still in the list is lost in a crash, and only then.

    The writer wakes by the clock: waking it for every answer would cost more than the answer.
    """

    def __init__(self, store: Store, *, size: int, wait_s: float = 15.0, days: float | None = None) -> None:
        """Start the writer.

        At most `size` answers wait, a flush at most `wait_s` for another one. Answers older than `days` are deleted, a
        few at a time; None keeps them all.
        """
        self._store, self._size, self._wait_s, self._days = store, size, wait_s, days
        self._tidy_from = 0.0
        """When to look for old answers and old marks of deletions again, by the monotonic clock."""
        self._answers: list[Answer] = []
        self._first_seen: dict[tuple[str, float], float] = {}
        """When this process first read each mark of a deletion, by the monotonic clock: other clocks may be set."""
        self._lock = threading.Lock()
        self._writing = threading.Lock()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="igcf-audit", daemon=True)
        self._thread.start()

    def add(self, answer: Answer) -> None:
        """Take an answer; refuses when the store does not keep up."""
        with self._lock:
            if len(self._answers) >= self._size:
                raise OverloadedError("the audit log cannot keep up; try again later")
            self._answers.append(answer)

    @property
    def waiting(self) -> int:
        """Answers not yet written."""
        return len(self._answers)

    def flush(self) -> None:
        """Write everything taken so far; what cannot be written stays."""
        if not self._writing.acquire(timeout=self._wait_s):
            raise StoreError(f"the audit log was not written within {self._wait_s:g} s")
        try:
            while batch := self._answers[:BATCH]:
                self._write(batch)
                with self._lock:
                    del self._answers[: len(batch)]
        finally:
            self._writing.release()

    def follow(self) -> set[str]:
        """Return the hashes of users deleted within about the last minute, as the store has them."""
        found, now = self._store.deletions(), time.monotonic()
        self._first_seen = {each: self._first_seen.get(each, now) for each in found.items()}
        return set(found)

    def close(self) -> None:
        """Write what is left and stop."""
        self._stop.set()
        self._thread.join(timeout=15)

    def _run(self) -> None:
        is_stopping = False
        while not is_stopping:
            is_stopping = self._stop.wait(PAUSE_S)
            try:
                self.flush()
                self._tidy()
            except Exception as error:  # a writer that is gone would be noticed only when the list is full
                told = {"reason": str(error), "answers": self.waiting}
                log.error("audit log not written", extra=told, exc_info=not isinstance(error, StoreError))
                self._stop.wait(1.0)

    def _tidy(self) -> None:
        """Delete a few of the answers that are too old, and marks known for a minute; also when idle."""
        now = time.monotonic()
        if now < self._tidy_from:
            return
        self._tidy_from = now + TIDY_EVERY_S
        database = self._store.database
        self.follow()
        old = [hashed for (hashed, _), seen in self._first_seen.items() if now - seen > FORGET_GRACE_S]
        if old:
            statement = sa.delete(deletions).where(deletions.c.user_hash.in_(old[:DELETED_AT_ONCE]))
            database.write_and_erase(lambda connection: connection.execute(statement))
        if self._days is not None:
            n = delete_answers(database, before=time.time() - self._days * 86_400)
            self._tidy_from = now if n == DELETED_AT_ONCE else self._tidy_from  # the others in the next turn

    def _write(self, batch: list[Answer]) -> None:
        # All that can be done before the transaction: others wait for it.
        hashes = {answer.user_id: user_hash(answer.user_id) for answer in batch}
        rows = [_row(answer) for answer in batch]

        def work(connection: sa.Connection) -> None:
            hold_audit(connection, shared=True)
            gone = set(connection.execute(sa.select(deletions.c.user_hash)).scalars())
            new = [row for answer, row in zip(batch, rows, strict=True) if hashes[answer.user_id] not in gone]
            # An earlier attempt may have committed some of them though the answer to its commit was lost.
            insert_rows(connection, recommendations, new, "ON CONFLICT DO NOTHING")

        self._store.database.write(work)


def _row(answer: Answer) -> tuple[Any, ...]:
    values = vars(answer) | {"size": len(answer.items), "items": _kept(answer.items)}
    return tuple(values[column.name] for column in recommendations.columns)


def _kept(items: list[dict[str, Any]]) -> str:
    return to_json(
        [
            {name: round(value, KEPT_DIGITS) if isinstance(value, float) else value for name, value in item.items()}
            for item in items[:KEPT_ITEMS]
        ]
    ).decode()


def delete_answers(database: Database, *, before: float, limit: int = DELETED_AT_ONCE) -> int:
    """Delete the oldest answers given before a time, at most `limit`; return how many there were."""
    if not _has_answers(database, recommendations.c.time < before):
        return 0
    key = (recommendations.c.user_id, recommendations.c.recommendation_id)
    oldest = sa.select(*key).where(recommendations.c.time < before).order_by(recommendations.c.time).limit(limit)
    statement = sa.delete(recommendations).where(sa.tuple_(*key).in_(oldest))
    return database.write(lambda connection: int(connection.execute(statement).rowcount))


def _has_answers(database: Database, condition: sa.ColumnElement[bool]) -> bool:
    """Whether there is such an answer; usually there is not, and nothing needs a lock."""
    return bool(database.rows(sa.select(sa.exists().where(condition)))[0][0])


def count_ignored(database: Database, now: float) -> dict[str, Appended]:
    """Count items of answers that are due by `now` as shown without a reaction; return the additions by user.

    An item counts as ignored unless the user has reacted to it, or has skipped it or undone a reaction to it since it
    was shown. The event id is derived from answer and item, and a later reaction replaces the event like any earlier
    one, so that repeating this changes nothing.
    """
    is_due = recommendations.c.due <= now
    if not _has_answers(database, is_due):
        return {}
    return database.write(lambda connection: _count(connection, is_due))


def _count(connection: sa.Connection, is_due: sa.ColumnElement[bool]) -> dict[str, Appended]:
    turn = sa.select(sa.func.pg_try_advisory_xact_lock(COUNT_LOCK))
    if connection.dialect.name == "postgresql" and not connection.execute(turn).scalar_one():
        return {}
    hold_audit(connection, shared=True)  # blocks deletions
    due = sa.select(recommendations).where(is_due).order_by(recommendations.c.due).limit(COUNTED_AT_ONCE)
    answers = connection.execute(due).all()
    user_ids = sorted({answer.user_id for answer in answers})
    lock_users(connection, user_ids)
    known = {user_id: _known(connection, user_id) for user_id in user_ids}  # once: a log may be long
    additions: dict[str, list[NewEvent]] = {}
    for answer in answers:
        if events := _ignored(answer, *known[answer.user_id]):
            additions.setdefault(answer.user_id, []).extend(events)
    appended = append(connection, additions, "")
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
