"""Two writers, one at a time; `rng` says who continues at each statement.

They are greenlets (SQLAlchemy brings them), not threads: one switches to the other without asking the machine, so that
a schedule is carried out as it was drawn, and quickly however busy the machine is.
"""

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import greenlet
from sqlalchemy import event

from igcf.service.store.database import Database

WRITE = "write"


class Turns:
    """Lets two parties stop before every statement and every transaction, and continue one at a time."""

    def __init__(self) -> None:
        self._scheduler: Any = None
        self._parties: list[Any] = []
        self._writing: Any = None
        self.order: list[int] = []
        """Parties in the order in which their transactions came."""

    @contextmanager
    def watch(self, database: Database) -> Iterator[None]:
        """Stop the parties at the statements of a database for the length of the block."""
        write = database.write

        def write_in_turn(work: Callable[[Any], Any], **options: Any) -> Any:
            self._stop(WRITE)
            try:
                return write(work, **options)
            finally:
                self._writing = None

        def before_statement(*_: Any) -> None:
            self._stop("statement")

        def before_commit(*_: Any) -> None:
            self._stop("commit")

        database.write = write_in_turn  # type: ignore[method-assign]
        event.listen(database.engine, "before_cursor_execute", before_statement)
        event.listen(database.engine, "commit", before_commit)
        try:
            yield
        finally:
            event.remove(database.engine, "before_cursor_execute", before_statement)
            event.remove(database.engine, "commit", before_commit)
            database.write = write  # type: ignore[method-assign]

    def play(self, first: Callable[[], None], second: Callable[[], None], rng: random.Random) -> list[int]:
        """Run both parties to their end; returns who continued at each step."""
        self._scheduler, self._writing, self.order = greenlet.getcurrent(), None, []
        self._parties = [greenlet.greenlet(first), greenlet.greenlet(second)]
        waiting: dict[int, Any] = {number: party.switch() for number, party in enumerate(self._parties)}
        schedule: list[int] = []
        while True:
            alive = [number for number, party in enumerate(self._parties) if not party.dead]
            ready = [number for number in alive if waiting[number] != WRITE or self._writing is None]
            if not ready:
                self._parties = []
                return schedule
            number = rng.choice(ready)
            if waiting[number] == WRITE:
                self._writing = self._parties[number]
                self.order.append(number)
            schedule.append(number)
            waiting[number] = self._parties[number].switch()

    def _stop(self, point: str) -> None:
        """Hand over to the scheduler, which continues with either party; other threads continue at once."""
        if greenlet.getcurrent() in self._parties:
            self._scheduler.switch(point)
