"""Connections to SQLite and PostgreSQL: durable commits, short transactions, retries where the database asks."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import sqlalchemy as sa
from sqlalchemy import event, exc

from igcf.errors import StoreError
from igcf.service.store.migrations import migrate

T = TypeVar("T")
RETRIES = 5
BUSY_S = 15
RETRYABLE_STATES = ("40001", "40P01")  # serialisation failure, deadlock


def database_url(store: str) -> sa.URL:
    """A URL for SQLAlchemy; a text without `://` is the path of a SQLite file."""
    if "://" not in store:
        return sa.URL.create("sqlite", database=str(Path(store).expanduser()))
    try:
        url = sa.make_url(store)
    except exc.ArgumentError as error:
        raise StoreError(
            "the store URL cannot be read; expected a file name, sqlite:///FILE or postgresql://USER:PASSWORD@HOST/DB"
        ) from error
    if url.drivername in ("postgresql", "postgres", "postgresql+psycopg"):
        return url.set(drivername="postgresql+psycopg")
    if url.drivername == "sqlite" and url.database not in (None, "", ":memory:"):
        return url
    raise StoreError(
        f"store {url.render_as_string(hide_password=True)!r} is not supported; expected a file name, sqlite:///FILE or "
        "postgresql://USER:PASSWORD@HOST/DB"
    )


class Database:
    """One pool of connections; every method opens, uses and returns one of them."""

    def __init__(self, store: str, *, connections: int = 8) -> None:
        url = database_url(store)
        self.name = url.render_as_string(hide_password=True)
        self.is_postgres = url.drivername.startswith("postgresql")
        # Writers of one process line up here: SQLite's own waiting is by polling and unfair.
        self._writer: threading.Lock | None = None if self.is_postgres else threading.Lock()
        options: dict[str, Any] = {"pool_size": connections, "max_overflow": 2, "pool_timeout": BUSY_S}
        if self.is_postgres:
            options["connect_args"] = {"connect_timeout": 5}
        else:
            options["connect_args"] = {"timeout": BUSY_S, "check_same_thread": False}
        self.engine = sa.create_engine(url, **options)
        if not self.is_postgres:
            event.listen(self.engine, "connect", _prepare_sqlite)
        # Connections that stay in autocommit: switching one to and fro costs half as much as the read itself.
        self._reader = (
            sa.create_engine(url, isolation_level="AUTOCOMMIT", **options) if self.is_postgres else self.engine
        )
        try:
            self.write(migrate)
        except BaseException:
            self.close()
            raise

    def read(self, work: Callable[[sa.Connection], T]) -> T:
        """Run statements that change nothing."""
        return self._retried(lambda: self._in_reader(work))

    def write(self, work: Callable[[sa.Connection], T]) -> T:
        """Run `work` in one transaction: all of it is durable when this returns, or nothing was changed."""
        return self._retried(lambda: self._in_writer(work))

    def close(self) -> None:
        """Close all connections."""
        self.engine.dispose()
        self._reader.dispose()

    def _in_reader(self, work: Callable[[sa.Connection], T]) -> T:
        with self._reader.connect() as connection:
            return work(connection)

    def _in_writer(self, work: Callable[[sa.Connection], T]) -> T:
        with self._turn(), self.engine.connect() as connection:
            if not self.is_postgres:
                connection.exec_driver_sql("BEGIN IMMEDIATE")
            result = work(connection)
            connection.commit()
            return result

    @contextmanager
    def _turn(self) -> Iterator[None]:
        if self._writer is None:
            yield
        else:
            with self._writer:
                yield

    def _retried(self, attempt: Callable[[], T]) -> T:
        for tries_left in range(RETRIES - 1, -1, -1):
            try:
                return attempt()
            except exc.DBAPIError as error:
                if not tries_left or not _is_passing(error):
                    raise StoreError(f"the store {self.name} did not answer: {_first_line(error.orig)}") from error
                time.sleep(0.02 * (RETRIES - tries_left))
            except exc.SQLAlchemyError as error:  # for instance no free connection within the time limit
                raise StoreError(f"the store {self.name} did not answer: {_first_line(error)}") from error
        raise AssertionError("unreachable")


def _prepare_sqlite(connection: Any, _: Any) -> None:
    connection.isolation_level = None  # transactions are begun by us, with BEGIN IMMEDIATE
    for pragma in ("journal_mode=WAL", "synchronous=FULL", "secure_delete=ON", f"busy_timeout={BUSY_S * 1000}"):
        connection.execute(f"PRAGMA {pragma}")


def _is_passing(error: exc.DBAPIError) -> bool:
    """Whether trying again is right: a lost connection, a deadlock, a conflict with another server."""
    state = getattr(error.orig, "sqlstate", None)
    return error.connection_invalidated or state in RETRYABLE_STATES or isinstance(error, exc.IntegrityError)


def _first_line(error: BaseException | None) -> str:
    return (str(error).strip().splitlines() or ["no reason given"])[0]
