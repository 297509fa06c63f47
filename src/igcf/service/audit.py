"""The audit log: every answer given, written in batches by a thread so that answers do not wait for the disk."""

import json
import logging
import queue
import threading
import time
from collections import Counter
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from igcf.errors import StoreError
from igcf.service.errors import OverloadedError
from igcf.service.schema import FORGET_LOCK, forgotten, recommendations
from igcf.service.store import FORGET_GRACE_S, Store, user_hash

BATCH = 500
PAUSE_S = 0.2
FULL_WAIT_S = 2.0

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
    """A bounded queue and its writer; what is still queued is lost in a crash, and only then."""

    def __init__(self, store: Store, *, size: int) -> None:
        self._store = store
        self._queue: queue.Queue[Answer | None] = queue.Queue(maxsize=size)
        self._flushed = threading.Condition()
        self._added = self._written = 0
        self._thread = threading.Thread(target=self._run, name="igcf-audit", daemon=True)
        self._thread.start()

    def add(self, answer: Answer) -> None:
        """Queue an answer; refuses when the store has not kept up for some time."""
        try:
            self._queue.put(answer, timeout=FULL_WAIT_S)
        except queue.Full as error:
            raise OverloadedError("the audit log cannot keep up; try again later") from error

    @property
    def waiting(self) -> int:
        """Answers not yet written."""
        return self._queue.qsize()

    def flush(self, timeout_s: float = 10.0) -> None:
        """Wait until everything queued so far is written."""
        deadline = time.monotonic() + timeout_s
        while self._queue.unfinished_tasks and time.monotonic() < deadline:
            time.sleep(0.005)

    def close(self) -> None:
        """Write what is queued and stop."""
        self._queue.put(None)
        self._thread.join(timeout=15)

    def _run(self) -> None:
        is_open = True
        while is_open:
            batch, is_open = self._next_batch()
            while batch:
                try:
                    self._write(batch)
                    break
                except StoreError as error:
                    log.error("audit log not written", extra={"reason": str(error), "answers": len(batch)})
                    if not is_open:
                        break
                    time.sleep(1.0)
            for _ in range(len(batch) + (not is_open)):
                self._queue.task_done()

    def _next_batch(self) -> tuple[list[Answer], bool]:
        batch: list[Answer] = []
        answer = self._queue.get()
        deadline = time.monotonic() + PAUSE_S
        while answer is not None:
            batch.append(answer)
            left = deadline - time.monotonic()
            if len(batch) >= BATCH or left <= 0:
                return batch, True
            try:
                answer = self._queue.get(timeout=left)
            except queue.Empty:
                return batch, True
        return batch, False

    def _write(self, batch: list[Answer]) -> None:
        hashes = {answer.user_id: user_hash(answer.user_id) for answer in batch}
        times: Counter[str] = Counter()
        explored: Counter[str] = Counter()
        for answer in batch:
            for item in answer.items:
                times[item["item"]] += 1
                explored[item["item"]] += item["reason"] == "learn"
        counts = [{"item_id": item, "times": n, "explored": explored[item]} for item, n in sorted(times.items())]

        def work(connection: sa.Connection) -> None:
            if self._store.database.is_postgres:
                connection.execute(sa.select(sa.func.pg_advisory_xact_lock_shared(FORGET_LOCK)))
            connection.execute(sa.delete(forgotten).where(forgotten.c.time < time.time() - FORGET_GRACE_S))
            gone = {row.user_hash: row.time for row in connection.execute(sa.select(forgotten))}
            rows = [
                vars(answer) | {"items": json.dumps(answer.items)}
                for answer in batch
                if answer.time > gone.get(hashes[answer.user_id], 0.0)
            ]
            if rows:
                connection.execute(sa.insert(recommendations), rows)
            connection.execute(_COUNT, counts)

        self._store.database.write(work)


_COUNT = sa.text(
    "INSERT INTO shown (item_id, times, explored) VALUES (:item_id, :times, :explored) ON CONFLICT (item_id) "
    "DO UPDATE SET times = shown.times + excluded.times, explored = shown.explored + excluded.explored"
)
