"""The audit: every answer given, written in batches by a thread so that answers do not wait for the disk."""

import json
import logging
import threading
import time
from collections import Counter
from collections.abc import Iterable, Sequence
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
"""Significant digits of the numbers that it keeps."""
DELETED_AT_ONCE = 1_000
"""Old answers that one transaction deletes, so that nobody waits for long."""
LOOK_FOR_OLD_S = 600.0
FORGET_GRACE_S = 60.0
"""How long the hash of a deleted user is kept, so that answers still in a queue are not written."""
LOOK_FOR_MARKS_S = 10.0

_COUNT_SQLITE = sa.text(
    "INSERT INTO shown (item_id, times, explored) SELECT json_extract(value, '$[0]'), json_extract(value, '$[1]'), "
    "json_extract(value, '$[2]') FROM json_each(:counts) WHERE true ON CONFLICT (item_id) DO UPDATE "
    "SET times = shown.times + excluded.times, explored = shown.explored + excluded.explored"
)
_COUNT_POSTGRES = sa.text(
    "INSERT INTO shown (item_id, times, explored) SELECT * FROM unnest(CAST(:items AS text[]), "
    "CAST(:times AS bigint[]), CAST(:explored AS bigint[])) ON CONFLICT (item_id) DO UPDATE "
    "SET times = shown.times + excluded.times, explored = shown.explored + excluded.explored"
)

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
            store: where to; it also tells which users are deleted, and counts what was shown.
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
        self._written = 0
        """Answers that have left the list."""
        now = time.monotonic()
        known = store.deletions()
        self._met: dict[tuple[str, float], tuple[int, float]] = dict.fromkeys(known.items(), (0, now))
        """Deletions that have been met: how many answers had been taken by then, and when, by the clock that never
        goes back."""
        self._is_unsure = False
        """Whether the last attempt to write may have been committed, though nobody was told."""
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
            raise StoreError("the audit log is being written and does not get ahead")
        try:
            while batch := self._answers[:BATCH]:
                self._write(batch)
                with self._lock:
                    del self._answers[: len(batch)]
                    self._written += len(batch)
        finally:
            self._writing.release()

    def meet(self, found: Iterable[tuple[str, float]]) -> None:
        """Take note of deleted users (hash, time): what is taken from now on is about those who have come back."""
        known, now = set(found), time.monotonic()
        with self._lock:
            taken = self._written + len(self._answers)
            kept = {each: met for each, met in self._met.items() if each in known or now - met[1] < FORGET_GRACE_S}
            self._met = dict.fromkeys(known, (taken, now)) | kept  # another thread may have read older deletions

    def follow(self) -> dict[str, float]:
        """Take note of users deleted lately, as the store has them; returns their hashes, and when they were."""
        found = self._store.deletions()
        self.meet(found.items())
        return found

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

    def _is_of_deleted(self, place: int, hashed: str, gone: dict[str, float]) -> bool:
        """Whether an answer was taken before the deletion of its user was met.

        Times are not compared: clocks may be set meanwhile, and those of two servers differ. An answer to somebody who
        comes back before this server has heard of the deletion is therefore left out.
        """
        return hashed in gone and place < self._met[hashed, gone[hashed]][0]

    def _expire_marks(self) -> None:
        """Remove marks that are older than a minute by both clocks (one may have been set ahead), also when idle."""
        if time.monotonic() < self._expire_from:
            return
        self._expire_from = time.monotonic() + LOOK_FOR_MARKS_S
        found, now, past = self.follow(), time.monotonic(), time.time() - FORGET_GRACE_S
        old = [each[0] for each in found.items() if each[1] < past and now - self._met[each][1] > FORGET_GRACE_S]
        if old:
            statement = sa.delete(deletions).where(deletions.c.user_hash.in_(old[:DELETED_AT_ONCE]))
            statement = statement.where(deletions.c.time < past)
            self._store.database.write(lambda connection: connection.execute(statement))
            self._store.database.is_erasing = not self._store.database.is_postgres

    def _write(self, batch: list[Answer]) -> None:
        # All that can be done before the transaction: others wait for it.
        hashes = {answer.user_id: user_hash(answer.user_id) for answer in batch}
        rows = [_row(answer) for answer in batch]
        all_counts = _counts(batch)

        def work(connection: sa.Connection) -> None:
            if self._store.database.is_postgres:
                connection.execute(sa.select(sa.func.pg_advisory_xact_lock_shared(FORGET_LOCK)))
            gone = {row.user_hash: row.time for row in connection.execute(sa.select(deletions))}
            self.meet(gone.items())
            there = _written_before(connection, batch) if self._is_unsure else set()
            self._is_unsure = True
            new = [
                row
                for place, (answer, row) in enumerate(zip(batch, rows, strict=True), start=self._written)
                if answer.recommendation_id not in there
                and not self._is_of_deleted(place, hashes[answer.user_id], gone)
            ]
            insert_rows(connection, recommendations, new)
            counts = all_counts if not there else _counts(each for each in batch if each.recommendation_id not in there)
            if counts:
                _count_shown(connection, counts)

        self._store.database.write(work)
        self._is_unsure = False


def _row(answer: Answer) -> tuple[Any, ...]:
    values = vars(answer) | {"size": len(answer.items), "items": _kept(answer.items)}
    return tuple(values[name] for name in COLUMNS)


def _kept(items: list[dict[str, Any]]) -> str:
    return to_json(
        [
            {
                name: float(f"{value:.{KEPT_DIGITS}g}") if isinstance(value, float) else value
                for name, value in item.items()
            }
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


def _counts(answers: Iterable[Answer]) -> list[tuple[str, int, int]]:
    times: Counter[str] = Counter()
    explored: Counter[str] = Counter()
    for answer in answers:
        for item in answer.items:
            times[item["item"]] += 1
            explored[item["item"]] += item["reason"] == "learn"
    return [(item, n, explored[item]) for item, n in sorted(times.items())]


def _count_shown(connection: sa.Connection, counts: Sequence[tuple[str, int, int]]) -> None:
    """Add to the counts of items: how often they were shown, and how often of these to learn."""
    if connection.dialect.name == "sqlite":
        connection.execute(_COUNT_SQLITE, {"counts": json.dumps(counts)})
        return
    items, times, explored = zip(*counts, strict=True)
    connection.execute(_COUNT_POSTGRES, {"items": list(items), "times": list(times), "explored": list(explored)})
