"""Maintenance of a store: copy a SQLite file that is in use, restore a copy, and check what must hold."""

import json
import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import sqlalchemy as sa

from igcf.errors import StoreError
from igcf.progress import Report, silent
from igcf.service.store.database import BUSY_S, rows_of
from igcf.service.store.store import Store
from igcf.service.store.tables import feedback, recommendations, users
from igcf.service.store.urls import database_url

PAGES = 4_000
"""Pages of a SQLite file that are copied between two reports."""


def backup_store(store: str, out: Path, report: Report = silent) -> None:
    """Copy a SQLite store to `out`, also while servers use it: all that was acknowledged before, nothing in part."""
    _copy(_sqlite_file(store), out, report)


def restore_store(backup: Path, store: str, report: Report = silent) -> None:
    """Make a new SQLite store from a copy; one that exists is never overwritten."""
    if not backup.exists():
        raise StoreError(f"there is no copy of a store at {backup}; `igcf store backup` makes one")
    target = _sqlite_path(store)
    if any(Path(f"{target}{ending}").exists() for ending in ("-wal", "-shm")):
        raise StoreError(f"{target}-wal or -shm is left from another store; stop its servers and move it away first")
    _copy(_sqlite_file(str(backup)), target, report)


def check_store(store: str, report: Report = silent) -> "list[Problem]":
    """Find what is wrong with a store, row by row."""
    with closing(open_existing(store)) as opened, opened.database.snapshot() as connection:
        return list(problems(connection, report))


def open_existing(store: str) -> Store:
    """Open a store; one that does not exist is not created."""
    if database_url(store).drivername == "sqlite":
        _sqlite_file(store)
    return Store(store)


def _sqlite_path(store: str) -> Path:
    url = database_url(store)
    if url.drivername != "sqlite":
        raise StoreError(
            "PostgreSQL has tools of its own for this: pg_dump and pg_restore, pg_basebackup; `igcf store export` and "
            "`igcf store import` are for both kinds"
        )
    return Path(str(url.database))


def _sqlite_file(store: str) -> Path:
    path = _sqlite_path(store)
    if not path.is_file():
        raise StoreError(f"there is no store at {path}; `igcf serve` creates one")
    return path


def _copy(source: Path, target: Path, report: Report) -> None:
    """Copy under another name first, check the copy, make it durable: a reader meets all of it or nothing."""
    if target.exists():
        raise StoreError(f"{target} exists; a store is never overwritten, choose another name")
    part = target.with_name(f".{target.name}.part")
    try:
        with closing(sqlite3.connect(source, timeout=BUSY_S)) as old, closing(sqlite3.connect(part)) as new:
            old.backup(new, pages=PAGES, progress=lambda _, left, pages: report("pages copied", pages - left, pages))
            report("checking the copy", 0, None)
            new.execute("PRAGMA journal_mode=DELETE")  # one file, without a log beside it
            found = new.execute("PRAGMA integrity_check").fetchone()[0]
            if found != "ok":
                raise StoreError(f"the copy for {target} is damaged: {found}")
        make_durable(part)
        part.rename(target)
        make_durable(target.parent)
    except (sqlite3.Error, OSError) as error:
        raise StoreError(f"cannot copy the store to {target}: {error}") from error
    finally:
        part.unlink(missing_ok=True)


def make_durable(path: Path) -> None:
    """Return when the contents of a file, or the names in a folder, are on the disk."""
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


@dataclass(frozen=True)
class Problem:
    """Something wrong with one row."""

    table: str
    row: str
    """The key of the row, for people."""
    what: str

    def __str__(self) -> str:
        return f"{self.table} {self.row}: {self.what}"


_USERS = {
    "reactions of somebody who is not in the table of users": (
        "SELECT user_id FROM feedback EXCEPT SELECT user_id FROM users"
    ),
    "a user without a reaction": "SELECT user_id FROM users EXCEPT SELECT user_id FROM feedback",
    "the revision of the user is not that of the last reaction": (
        "SELECT u.user_id FROM users u JOIN feedback f ON f.user_id = u.user_id GROUP BY u.user_id, u.revision "
        "HAVING MAX(f.revision) <> u.revision"
    ),
}
"""Queries for users with an entry that contradicts the log; they return nothing for a sound store."""
_OTHER = "EXISTS (SELECT 1 FROM feedback b WHERE b.user_id = f.user_id AND b."
_LOG = {
    "the revision before it is missing, reactions are not numbered 1, 2, 3 ...": (
        f"f.revision <> 1 AND NOT {_OTHER}revision = f.revision - 1)"
    ),
    "its event id is that of an earlier reaction of the user": (
        f"{_OTHER}event_id = f.event_id AND b.revision < f.revision)"
    ),
    "it takes back what is not in the log of the user before it": (
        f"f.retracts IS NOT NULL AND NOT {_OTHER}event_id = f.retracts AND b.revision < f.revision)"
    ),
    "it takes back what was taken back before": f"{_OTHER}retracts = f.retracts AND b.revision < f.revision)",
    "it is a reaction without an event id or an item": (
        "retracts IS NULL AND (event_id IS NULL OR (item_id IS NULL AND evidence <> 'attributes'))"
    ),
    "its evidence is unknown: expected shown, logged, skip or attributes": (
        "evidence NOT IN ('shown', 'logged', 'skip', 'attributes')"
    ),
    "its value, time or arrival is not a finite number": " OR ".join(
        f"{name} > 1e308 OR {name} < -1e308" for name in ("value", "time", "arrived")
    ),
}
"""Conditions on rows of the log that hold for none in a sound store."""
_RULES = [(users.name, *rule) for rule in _USERS.items()] + [
    (feedback.name, what, f"SELECT f.user_id, f.revision FROM feedback f WHERE {condition}")  # noqa: S608
    for what, condition in _LOG.items()
]


def problems(connection: sa.Connection, report: Report = silent) -> Iterator[Problem]:
    """Find what is wrong, row by row: the file, the log, the users, the audit."""
    if connection.dialect.name == "sqlite":
        report("the file", 0, None)
        found = connection.exec_driver_sql("PRAGMA integrity_check").scalars()
        yield from (Problem("file", "SQLite", str(line)) for line in found if line != "ok")
    for done, (table, what, query) in enumerate(_RULES):
        report("rules about users and log", done, len(_RULES))
        for user_id, *revision in rows_of(connection, sa.text(query)):
            yield Problem(table, " ".join([repr(user_id), *map(str, revision)]), what)
    answers = sa.select(
        recommendations.c.recommendation_id, recommendations.c.revision, recommendations.c["items"], users.c.revision
    ).join_from(recommendations, users, users.c.user_id == recommendations.c.user_id, isouter=True)
    for number, (key, revision, items, reached) in enumerate(rows_of(connection, answers), start=1):
        if number % 10_000 == 0:
            report("answers of the audit", number, None)
        if revision > (reached or 0):
            yield Problem(recommendations.name, key, f"given at revision {revision}, the user has {reached or 0}")
        try:
            is_readable = all(isinstance(each["item"], str) for each in json.loads(items))
        except (ValueError, TypeError, KeyError, RecursionError):
            is_readable = False
        if not is_readable:
            yield Problem(recommendations.name, key, "its items cannot be read")
