"""Connections to SQLite and PostgreSQL: durable commits, short transactions, retries where the database asks."""

import math
import sqlite3
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import sqlalchemy as sa
from sqlalchemy import event, exc

from igcf.errors import StoreError
from igcf.service.store.checkpoint import LONGEST_LOG, Checkpointer, Copier
from igcf.service.store.log_sync import LogSync
from igcf.service.store.migrations import migrate
from igcf.service.store.sqlite_waiting import begin_to_write, use_write_ahead_log
from igcf.service.store.urls import check_driver, database_url, printed_url
from igcf.service.store.watchdog import Watchdog

T = TypeVar("T")
RETRIES = 5
BUSY_S = 15
"""How long tools wait for a lock; the service has a setting."""
STATEMENT = 2.0
"""How much longer than for a lock a statement may take."""
PROBE_S = 2.0
PROBE_EVERY_S = 1.0
REFUSALS = (exc.DataError, exc.IntegrityError, exc.InternalError, exc.ProgrammingError)
"""Errors that tell of what was to be written, not of the database."""
RETRYABLE_STATES = ("40001", "40P01")  # serialisation failure, deadlock


class RefusedError(StoreError):
    """The database answers, and will not have what was to be written."""


def _ignore(*_: float) -> None:
    """Take no note."""


@dataclass(frozen=True)
class StoreEvents:
    """Whom to tell what happens to a store."""

    committed: Callable[[float], None] = _ignore
    """Called with the seconds that a commit took."""
    retried: Callable[[], None] = _ignore
    failed: Callable[[], None] = _ignore


class Database:
    """One pool of connections; every method opens, uses and returns one of them."""

    def __init__(self, store: str, *, connections: int = 8, wait_s: float | None = None) -> None:
        """Connect and migrate.

        Args:
            store: a SQLite file or a URL.
            connections: how many to keep open.
            wait_s: how long to wait for a turn to write or for a lock; a statement may take twice as long. None for
                tools, whose statements may take as long as they need.
        """
        url = database_url(store)
        self.name = printed_url(url)
        check_driver(url)
        self.is_postgres = url.drivername.startswith("postgresql")
        self._wait_s = wait_s or BUSY_S
        self.events = StoreEvents()
        self._last_write = -math.inf
        self._file = None if self.is_postgres else Path(str(url.database))
        self._identity: tuple[int, int] | None = None
        self._log: LogSync | None = None
        self._quick: sqlite3.Connection | None = None
        self._quick_lock = threading.Lock()
        self._watchdog = Watchdog() if self.is_postgres and wait_s is not None else None
        self.checkpointer = None if self._file is None else Checkpointer(str(self._file))
        self._copier: Copier | None = None
        # Writers of one process line up here: SQLite's own waiting is by polling and unfair.
        self._writer: threading.Lock | None = None if self.is_postgres else threading.Lock()
        options: dict[str, Any] = {"pool_size": connections, "max_overflow": 2, "pool_timeout": self._wait_s}
        if self.is_postgres:
            # A machine that is gone is noticed by the kernel, a server that hangs by the watchdog.
            keepalive = {"keepalives_idle": 5, "keepalives_interval": 2, "keepalives_count": 3}
            options["connect_args"] = keepalive | {"connect_timeout": 5, "tcp_user_timeout": int(self._wait_s * 1000)}
        else:
            options["connect_args"] = {"timeout": self._wait_s, "check_same_thread": False}
        self.engine = sa.create_engine(url, **options)
        # Connections that stay in autocommit: switching one to and fro costs half as much as the read itself. SQLite's
        # readers wait where they must, its writers look for themselves whether it is their turn.
        level = {"isolation_level": "AUTOCOMMIT"} if self.is_postgres else {}
        self.reader = sa.create_engine(url, **level, **options)
        if not self.is_postgres:
            event.listen(self.engine, "connect", partial(self._prepare_sqlite, busy_s=0.0))
            event.listen(self.reader, "connect", partial(self._prepare_sqlite, busy_s=self._wait_s))
        elif wait_s is not None:
            for engine in (self.engine, self.reader):
                event.listen(engine, "connect", self._prepare_postgres)
        try:
            self.write(lambda connection: migrate(connection, name=self.name))
        except BaseException:
            self.close()
            raise
        self._identity = self._found_identity()
        if self._file is not None and wait_s is not None:
            self._copier = Copier(str(self._file))

    def read(self, work: Callable[[sa.Connection], T], *, within_s: float | None = None) -> T:
        """Run statements that change nothing."""
        return self._retried(lambda: self._in_reader(work, within_s))

    def read_quickly(self, query: str, *values: str) -> list[Any]:
        """Run a query of a local file on a connection kept for such: a tenth of the time of `read`."""
        with self._quick_lock:
            if self._quick is None:
                self._quick = sqlite3.connect(
                    str(self._file), timeout=self._wait_s, isolation_level=None, check_same_thread=False
                )
            return self._quick.execute(query, values).fetchall()

    def write(self, work: Callable[[sa.Connection], T], *, within_s: float | None = None) -> T:
        """Run `work` in one transaction: all of it is durable when this returns, or nothing was changed."""
        return self._retried(lambda: self._in_writer(work, within_s))

    def check_writable(self) -> None:
        """Change something and commit it, unless that was done just now: a full disk, for instance, shows only then."""
        self._check_file()
        if time.monotonic() - self._last_write > PROBE_EVERY_S:
            self.write(_insert_and_delete, within_s=PROBE_S)

    def close(self) -> None:
        """Close all connections."""
        for helper in (self._watchdog, self.checkpointer, self._copier):
            if helper is not None:
                helper.close()
        if self._log is not None:
            self._log.close()
        self.engine.dispose()
        self.reader.dispose()
        with self._quick_lock:
            if self._quick is not None:
                self._quick.close()
                self._quick = None

    def _in_reader(self, work: Callable[[sa.Connection], T], within_s: float | None) -> T:
        with self.reader.connect() as connection, self._limited(connection, within_s):
            return work(connection)

    def _in_writer(self, work: Callable[[sa.Connection], T], within_s: float | None) -> T:
        log: int | None = None
        try:
            with (
                self._turn(within_s or self._wait_s),
                self.engine.connect() as connection,
                self._limited(connection, within_s),
            ):
                if not self.is_postgres:
                    begin_to_write(connection, within_s or self._wait_s)
                    log = None if self._log is None else self._log.open()
                    self._check_file(has_log=log is not None)  # what is written beside another log damages it
                result = work(connection)
                started = time.perf_counter()
                connection.commit()
            # Others may write from here on; whoever asked for this hears of it when it is on the disk.
            if self._log is not None and log is not None:
                self._log.wait(log)
        finally:
            if self._log is not None and log is not None:
                self._log.give_back(log)
        self.events.committed(time.perf_counter() - started)
        self._check_file(has_log=self._log is not None)  # a commit to a file that is not there any more is none
        self._last_write = time.monotonic()
        if self._copier is not None:
            self._copier.tell()
        return result

    @contextmanager
    def _turn(self, wait_s: float) -> Iterator[None]:
        if self._writer is None:
            yield
            return
        if not self._writer.acquire(timeout=wait_s):
            raise StoreError(f"the store {self.name} could not be written: other writers took longer than {wait_s:g} s")
        try:
            yield
        finally:
            self._writer.release()

    @contextmanager
    def _limited(self, connection: sa.Connection, within_s: float | None) -> Iterator[None]:
        if self._watchdog is None:
            yield
            return
        fd: int = connection.connection.dbapi_connection.fileno()  # type: ignore[union-attr]
        with self._watchdog.limit(fd, within_s or STATEMENT * self._wait_s + 1):
            yield

    def _check_file(self, *, has_log: bool = False) -> None:
        """Refuse to go on when the SQLite file is not the one that was opened: what is written would be lost."""
        is_same = self._identity is None or self._identity == self._found_identity()
        if not is_same or (has_log and self._log is not None and not self._log.is_same()):
            raise StoreError(
                f"the store {self._file} was deleted or replaced while in use; stop the server, put the file back, and "
                "start it again"
            )

    def _found_identity(self) -> tuple[int, int] | None:
        if self._file is None:
            return None
        try:
            found = self._file.stat()
        except OSError:
            return (0, 0)
        return found.st_dev, found.st_ino

    def _retried(self, attempt: Callable[[], T]) -> T:
        try:
            return self._tried(attempt)
        except StoreError:
            self.events.failed()
            raise

    def _tried(self, attempt: Callable[[], T]) -> T:
        started = time.monotonic()
        for tries_left in range(RETRIES - 1, -1, -1):
            try:
                found = attempt()
            except exc.DBAPIError as error:
                is_late = time.monotonic() - started > self._wait_s
                if not tries_left or is_late or not _is_passing(error):
                    kind = RefusedError if isinstance(error, REFUSALS) else StoreError
                    raise kind(f"the store {self.name} did not answer: {_first_line(error.orig)}") from error
                self.events.retried()
                time.sleep(0.02 * (RETRIES - tries_left))
            except exc.SQLAlchemyError as error:  # for instance no free connection within the time limit
                raise StoreError(f"the store {self.name} did not answer: {_first_line(error)}") from error
            else:
                return found
        raise AssertionError("unreachable")

    def _prepare_sqlite(self, connection: Any, _: Any, *, busy_s: float) -> None:
        connection.isolation_level = None  # transactions are begun by us, with BEGIN IMMEDIATE
        busy = f"busy_timeout={int(busy_s * 1000)}"
        for pragma in (
            "secure_delete=ON",
            f"wal_autocheckpoint={LONGEST_LOG}",
            "cache_size=-8192",
            busy,
        ):
            connection.execute(f"PRAGMA {pragma}")
        has_log = use_write_ahead_log(connection, self._wait_s)
        if has_log and self._log is None and self._file is not None:
            self._log = LogSync(self._file, self._wait_s)
        connection.execute(f"PRAGMA synchronous={'NORMAL' if has_log else 'FULL'}")  # see `log_sync`

    def _prepare_postgres(self, connection: Any, _: Any) -> None:
        wait, whole = int(self._wait_s * 1000), int(STATEMENT * self._wait_s * 1000)
        connection.execute(
            f"SET lock_timeout = {wait}; SET statement_timeout = {whole}; "
            f"SET idle_in_transaction_session_timeout = {whole}"
        )
        connection.commit()


def _insert_and_delete(connection: sa.Connection) -> None:
    """Change a page for certain, and leave no trace (SQLite does not write a row that stays as it was)."""
    row = {"name": f"probe-{uuid.uuid4().hex}"}
    connection.execute(sa.text("INSERT INTO forgotten (user_hash, time) VALUES (:name, 0)"), row)
    connection.execute(sa.text("DELETE FROM forgotten WHERE user_hash = :name"), row)


def _is_passing(error: exc.DBAPIError) -> bool:
    """Whether trying again is right: a lost connection, a deadlock, a conflict with another server."""
    state = getattr(error.orig, "sqlstate", None)
    return error.connection_invalidated or state in RETRYABLE_STATES or isinstance(error, exc.IntegrityError)


def _first_line(error: BaseException | None) -> str:
    return (str(error).strip().splitlines() or ["no reason given"])[0]
