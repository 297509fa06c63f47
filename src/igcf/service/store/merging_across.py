"""A visitor becomes a user who is in another database: three transactions, each of which may be repeated.

1. In the visitor's database: the visitor is promised to this user, so that nobody else may have the reactions.
2. In the user's database: the reactions and answers are added that are not there yet.
3. In the visitor's database: the visitor is deleted, unless there was a further reaction meanwhile; then again from 1.

Whatever is interrupted, the same call again ends it: what is there already is known by its ids and counts once.
"""

import time
from typing import Any, NamedTuple

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
from igcf.service.store.records import Version, user_hash
from igcf.service.store.store import FORGET_LOCK
from igcf.service.store.tables import recommendations
from igcf.service.store.user_log import hold_user, lock_users

TRIES = 20


class _Promised(NamedTuple):
    """What was found of a visitor."""

    is_repeated: bool
    """Whether the visitor was promised to this user before."""
    version: Version | None
    log: list[dict[str, Any]]
    answers: list[dict[str, Any]]


class _Added(NamedTuple):
    """What became of the user."""

    revision: int
    moved: int
    withdrawn: int
    """Reactions that were moved before and that the visitor has taken back since."""
    known: int


def merge_across(source: Database, target: Database, visitor: str, user_id: str) -> Merged:
    """Move what is in force of a visitor's log in `source` behind that of a user in `target`."""
    moved = 0
    for _ in range(TRIES):
        found = source.write(lambda connection: _promise(connection, visitor, user_id))
        done = target.write(lambda connection, f=found: _add(connection, f, visitor, user_id))  # type: ignore[misc]
        moved = max(0, moved - done.withdrawn)
        known, moved = max(0, done.known - moved), moved + done.moved
        if source.write(lambda connection, v=found.version: _drop(connection, visitor, user_id, v)):  # type: ignore[misc]
            return Merged(done.revision, moved, known, duplicate=found.is_repeated and not found.log)
    raise StoreError(f"visitor {visitor!r} reacted again and again while being merged; try again")


def _promise(connection: sa.Connection, visitor: str, user_id: str) -> _Promised:
    """Promise a visitor to a user."""
    row = lock_users(connection, [visitor]).get(visitor)
    is_repeated = promised(connection, visitor, user_id)
    log = read_log(connection, visitor)
    query = sa.select(recommendations).where(recommendations.c.user_id == visitor)
    answers = [dict(row) for row in connection.execute(query).mappings()]
    if log and not is_repeated:
        mark_merge(connection, visitor, user_id, time.time())
    return _Promised(is_repeated, None if row is None else (row.born, row.revision), log, answers)


def _add(connection: sa.Connection, found: _Promised, visitor: str, user_id: str) -> _Added:
    revisions = lock_both(connection, user_id, user_id)
    revision = revisions.get(user_id, 0)
    rows, n_known = rows_to_add(found.log, read_log(connection, user_id), user_id, revision, user_hash(visitor))
    if rows:
        add_rows(connection, user_id, rows, is_new=user_id not in revisions)
    add_answers(connection, [answer | {"user_id": user_id} for answer in found.answers])
    withdrawn = sum(row["retracts"] is not None for row in rows)
    return _Added(revision + len(rows), len(rows) - withdrawn, withdrawn, n_known)


def _drop(connection: sa.Connection, visitor: str, user_id: str, known: Version | None) -> bool:
    """Delete a visitor who is as known; False where the log has gone on.

    One who was deleted meanwhile was so after the merge: nothing is kept of it, and a log that has begun since stays.
    """
    if connection.dialect.name == "postgresql":
        connection.execute(sa.select(sa.func.pg_advisory_xact_lock(FORGET_LOCK)))
    row = hold_user(connection, visitor)
    found = None if row is None or not row.revision else (row.born, row.revision)
    if found is not None and known is not None and found[0] != known[0]:
        return True
    if found is not None and found != known:
        return False
    connection.execute(sa.delete(recommendations).where(recommendations.c.user_id == visitor))
    drop_visitor(connection, visitor, time.time())
    if found is not None:
        mark_merge(connection, visitor, user_id, time.time())  # with the time from which on the user has the reactions
    return True
