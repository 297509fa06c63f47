"""A visitor becomes a user who is in another database: three transactions, each of which may be repeated.

1. In the visitor's database: the visitor is promised to this user, so that nobody else may have the reactions.
2. In the user's database: the reactions and answers are added that are not there yet.
3. In the visitor's database: the visitor is deleted, unless there was a further reaction meanwhile; then again from 1.

Whatever is interrupted, the same call again ends it: what is there already is known by its ids and counts once.
"""

import time
from typing import Any

import sqlalchemy as sa

from igcf.errors import StoreError
from igcf.service.store.database import Database
from igcf.service.store.merging import (
    Merged,
    add_answers,
    add_rows,
    drop_visitor,
    lock_both,
    mark_merge,
    promised,
    read_log,
    rows_to_add,
)
from igcf.service.store.records import user_hash
from igcf.service.store.store import FORGET_LOCK
from igcf.service.store.tables import recommendations

TRIES = 20


def merge_across(source: Database, target: Database, visitor: str, user_id: str) -> Merged:
    """Move what is in force of a visitor's log in `source` behind that of a user in `target`."""
    moved = 0
    for _ in range(TRIES):
        is_repeated, log, answers = source.write(lambda connection: _promise(connection, visitor, user_id))
        done = target.write(lambda connection, r=log, a=answers: _add(connection, r, a, visitor, user_id))  # type: ignore[misc]
        known, moved = done.known - moved, moved + done.moved
        last = log[-1]["revision"] if log else 0
        if source.write(lambda connection, n=last: _drop(connection, visitor, user_id, n)):  # type: ignore[misc]
            return Merged(done.revision, moved, known, duplicate=is_repeated and not log)
    raise StoreError(f"visitor {visitor!r} reacted again and again while being merged; try again")


def _promise(
    connection: sa.Connection, visitor: str, user_id: str
) -> tuple[bool, list[dict[str, Any]], list[dict[str, Any]]]:
    """Promise a visitor to a user; returns whether that was done before, the log and the answers."""
    lock_both(connection, visitor, visitor)
    is_repeated = promised(connection, visitor, user_id)
    log = read_log(connection, visitor)
    query = sa.select(recommendations).where(recommendations.c.user_id == visitor)
    answers = [dict(row) for row in connection.execute(query).mappings()]
    if log and not is_repeated:
        mark_merge(connection, visitor, user_id, time.time())
    return is_repeated, log, answers


def _add(
    connection: sa.Connection, log: list[dict[str, Any]], answers: list[dict[str, Any]], visitor: str, user_id: str
) -> Merged:
    revisions = lock_both(connection, user_id, user_id)
    revision = revisions.get(user_id, 0)
    rows, n_known = rows_to_add(log, read_log(connection, user_id), user_id, revision, user_hash(visitor))
    if rows:
        add_rows(connection, user_id, rows, is_new=user_id not in revisions)
    add_answers(connection, [answer | {"user_id": user_id} for answer in answers])
    return Merged(revision + len(rows), len(rows), n_known, duplicate=False)


def _drop(connection: sa.Connection, visitor: str, user_id: str, last: int) -> bool:
    """Delete a visitor whose log ends at a revision; False where it has gone on."""
    if connection.dialect.name == "postgresql":
        connection.execute(sa.select(sa.func.pg_advisory_xact_lock(FORGET_LOCK)))
    if lock_both(connection, visitor, visitor).get(visitor, 0) > last:
        return False
    connection.execute(sa.delete(recommendations).where(recommendations.c.user_id == visitor))
    drop_visitor(connection, visitor, time.time())
    if last:
        mark_merge(connection, visitor, user_id, time.time())  # with the time from which on the user has the reactions
    return True
