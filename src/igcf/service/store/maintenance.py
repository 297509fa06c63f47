"""Looking after a store: copying a SQLite file that is in use, putting a copy back, and checking what must hold."""

import os
import sqlite3
from contextlib import closing
from pathlib import Path

import sqlalchemy as sa

from igcf.errors import StoreError
from igcf.service.store.database import database_url
from igcf.service.store.store import Store

FEW = 5
"""Users named per problem."""
_INVARIANTS = {
    "reactions of users who are not in the table of users": (
        "SELECT DISTINCT user_id FROM feedback WHERE user_id NOT IN (SELECT user_id FROM users)"
    ),
    "users without a reaction": "SELECT user_id FROM users WHERE user_id NOT IN (SELECT user_id FROM feedback)",
    "users whose reactions are not numbered 1, 2, 3 ... up to their revision": (
        "SELECT u.user_id FROM users u JOIN feedback f ON f.user_id = u.user_id GROUP BY u.user_id, u.revision "
        "HAVING COUNT(*) <> u.revision OR MIN(f.revision) <> 1 OR MAX(f.revision) <> u.revision"
    ),
    "users who took back what is not in their log": (
        "SELECT r.user_id FROM feedback r WHERE r.retracts IS NOT NULL AND NOT EXISTS (SELECT 1 FROM feedback f "
        "WHERE f.user_id = r.user_id AND f.event_id = r.retracts AND f.revision < r.revision)"
    ),
}
"""Queries that find nothing in a sound store."""


def backup_store(store: str, out: Path) -> None:
    """Copy a SQLite store to `out`, also while servers use it: all that was acknowledged before, nothing in part."""
    _copy(_sqlite_file(store), out)


def restore_store(backup: Path, store: str) -> None:
    """Make a new SQLite store from a copy; one that exists is never overwritten."""
    url = database_url(store)
    if url.drivername != "sqlite":
        raise StoreError(f"{backup} can be restored to a SQLite file only; PostgreSQL has pg_restore")
    target = Path(str(url.database))
    if any(Path(f"{target}{ending}").exists() for ending in ("-wal", "-shm")):
        raise StoreError(f"{target}-wal or -shm is left from another store; stop its servers and move it away first")
    _copy(_sqlite_file(str(backup)), target)


def check_store(store: str) -> list[str]:
    """Find what is wrong with a store: one sentence per problem, none for a sound one."""
    if database_url(store).drivername == "sqlite":
        _sqlite_file(store)
    opened = Store(store)
    try:
        return opened.database.read(_problems)
    finally:
        opened.close()


def _problems(connection: sa.Connection) -> list[str]:
    problems = []
    if connection.dialect.name == "sqlite":
        found = connection.exec_driver_sql("PRAGMA integrity_check").scalars().all()
        problems += [f"SQLite: {line}" for line in found if line != "ok"]
    for name, query in _INVARIANTS.items():
        users = connection.exec_driver_sql(query).scalars().all()
        if users:
            problems.append(f"{len(users)} {name}, for instance {', '.join(map(repr, users[:FEW]))}")
    return problems


def _sqlite_file(store: str) -> Path:
    url = database_url(store)
    if url.drivername != "sqlite":
        raise StoreError("PostgreSQL has tools of its own for this: pg_dump, pg_restore, pg_basebackup")
    path = Path(str(url.database))
    if not path.is_file():
        raise StoreError(f"there is no store at {path}")
    return path


def _copy(source: Path, target: Path) -> None:
    """Copy under another name first, check the copy, make it durable: a reader meets all of it or nothing."""
    if target.exists():
        raise StoreError(f"{target} exists; a store is never overwritten, choose another name")
    part = target.with_name(f".{target.name}.part")
    try:
        with closing(sqlite3.connect(source)) as old, closing(sqlite3.connect(part)) as new:
            old.backup(new)
            new.execute("PRAGMA journal_mode=DELETE")  # one file, without a log beside it
            found = new.execute("PRAGMA integrity_check").fetchone()[0]
            if found != "ok":
                raise StoreError(f"the copy of {source} is damaged: {found}")
        with part.open("rb") as file:
            os.fsync(file.fileno())
        part.rename(target)
        folder = os.open(target.parent, os.O_RDONLY)
        os.fsync(folder)
        os.close(folder)
    except (sqlite3.Error, OSError) as error:
        raise StoreError(f"cannot copy {source} to {target}: {error}") from error
    finally:
        part.unlink(missing_ok=True)
