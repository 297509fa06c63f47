"""Looking after a store: copying a SQLite file that is in use, putting a copy back, and finding what is wrong."""

import os
import shutil
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

import sqlalchemy as sa

from igcf.errors import StoreError
from igcf.progress import Report, silent
from igcf.service.store.audit_files import AuditFolder
from igcf.service.store.database import BUSY_S
from igcf.service.store.durable import make_durable
from igcf.service.store.invariants import Problem, problems
from igcf.service.store.placement import REBALANCE, record_from, unfinished_import
from igcf.service.store.snapshots import rows_of, snapshot
from igcf.service.store.spread import AnyStore, Spread, open_store
from igcf.service.store.store import Store
from igcf.service.store.tables import users
from igcf.service.store.urls import database_url

PAGES = 4_000
"""Pages of a SQLite file that are copied between two reports."""


def backup_store(stores: Sequence[str], out: Path, report: Report = silent) -> None:
    """Copy a SQLite store to `out`, also while servers use it: all that was acknowledged before, nothing in part.

    Of several databases the copies are in a folder, all of the same moment: every user is whole in one of them.
    """
    files = [_sqlite_file(store) for store in stores]
    _refuse_some(files)
    if len(files) == 1:
        with _at_one_moment(files) as (old,):
            _copy(old, out, report)
        return
    if out.exists():
        raise StoreError(f"{out} exists; a copy is never overwritten, choose another name")
    part = out.with_name(f".{out.name}.part")
    shutil.rmtree(part, ignore_errors=True)  # left over from a crash
    try:
        part.mkdir(parents=True)
        with _at_one_moment(files) as olds:
            for number, old in enumerate(olds, start=1):
                _copy(old, part / f"{number:03d}.db", report)
        part.rename(out)
        make_durable(out.parent)
    except OSError as error:
        raise StoreError(f"cannot copy the store to {out}: {error}") from error
    finally:
        shutil.rmtree(part, ignore_errors=True)


def _refuse_some(files: Sequence[Path]) -> None:
    """Refuse to copy only some of the databases of a store, or any while users are on their way to them.

    The files are read as they are: opening the store would migrate it, and one copies it before that.
    """
    found: list[dict[str, str]] = []
    for file in files:
        with closing(sqlite3.connect(file)) as connection:
            try:
                found.append(dict(connection.execute("SELECT key, value FROM placement").fetchall()))
            except sqlite3.Error as error:
                if "no such table" not in str(error):
                    raise StoreError(f"cannot copy {file}: {error}") from error
                found.append({})  # older than this table
    ids = {each.get("id") for each in found}
    for file, each in zip(files, found, strict=True):
        record = record_from(each["record"], str(file)) if "record" in each else None
        if record is not None and record.state == "moving":
            raise StoreError(f"users of {file} are being moved, or the moving was interrupted; run {REBALANCE} first")
        if record is not None and record.state == "importing":
            raise StoreError(unfinished_import(str(file)))
        if record is not None and record.state == "steady" and (left := record.members.keys() - ids):
            names = ", ".join(record.members[each] for each in sorted(left))
            raise StoreError(f"{file} is one of several databases of a store; name also {names}, one --store each")


def restore_store(backup: Path, stores: Sequence[str], report: Report = silent) -> None:
    """Make new SQLite stores from copies; one that exists is never overwritten."""
    if not backup.exists():
        raise StoreError(f"there is no copy of a store at {backup}; `igcf store backup` makes one")
    copies = sorted(backup.glob("*.db")) if backup.is_dir() else [backup]
    if len(copies) != len(stores):
        raise StoreError(
            f"{backup} has copies of {len(copies)} databases, {len(stores)} are named; name one --store each"
        )
    sources = [_sqlite_file(str(copy)) for copy in copies]
    targets = [_new_file(backup, store) for store in stores]
    if len(set(targets)) < len(targets):
        raise StoreError("a database is named twice; expected each --store once")
    with _at_one_moment(sources, is_in_use=False) as olds:
        for old, target in zip(olds, targets, strict=True):
            _copy(old, target, report)


def _new_file(backup: Path, store: str) -> Path:
    url = database_url(store)
    if url.drivername != "sqlite":
        raise StoreError(
            f"{backup} can be restored to a SQLite file only; PostgreSQL has pg_restore, or `igcf store import`"
        )
    target = Path(str(url.database))
    if any(Path(f"{target}{ending}").exists() for ending in ("-wal", "-shm")):
        raise StoreError(f"{target}-wal or -shm is left from another store; stop its servers and move it away first")
    if target.exists():
        raise StoreError(f"{target} exists; a store is never overwritten, choose another name")
    return target


def check_store(*stores: str) -> list[str]:
    """Find what is wrong with a store: one sentence per row, none for a sound one. Beliefs are not looked at."""
    opened = open_existing(stores)
    try:
        return [str(problem) for part in opened.parts for problem in part_problems(opened, part)]
    finally:
        opened.close()


def part_problems(store: AnyStore, part: Store, report: Report = silent) -> Iterator[Problem]:
    """Find what is wrong with one of the databases of a store."""
    with snapshot(part.database) as connection:
        yield from problems(connection, report, counts=len(store.parts) == 1)
        if isinstance(store, Spread):
            yield from _misplaced(connection, store, part)


def audit_problems(folder: AuditFolder) -> Iterator[Problem]:
    """Find what is wrong with an audit in files: what cannot be read, and answers that are there twice."""
    seen: set[str] = set()
    try:
        for answers in folder.answers():
            for name in (answer["recommendation_id"] for answer in answers):
                if name in seen:
                    yield Problem("audit", name, "the answer is there twice")
                seen.add(name)
    except StoreError as error:
        yield Problem("audit", str(folder.folder), str(error))


def _misplaced(connection: sa.Connection, store: Spread, part: Store) -> Iterator[Problem]:
    for (user_id,) in rows_of(connection, sa.select(users.c.user_id)):
        if store.place(user_id) is not part:
            yield Problem(users.name, repr(user_id), f"the user belongs to {store.place(user_id).database.name}")


def open_existing(stores: Sequence[str]) -> AnyStore:
    """Open a store, all databases of which must answer; one that does not exist is not created."""
    for store in stores:
        if database_url(store).drivername == "sqlite":
            _sqlite_file(store)
    opened = open_store(stores)
    if len(opened.living) < len(opened.parts):
        opened.close()
        raise StoreError("not all databases of the store answer")
    return opened


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


@contextmanager
def _at_one_moment(files: Sequence[Path], *, is_in_use: bool = True) -> Iterator[list[sqlite3.Connection]]:
    """Open SQLite files for reading as they are now: a visitor who is merged meanwhile is not in neither of them."""
    with ExitStack() as stack:
        try:
            opened = [stack.enter_context(closing(_opened(file))) for file in files]
            with ExitStack() as held:
                for file in sorted(files, key=Path.resolve) if is_in_use and len(files) > 1 else ():
                    held.enter_context(closing(_opened(file))).execute("BEGIN IMMEDIATE")
                for connection in opened:
                    connection.execute("BEGIN")
                    connection.execute("SELECT COUNT(*) FROM sqlite_master").fetchone()
        except sqlite3.Error as error:
            raise StoreError(f"cannot copy {', '.join(map(str, files))}: {error}") from error
        yield opened


def _opened(file: Path) -> sqlite3.Connection:
    return sqlite3.connect(file, timeout=BUSY_S, isolation_level=None)


def _copy(old: sqlite3.Connection, target: Path, report: Report) -> None:
    """Copy under another name first, check the copy, make it durable: a reader meets all of it or nothing."""
    if target.exists():
        raise StoreError(f"{target} exists; a store is never overwritten, choose another name")
    part = target.with_name(f".{target.name}.part")
    try:
        with closing(sqlite3.connect(part)) as new:
            old.backup(new, pages=PAGES, progress=lambda _, left, pages: report("pages copied", pages - left, pages))
            report("checking the copy", 0, None)
            new.execute("PRAGMA journal_mode=DELETE")  # one file, without a log beside it
            found = new.execute("PRAGMA integrity_check").fetchone()[0]
            if found != "ok":
                raise StoreError(f"the copy for {target} is damaged: {found}")
        with part.open("rb") as file:
            os.fsync(file.fileno())
        part.rename(target)
        folder = os.open(target.parent, os.O_RDONLY)
        os.fsync(folder)
        os.close(folder)
    except (sqlite3.Error, OSError) as error:
        raise StoreError(f"cannot copy the store to {target}: {error}") from error
    finally:
        part.unlink(missing_ok=True)
