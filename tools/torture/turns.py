"""Two writers in threads of their own, of whom one runs at a time; `rng` says who goes on at each statement."""

import queue
import random
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from sqlalchemy import event

from igcf.service.store.database import Database

WRITE = "write"
WAIT_S = 60.0


class Turns:
    """Lets the threads of two parties stop before every statement and every transaction, and go on one at a time."""

    def __init__(self) -> None:
        self._party = threading.local()
        self._reports: queue.SimpleQueue[tuple[int, str | None]] = queue.SimpleQueue()
        self._go = [threading.Semaphore(0), threading.Semaphore(0)]
        self._work: list[queue.SimpleQueue[Callable[[], None] | None]] = [queue.SimpleQueue(), queue.SimpleQueue()]
        self._writing: int | None = None
        self.order: list[int] = []
        """Parties in the order in which their transactions came."""
        for number in range(2):
            threading.Thread(target=self._run, args=(number,), name=f"writer-{number}", daemon=True).start()

    @contextmanager
    def watch(self, database: Database) -> Iterator[None]:
        """Stop the parties at the statements of a database for the length of the block."""
        write = database.write

        def tortured_write(work: Callable[[Any], Any], **options: Any) -> Any:
            if not self._is_party():
                return write(work, **options)
            self._stop(WRITE)
            try:
                return write(work, **options)
            finally:
                self._writing = None

        def before_statement(*_: Any) -> None:
            self._stop("statement")

        def before_commit(*_: Any) -> None:
            self._stop("commit")

        database.write = tortured_write  # type: ignore[method-assign]
        event.listen(database.engine, "before_cursor_execute", before_statement)
        event.listen(database.engine, "commit", before_commit)
        try:
            yield
        finally:
            event.remove(database.engine, "before_cursor_execute", before_statement)
            event.remove(database.engine, "commit", before_commit)
            database.write = write  # type: ignore[method-assign]

    def play(self, first: Callable[[], None], second: Callable[[], None], rng: random.Random) -> list[int]:
        """Run both parties to their end; returns who went on at each step."""
        self.order, self._writing = [], None
        schedule: list[int] = []
        waiting: dict[int, str] = {}
        running = {0, 1}
        for number, work in enumerate((first, second)):
            self._work[number].put(work)
        while True:
            while running:
                number, point = self._reports.get(timeout=WAIT_S)
                running.discard(number)
                if point is not None:
                    waiting[number] = point
            ready = [number for number, point in waiting.items() if point != WRITE or self._writing is None]
            if not ready:
                return schedule
            number = rng.choice(sorted(ready))
            if waiting.pop(number) == WRITE:
                self._writing = number
                self.order.append(number)
            schedule.append(number)
            running.add(number)
            self._go[number].release()

    def close(self) -> None:
        """End the threads."""
        for work in self._work:
            work.put(None)

    def _run(self, number: int) -> None:
        self._party.number = number
        while (work := self._work[number].get()) is not None:
            try:
                work()
            finally:
                self._reports.put((number, None))

    def _is_party(self) -> bool:
        return hasattr(self._party, "number")

    def _stop(self, point: str) -> None:
        if self._is_party():
            self._reports.put((self._party.number, point))
            self._go[self._party.number].acquire()
