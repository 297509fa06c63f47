"""Many rows in one execution of a statement.

The interpreter's lock is given back and taken again for every row that SQLite is handed by itself; while other threads
compute, each such turn may take a millisecond, and others wait for the transaction meanwhile.
"""

import json
from collections.abc import Mapping, Sequence
from functools import cache
from itertools import islice
from typing import Any

import sqlalchemy as sa

from igcf.errors import StoreError

AT_ONCE = 64
"""Rows in one statement: few enough that a connection keeps the statements of all numbers of rows prepared."""
_ADVANCE = sa.text("UPDATE users SET revision = :revision, updated = :updated WHERE user_id = :user_id")
_ADVANCE_SQLITE = (
    "UPDATE users SET revision = new.value, updated = ? FROM json_each(?) AS new WHERE users.user_id = new.key"
)


def insert_rows(connection: sa.Connection, table: sa.Table, rows: Sequence[Mapping[str, Any]]) -> None:
    """Insert rows that have a value for every column of a table."""
    if connection.dialect.name != "sqlite":
        if rows:
            connection.execute(sa.insert(table), rows)
        return
    names, waiting = [column.name for column in table.columns], iter(rows)
    while part := list(islice(waiting, AT_ONCE)):
        values = tuple(row[name] for row in part for name in names)
        connection.exec_driver_sql(_insert(table, len(part)), values)


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
