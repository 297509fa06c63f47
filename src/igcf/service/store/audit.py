"""The audit: every answer given, written in batches by a thread so that answers do not wait for the disk."""

import logging
import threading
import time
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from pydantic_core import to_json

from igcf.errors import StoreError
from igcf.service.errors import OverloadedError
from igcf.service.store.database import Database
from igcf.service.store.log import FORGET_LOCK, insert_rows
from igcf.service.store.records import user_hash
from igcf.service.store.store import Store
from igcf.service.store.tables import deletions, recommendations

BATCH = 500
PAUSE_S = 0.5
"""Between two turns of writing: few large transactions, since reactions wait for them; a crash loses so much of it."""
COLUMNS = [column.name for column in recommendations.columns]
KEPT_ITEMS = 20
"""Items of one answer that the audit keeps, the first ones: a small request may ask for a large answer."""
KEPT_DIGITS = 6
"""Decimals of the numbers that it keeps."""
DELETED_AT_ONCE = 1_000
"""Old answers that one transaction deletes, so that nobody waits for long."""
LOOK_FOR_OLD_S = 600.0
FORGET_GRACE_S = 60.0
"""How long the hash of a deleted user is kept, so that answers still in a queue are not written; nor are, for so long,
those to a returning user."""
LOOK_FOR_MARKS_S = 10.0

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

    def __init__(
        self,
        store: Store,
        *,
        size: int,
        wait_s: float = 15.0,
        days: float | None = None,
    ) -> None:
        """Start the writer.

        Args:
            store: where to; it also knows which users are deleted.
            size: answers that may wait.
            wait_s: how long to wait for another flush.
            days: older answers are deleted, a few at a time; None keeps them all.
        """
        self._store = store
        self._days = days
        self._delete_from = 0.0
        """When to look for old answers again, by the monotonic clock."""
        self._expire_from = 0.0
        """When to look for old marks of deletions again, by the monotonic clock."""
        self._size = size
        self._wait_s = wait_s
        self._answers: list[Answer] = []
        self._first_seen: dict[tuple[str, float], float] = {}
        """When this process first read each mark of a deletion, by the monotonic clock: other clocks may be set."""
        self._is_unsure = False
        """Whether the last write may have been committed without an acknowledgement."""
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

    def stop(self) -> None:
        """Ask the writer to write what is left and to end."""
        self._stop.set()

    def close(self) -> None:
        """Write what is left and stop."""
        self.stop()
        self._thread.join(timeout=15)

    def _run(self) -> None:
        is_stopping = False
        while not is_stopping:
            is_stopping = self._stop.wait(PAUSE_S)
            try:
                self.flush()
                self._delete_old()
                self._expire_marks()
            except StoreError as error:
                log.error("audit log not written", extra={"reason": str(error), "answers": self.waiting})
                self._stop.wait(1.0)
            except Exception:  # a writer that is gone would be noticed only when the list is full
                log.exception("audit log not written", extra={"answers": self.waiting})
                self._stop.wait(1.0)

    def _delete_old(self) -> None:
        """Delete a few of the answers that are too old; what is left, in the next turn, or else look later again."""
        if time.monotonic() < self._delete_from:
            return
        n = 0 if self._days is None else delete_answers(self._store.database, before=time.time() - self._days * 86_400)
        if n < DELETED_AT_ONCE:
            self._delete_from = time.monotonic() + LOOK_FOR_OLD_S

    def _expire_marks(self) -> None:
        """Remove marks of deletions that this process has known for a minute, also when it is idle."""
        now = time.monotonic()
        if now < self._expire_from:
            return
        self._expire_from = now + LOOK_FOR_MARKS_S
        self.follow()
        old = [hashed for (hashed, _), seen in self._first_seen.items() if now - seen > FORGET_GRACE_S]
        if old:
            statement = sa.delete(deletions).where(deletions.c.user_hash.in_(old[:DELETED_AT_ONCE]))
            self._store.database.write(lambda connection: connection.execute(statement))
            self._store.database.is_erasing = not self._store.database.is_postgres

    def _write(self, batch: list[Answer]) -> None:
        # All that can be done before the transaction: others wait for it.
        hashes = {answer.user_id: user_hash(answer.user_id) for answer in batch}
        rows = [_row(answer) for answer in batch]

        def work(connection: sa.Connection) -> None:
            if self._store.database.is_postgres:
                connection.execute(sa.select(sa.func.pg_advisory_xact_lock_shared(FORGET_LOCK)))
            gone = set(connection.execute(sa.select(deletions.c.user_hash)).scalars())
            there = _written_before(connection, batch) if self._is_unsure else set()
            self._is_unsure = True
            new = [
                row
                for answer, row in zip(batch, rows, strict=True)
                if answer.recommendation_id not in there and hashes[answer.user_id] not in gone
            ]
            insert_rows(connection, recommendations, new)

        self._store.database.write(work)
        self._is_unsure = False


def _row(answer: Answer) -> tuple[Any, ...]:
    values = vars(answer) | {"size": len(answer.items), "items": _kept(answer.items)}
    return tuple(values[name] for name in COLUMNS)


def _kept(items: list[dict[str, Any]]) -> str:
    return to_json(
        [
            {name: round(value, KEPT_DIGITS) if isinstance(value, float) else value for name, value in item.items()}
            for item in items[:KEPT_ITEMS]
        ]
    ).decode()


def delete_answers(database: Database, *, before: float, limit: int = DELETED_AT_ONCE) -> int:
    """Delete the oldest answers given before a time, at most `limit`; return how many there were."""
    is_old = sa.select(sa.exists().where(recommendations.c.time < before))
    if not database.read(lambda connection: connection.execute(is_old).scalar_one()):
        return 0
    key = (recommendations.c.user_id, recommendations.c.recommendation_id)
    oldest = sa.select(*key).where(recommendations.c.time < before).order_by(recommendations.c.time).limit(limit)
    statement = sa.delete(recommendations).where(sa.tuple_(*key).in_(oldest))
    return database.write(lambda connection: int(connection.execute(statement).rowcount))


def _written_before(connection: sa.Connection, batch: list[Answer]) -> set[str]:
    """Find the answers of a batch that an earlier attempt committed though the answer to its commit was lost."""
    table = recommendations.c
    keys = [(answer.user_id, answer.recommendation_id) for answer in batch]
    found = sa.select(table.recommendation_id).where(sa.tuple_(table.user_id, table.recommendation_id).in_(keys))
    return set(connection.execute(found).scalars())
