"""Reading a whole store as it was at one moment, row by row, while servers go on writing."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import sqlalchemy as sa

from igcf.errors import StoreError
from igcf.service.store.database import Database

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


def rows_of(connection: sa.Connection, query: "sa.Select[Any] | sa.TextClause") -> Iterator[Any]:
    """Read the rows of a query a few at a time, however many there are."""
    yield from connection.execution_options(stream_results=True, yield_per=ROWS).execute(query)
