"""Looking after a store: copying a SQLite file that is in use, putting a copy back, and finding what is wrong."""

import sqlite3
from contextlib import closing
from pathlib import Path

from igcf.errors import StoreError
from igcf.progress import Report, silent
from igcf.service.store.database import BUSY_S
from igcf.service.store.durable import make_durable
from igcf.service.store.invariants import problems
from igcf.service.store.snapshots import snapshot
from igcf.service.store.store import Store
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
    url = database_url(store)
    if url.drivername != "sqlite":
        raise StoreError(
            f"{backup} can be restored to a SQLite file only; PostgreSQL has pg_restore, or `igcf store import`"
        )
    target = Path(str(url.database))
    if any(Path(f"{target}{ending}").exists() for ending in ("-wal", "-shm")):
        raise StoreError(f"{target}-wal or -shm is left from another store; stop its servers and move it away first")
    _copy(_sqlite_file(str(backup)), target, report)


def check_store(store: str) -> list[str]:
    """Find what is wrong with a store: one sentence per row, none for a sound one. Beliefs are not looked at."""
    opened = open_existing(store)
    try:
        with snapshot(opened.database) as connection:
            return [str(problem) for problem in problems(connection)]
    finally:
        opened.close()


def open_existing(store: str) -> Store:
    """Open a store; one that does not exist is not created."""
    if database_url(store).drivername == "sqlite":
        _sqlite_file(store)
    return Store(store)


def _sqlite_file(store: str) -> Path:
    url = database_url(store)
    if url.drivername != "sqlite":
        raise StoreError(
            "PostgreSQL has tools of its own for this: pg_dump, pg_basebackup; `igcf store export` is for both kinds"
        )
    path = Path(str(url.database))
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
