"""Connections to SQLite and PostgreSQL: durable commits, short transactions, retries where the database asks."""

import itertools
import os
import socket
import sqlite3
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import sqlalchemy as sa
from sqlalchemy import event, exc

from igcf.errors import StoreError
from igcf.service.store.tables import migrate
from igcf.service.store.urls import database_url, printed_url

T = TypeVar("T")
RETRIES = 5
BUSY_S = 15
"""How long tools wait for a lock; the service has a setting."""
LOOK_AGAIN_S = 0.0005
"""Pause between two attempts to begin a transaction of SQLite, which itself pauses for up to 0.1 s."""
STATEMENT = 2.0
"""How much longer than for a lock a statement may take."""
LONG_LOG = 32_000_000
"""Bytes of the write-ahead log of SQLite beyond which writers are stopped for a moment, so that it begins anew."""
RESTART_S = 0.1
PROBE_S = 2.0
PROBE_EVERY_S = 1.0
WATCH_EVERY_S = 0.25
ROWS = 2_000
"""Rows that are fetched at a time."""
REFUSALS = (exc.DataError, exc.IntegrityError, exc.InternalError, exc.ProgrammingError)
"""Errors about what was to be written, not about the database."""
RETRYABLE_STATES = ("40001", "40P01")  # serialisation failure, deadlock


class RefusedError(StoreError):
    """The database answers, and refuses what was to be written."""


@dataclass(frozen=True)
class StoreEvents:
    """Callbacks for what happens to a store."""

    committed: Callable[[float], None] = lambda seconds: None
    """Called with the seconds that a commit took."""
    retried: Callable[[], None] = lambda: None
    failed: Callable[[], None] = lambda: None


class Database:
    """One pool of connections; every method opens, uses and returns one of them."""

    def __init__(self, store: str, *, connections: int = 8, wait_s: float | None = None) -> None:
        """Connect to a SQLite file or a URL, and migrate.

        `wait_s` is how long to wait for a turn to write or for a lock; a statement may take twice as long. None is for
        tools with statements that may take long.
        """
        url = database_url(store)
        self.name = printed_url(url)
        try:
            url.get_dialect().import_dbapi()
        except ImportError as error:
            raise StoreError(f"PostgreSQL needs a driver ({error}); pip install 'igcf[postgresql]'") from error
        self.is_postgres = url.drivername.startswith("postgresql")
        self._wait_s = wait_s or BUSY_S
        self.events = StoreEvents()
        self.is_erasing = not self.is_postgres
        """Whether the write-ahead log of SQLite may still hold what was deleted; at first, by a server that crashed."""
        self._last_write = float("-inf")
        self._file = None if self.is_postgres else Path(str(url.database))
        self._log = "" if self._file is None else f"{self._file.resolve()}-wal"  # beside the file, not beside a link
        self._identity: list[object] | None = None
        self._quick: sqlite3.Connection | None = None
        self._quick_lock = threading.Lock()
        self._watchdog = Watchdog() if self.is_postgres and wait_s is not None else None
        # Writers of one process line up here: SQLite's own waiting is by polling and unfair.
        self._writer = threading.Lock()
        asked: dict[str, Any] = {"timeout": self._wait_s, "check_same_thread": False}
        if self.is_postgres:  # the kernel notices a machine that is gone, the watchdog a server that hangs
            asked = {"keepalives_idle": 5, "keepalives_interval": 2, "keepalives_count": 3}
            asked |= {"connect_timeout": 5, "tcp_user_timeout": int(self._wait_s * 1000)}
        options = {"pool_size": connections, "max_overflow": 2, "pool_timeout": self._wait_s, "connect_args": asked}
        self.engine = sa.create_engine(url, **options)
        # Connections that stay in autocommit: switching one back and forth costs half as much as the read itself.
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

    def read(self, work: Callable[[sa.Connection], T], *, within_s: float | None = None) -> T:
        """Run statements that change nothing."""
        return self._retried(lambda: self._in_reader(work, within_s))

    def rows(self, query: "sa.Select[Any] | sa.TextClause") -> Sequence[Any]:
        """Read all rows of a query."""
        return self.read(lambda connection: connection.execute(query).all())

    def read_quickly(self, query: str, *values: str) -> list[Any]:
        """Run a query on a local file over a connection kept for this: a tenth of the time of `read`."""
        with self._quick_lock:
            if self._quick is None:
                self._quick = sqlite3.connect(
                    str(self._file), timeout=self._wait_s, isolation_level=None, check_same_thread=False
                )
            return self._quick.execute(query, values).fetchall()

    def write(self, work: Callable[[sa.Connection], T], *, within_s: float | None = None) -> T:
        """Run `work` in one transaction: all of it is durable when this returns, or nothing was changed."""
        return self._retried(lambda: self._in_writer(work, within_s))

    def write_and_erase(self, work: Callable[[sa.Connection], T]) -> T:
        """Run `work`, which deletes something, in one transaction; the write-ahead log is to be emptied soon."""
        result = self.write(work)
        self.is_erasing = not self.is_postgres
        return result

    @contextmanager
    def snapshot(self) -> Iterator[sa.Connection]:
        """Give a connection in which all statements see the same moment."""
        try:
            with (self.engine if self.is_postgres else self.reader).connect() as connection:
                if self.is_postgres:
                    connection = connection.execution_options(isolation_level="REPEATABLE READ")
                else:
                    connection.exec_driver_sql("BEGIN")
                yield connection
                connection.rollback()
        except exc.SQLAlchemyError as error:
            raise StoreError(f"the store {self.name} cannot be read: {_first_line(error)}") from error

    def check_readable(self) -> None:
        """Read something, within a short time."""
        self.read(lambda connection: connection.execute(sa.select(1)).scalar_one(), within_s=PROBE_S)

    def check_writable(self) -> None:
        """Change something and commit it, unless that was done just now: only this reveals a full disk."""
        self._check_file()
        if time.monotonic() - self._last_write > PROBE_EVERY_S:
            self.write(_insert_and_delete, within_s=PROBE_S)

    def erase(self) -> bool:
        """Empty the write-ahead log of SQLite if it may hold what was deleted; return whether that is still to do.

        It does not wait for readers and writers, unless the log has grown long: then it stops writers for a moment, for
        otherwise a log that is written all the time never begins anew. Call it again and again.
        """
        if self._file is None:
            return False
        is_long, busy = False, 1
        with suppress(OSError):
            is_long = os.stat(self._log).st_size > LONG_LOG
        if self.is_erasing or is_long:
            self.is_erasing = False
            uri = f"{self._file.absolute().as_uri()}?mode=rw"  # a file that is gone is not created
            wait_s = RESTART_S if is_long else 0
            with suppress(sqlite3.Error), closing(sqlite3.connect(uri, uri=True, timeout=wait_s)) as connection:
                busy, _, _ = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
            self.is_erasing = self.is_erasing or bool(busy)
        return self.is_erasing

    def close(self) -> None:
        """Close all connections."""
        if self._watchdog is not None:
            self._watchdog.close()
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
        wait_s = within_s or self._wait_s
        with self._turn(wait_s), self.engine.connect() as connection, self._limited(connection, within_s):
            if not self.is_postgres:
                _begin(connection, wait_s)
                self._check_file()
            result = work(connection)
            started = time.perf_counter()
            connection.commit()
        self.events.committed(time.perf_counter() - started)
        self._check_file()  # a commit to a file that was deleted is lost
        self._last_write = time.monotonic()
        return result

    @contextmanager
    def _turn(self, wait_s: float) -> Iterator[None]:
        if not self.is_postgres and not self._writer.acquire(timeout=wait_s):
            raise StoreError(f"the store {self.name} could not be written: other writers took longer than {wait_s:g} s")
        try:
            yield
        finally:
            if not self.is_postgres:
                self._writer.release()

    def _limited(self, connection: sa.Connection, within_s: float | None) -> AbstractContextManager[None]:
        if self._watchdog is None:
            return nullcontext()
        fd: int = connection.connection.dbapi_connection.fileno()  # type: ignore[union-attr]
        return self._watchdog.limit(fd, within_s or STATEMENT * self._wait_s + 1)

    def _check_file(self) -> None:
        """Stop when the SQLite file is not the one that was opened: what is written would be lost."""
        if self._identity is not None and self._identity != self._found_identity():
            raise StoreError(
                f"the store {self._file} was deleted or replaced while in use; stop the server, put the file back, and "
                "start it again"
            )

    def _found_identity(self) -> list[object] | None:
        """Identify the file and its write-ahead log, which stays in place while a connection is open."""
        return None if self._file is None else [_identity(self._file), _identity(self._log)]

    def _retried(self, attempt: Callable[[], T]) -> T:
        started = time.monotonic()
        for number in itertools.count(1):
            try:
                return attempt()
            except StoreError:
                self.events.failed()
                raise
            except exc.SQLAlchemyError as error:
                is_last = number == RETRIES or time.monotonic() - started > self._wait_s
                if is_last or not _is_passing(error):
                    self.events.failed()
                    kind = RefusedError if isinstance(error, REFUSALS) else StoreError
                    reason = _first_line(error.orig if isinstance(error, exc.DBAPIError) else error)
                    raise kind(f"the store {self.name} did not answer: {reason}") from error
                self.events.retried()
                time.sleep(0.02 * number)
        raise AssertionError("unreachable")

    def _prepare_sqlite(self, connection: Any, _: Any, *, busy_s: float) -> None:
        connection.isolation_level = None  # `_begin` begins transactions
        until = time.monotonic() + self._wait_s
        while True:
            try:
                connection.execute("PRAGMA journal_mode=WAL")
                break
            except sqlite3.OperationalError:  # SQLite does not wait while another process switches a blank file
                if time.monotonic() > until:
                    raise
                time.sleep(0.01)
        for pragma in ("synchronous=FULL", "secure_delete=ON", "cache_size=-8192", f"busy_timeout={busy_s * 1000:.0f}"):
            connection.execute(f"PRAGMA {pragma}")

    def _prepare_postgres(self, connection: Any, _: Any) -> None:
        wait, whole = int(self._wait_s * 1000), int(STATEMENT * self._wait_s * 1000)
        connection.execute(
            f"SET lock_timeout = {wait}; SET statement_timeout = {whole}; "
            f"SET idle_in_transaction_session_timeout = {whole}"
        )
        connection.commit()


class Watchdog:
    """A thread that shuts down the sockets of connections in use for too long: a database that hangs says nothing."""

    def __init__(self) -> None:
        self._due: dict[object, tuple[float, int]] = {}
        self._lock, self._stop = threading.Lock(), threading.Event()
        threading.Thread(target=self._run, name="igcf-watchdog", daemon=True).start()

    @contextmanager
    def limit(self, fd: int, seconds: float) -> Iterator[None]:
        """Shut down the socket `fd` if the body takes longer than so many seconds."""
        key = object()
        with self._lock:
            self._due[key] = time.monotonic() + seconds, fd
        try:
            yield
        finally:
            with self._lock:
                self._due.pop(key, None)

    def close(self) -> None:
        """Stop looking."""
        self._stop.set()

    def _run(self) -> None:
        while not self._stop.wait(WATCH_EVERY_S):
            now = time.monotonic()
            with self._lock:  # a thread that leaves `limit` waits here: the number cannot go to another socket
                for key, (due, fd) in list(self._due.items()):
                    if due < now:
                        del self._due[key]
                        with suppress(OSError), closing(socket.socket(fileno=os.dup(fd))) as end:
                            end.shutdown(socket.SHUT_RDWR)


def _identity(path: str | Path) -> object:
    with suppress(OSError):
        found = os.stat(path)
        return found.st_dev, found.st_ino
    return None


def rows_of(connection: sa.Connection, query: "sa.Select[Any] | sa.TextClause") -> Iterator[Any]:
    """Read the rows of a query a few at a time, however many there are."""
    yield from connection.execution_options(stream_results=True, yield_per=ROWS).execute(query)


def _begin(connection: sa.Connection, wait_s: float) -> None:
    """Begin to write a SQLite file as soon as other processes let us."""
    raw: Any = connection.connection.dbapi_connection
    until = time.monotonic() + wait_s
    while time.monotonic() < until:
        try:
            raw.execute("BEGIN IMMEDIATE")
            return
        except sqlite3.OperationalError as error:
            if "locked" not in str(error):
                break
            time.sleep(LOOK_AGAIN_S)
    connection.exec_driver_sql("BEGIN IMMEDIATE")  # raises what is wrong


def _insert_and_delete(connection: sa.Connection) -> None:
    """Change a page for certain, and leave no trace (SQLite does not write a row that stays as it was)."""
    row = {"name": f"probe-{uuid.uuid4().hex}"}
    connection.execute(sa.text("INSERT INTO deletions (user_hash, time) VALUES (:name, 0)"), row)
    connection.execute(sa.text("DELETE FROM deletions WHERE user_hash = :name"), row)


def _is_passing(error: exc.SQLAlchemyError) -> bool:
    """Whether to try again: a lost connection, a deadlock, a conflict with another server."""
    # Any other error is no passing one: for instance no free connection within the time limit.
    return isinstance(error, exc.DBAPIError) and (
        error.connection_invalidated
        or getattr(error.orig, "sqlstate", None) in RETRYABLE_STATES
        or isinstance(error, exc.IntegrityError)
    )


def _first_line(error: BaseException | None) -> str:
    return (str(error).strip().splitlines() or ["no reason given"])[0]
