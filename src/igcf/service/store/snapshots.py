"""Reading a whole store as it was at one moment, row by row, while servers go on writing."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import sqlalchemy as sa

from igcf.errors import StoreError
from igcf.service.store.database import BUSY_S, Database
from igcf.service.store.sqlite_waiting import begin_to_write
from igcf.service.store.store import FORGET_LOCK
from igcf.service.store.tables import users

ROWS = 2_000
"""Rows that are fetched at a time."""


@contextmanager
def snapshot(database: Database) -> Iterator[sa.Connection]:
    """Give a connection in which all statements see the same moment."""
    try:
        with (database.engine if database.is_postgres else database.reader).connect() as connection:
            if database.is_postgres:
                connection = connection.execution_options(isolation_level="REPEATABLE READ")
            else:
                connection.exec_driver_sql("BEGIN")
            yield connection
            connection.rollback()
    except sa.exc.SQLAlchemyError as error:
        raise StoreError(f"the store {database.name} cannot be read: {str(error).splitlines()[0]}") from error


@contextmanager
def snapshots(databases: Sequence[Database]) -> Iterator[list[sa.Connection]]:
    """Give a connection to each of several databases, all of which see the same moment.

    Somebody who is moved from one to another meanwhile would be in neither of them otherwise.
    """
    with ExitStack() as stack:
        connections = [stack.enter_context(snapshot(database)) for database in databases]
        with ExitStack() as held:
            for database in sorted(databases, key=lambda each: each.name) if len(databases) > 1 else ():
                held.enter_context(_nobody_leaves(database))
            for connection in connections:
                connection.execute(sa.select(users.c.user_id).limit(1)).first()  # what follows sees this moment
        yield connections


@contextmanager
def _nobody_leaves(database: Database) -> Iterator[None]:
    """Keep users from being deleted, and visitors from being merged, for a moment; on SQLite nothing is changed."""
    with database.engine.connect() as connection:
        if database.is_postgres:
            connection.execute(sa.select(sa.func.pg_advisory_xact_lock_shared(FORGET_LOCK)))
        else:
            begin_to_write(connection, BUSY_S)
        yield
        connection.rollback()


def rows_of(connection: sa.Connection, query: "sa.Select[Any] | sa.TextClause") -> Iterator[Any]:
    """Read the rows of a query a few at a time, however many there are."""
    yield from connection.execution_options(stream_results=True, yield_per=ROWS).execute(query)
