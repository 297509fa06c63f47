"""Many rows in one execution of a statement.

The interpreter's lock is given back and taken again for every row that SQLite is handed by itself; while other threads
compute, each such turn may take a millisecond, and others wait for the transaction meanwhile.
"""

import json
from collections.abc import Mapping, Sequence
from functools import cache
from itertools import chain
from operator import itemgetter
from typing import Any

import sqlalchemy as sa

from igcf.errors import StoreError

AT_ONCE = (512, 64)
"""Rows in one statement; below the last, any number: so few that a connection keeps all these statements prepared."""
_ADVANCE = sa.text("UPDATE users SET revision = :revision, updated = :updated WHERE user_id = :user_id")
_ADVANCE_SQLITE = (
    "UPDATE users SET revision = new.value, updated = ? FROM json_each(?) AS new WHERE users.user_id = new.key"
)


def insert_rows(connection: sa.Connection, table: sa.Table, rows: Sequence[Mapping[str, Any]]) -> None:
    """Insert rows that have a value for every column of a table."""
    if connection.dialect.name == "sqlite":
        of_row = itemgetter(*(column.name for column in table.columns))
        insert_values(connection, table, list(map(of_row, rows)))
    elif rows:
        connection.execute(sa.insert(table), rows)


def insert_values(connection: sa.Connection, table: sa.Table, rows: Sequence[tuple[Any, ...]]) -> None:
    """Insert rows whose values stand in the order of the columns of a table."""
    if connection.dialect.name != "sqlite":
        names = [column.name for column in table.columns]
        insert_rows(connection, table, [dict(zip(names, row, strict=True)) for row in rows])
        return
    start = 0
    while left := len(rows) - start:
        n = next((size for size in AT_ONCE if left >= size), left)
        values = tuple(chain.from_iterable(rows[start : start + n]))
        connection.exec_driver_sql(_insert(table, n), values)
        start += n


@cache
def _insert(table: sa.Table, n_rows: int) -> str:
    names = [column.name for column in table.columns]
    row = f"({', '.join('?' * len(names))})"
    return f"INSERT INTO {table.name} ({', '.join(names)}) VALUES {', '.join([row] * n_rows)}"  # noqa: S608


def advance(connection: sa.Connection, revisions: Mapping[str, int], now: float) -> None:
    """Let users stand at their new revisions."""
    if connection.dialect.name == "sqlite":
        found = connection.exec_driver_sql(_ADVANCE_SQLITE, (now, json.dumps(revisions))).rowcount
        if found != len(revisions):
            raise StoreError(f"the store has {found} of the {len(revisions)} users who were to be changed")
    elif revisions:
        connection.execute(
            _ADVANCE,
            [{"user_id": user_id, "revision": revision, "updated": now} for user_id, revision in revisions.items()],
        )
