"""Commits to a SQLite file: acknowledged when they are on the disk, while others go on writing."""

import errno
import os
import sqlite3
import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy import event

from igcf.errors import StoreError
from igcf.service.random_ids import AT_ONCE, new_id
from igcf.service.store import NewEvent, Store, checkpoint, log_sync
from igcf.service.store.checkpoint import Copier


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "s.db"


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], None]], None]:
    """Returns a function that sets what happens before the log is written to the disk."""
    sync = log_sync._sync

    def set_before(before: Callable[[], None]) -> None:
        def both(fd: int) -> None:
            before()
            sync(fd)

        monkeypatch.setattr(log_sync, "_sync", both)

    return set_before


def events_of(path: Path, user: str) -> list[str]:
    with closing(sqlite3.connect(path)) as connection:
        query = "SELECT event_id FROM feedback WHERE user_id = ? ORDER BY revision"
        return [event_id for (event_id,) in connection.execute(query, (user,))]


def test_a_reaction_is_acknowledged_when_it_is_on_the_disk_and_others_write_meanwhile(
    path: Path, synced: Callable[[Callable[[], None]], None]
) -> None:
    one, two = Store(str(path)), Store(str(path))
    is_waiting, may_go_on = threading.Event(), threading.Event()

    def wait() -> None:
        if threading.current_thread() is thread:
            is_waiting.set()
            may_go_on.wait(30)

    told: list[int] = []
    thread = threading.Thread(
        target=lambda: told.append(one.append("ann", [NewEvent("e1", "i1", 1.0)], "m").version[1])
    )
    synced(wait)
    thread.start()
    assert is_waiting.wait(30)
    assert told == []
    assert two.append("bob", [NewEvent("e1", "i1", 1.0)], "m").version[1] == 1
    assert one.append("ann", [NewEvent("e2", "i1", 1.0)], "m").version[1] == 2  # another thread of the same server
    assert events_of(path, "ann") == ["e1", "e2"]
    assert told == []
    may_go_on.set()
    thread.join()
    assert told == [1]
    one.close()
    two.close()


def test_a_repetition_that_stores_nothing_waits_for_the_disk_too(
    path: Path, synced: Callable[[Callable[[], None]], None]
) -> None:
    """The first one may have been committed by another server a moment ago and not be on the disk yet."""
    store, waits = Store(str(path)), list[None]()
    store.append("ann", [NewEvent("e1", "i1", 1.0)], "m")
    synced(lambda: waits.append(None))
    again = store.append("ann", [NewEvent("e1", "i1", 1.0)], "m")
    assert (again.receipts[0].duplicate, len(waits)) == (True, 1)
    store.close()


def test_what_the_disk_refuses_is_not_acknowledged_until_the_whole_log_is_in_the_file(
    path: Path, synced: Callable[[Callable[[], None]], None]
) -> None:
    """A disk that has refused a part of a file says of the next part that all is well."""
    store, calls = Store(str(path)), list[None]()

    def refuse_once() -> None:
        calls.append(None)
        if len(calls) == 1:
            raise OSError(errno.EIO, os.strerror(errno.EIO))

    synced(refuse_once)
    with pytest.raises(StoreError, match="could not be made durable: Input/output error"):
        store.append("ann", [NewEvent("e1", "i1", 1.0)], "m")
    with closing(sqlite3.connect(path, isolation_level=None)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT * FROM users").fetchall()  # in the way of copying all of it
        with pytest.raises(StoreError, match="could not be made durable"):
            Store.append(_impatient(store), "ann", [NewEvent("e2", "i1", 1.0)], "m")
    again = store.append("ann", [NewEvent("e1", "i1", 1.0), NewEvent("e2", "i1", 1.0)], "m")
    assert [(each.revision, each.duplicate) for each in again.receipts] == [(2, True), (2, True)]
    assert path.with_name("s.db-wal").stat().st_size == 0
    assert len(calls) == 1
    store.append("ann", [NewEvent("e3", "i1", 1.0)], "m")
    assert len(calls) == 2
    store.close()


def _impatient(store: Store) -> Store:
    log: Any = store.database._log
    log._wait_s = 0.05
    return store


def test_a_log_that_another_one_takes_the_place_of_acknowledges_nothing(path: Path) -> None:
    store = Store(str(path))
    store.append("ann", [NewEvent("e1", "i1", 1.0)], "m")
    log = path.with_name("s.db-wal")
    log.unlink()
    log.write_bytes(b"")
    with pytest.raises(StoreError, match="deleted or replaced"):
        store.append("ann", [NewEvent("e2", "i1", 1.0)], "m")
    store.close()


def test_a_long_log_begins_anew_though_somebody_is_always_writing(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoint, "LONG_LOG", 50)
    monkeypatch.setattr(checkpoint, "COPY_EVERY_S", 0.01)
    stores = [Store(str(path)) for _ in range(2)]  # a tool's: nothing is copied but by the one thread here
    copier, log, written = Copier(str(path)), path.with_name("s.db-wal"), list[int]()
    first = _beginnings(log)

    def write(store: Store) -> None:
        for number in range(600):
            events = [NewEvent(f"{id(store)}-{number}", "i1", 1.0)]
            store.append_all({f"u{n}": events for n in range(100)}, "m")
            copier.tell()
            written.append(number)
            if _beginnings(log) >= first + 3:
                return

    threads = [threading.Thread(target=write, args=(store,)) for store in stores]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    copier.close()
    assert _beginnings(log) >= first + 3  # where it is only copied it grows all the time
    assert len(events_of(path, "u1")) == len(written)
    for store in stores:
        store.close()


def _beginnings(log: Path) -> int:
    """How often the log has begun anew, as its head counts it."""
    with log.open("rb") as file:
        return int.from_bytes(file.read(16)[12:], "big")


def test_the_number_of_statements_does_not_grow_with_the_users_of_a_batch(path: Path) -> None:
    store, statements = Store(str(path)), list[str]()

    def count(*said: Any) -> None:
        statements.append(said[2])

    event.listen(store.database.engine, "before_cursor_execute", count)

    def needed(users: int, event_id: str) -> int:
        statements.clear()
        found = store.append_all({f"u{n}": [NewEvent(event_id, "i1", 1.0)] for n in range(users)}, "m")
        assert all(not isinstance(each, StoreError) and len(each.fresh) == 1 for each in found.values())
        return len(statements)

    assert needed(5, "new") == needed(60, "new, and some known") - 1 == needed(60, "known") == 3
    store.close()


def test_rows_in_several_statements_are_those_of_one(path: Path) -> None:
    store = Store(str(path))
    events = [NewEvent(f"e{n}", "i1", n / 7) for n in range(1_191)]  # two statements of 512, two of 64, one of 39
    store.append("ann", events, "m")
    assert [(each.event_id, each.value, each.revision) for each in store.events("ann")] == [
        (f"e{n}", n / 7, n + 1) for n in range(1_191)
    ]
    store.close()


def test_ids_are_never_handed_out_twice_not_even_by_a_process_that_was_split_in_two() -> None:
    ids = {new_id() for _ in range(3 * AT_ONCE + 5)}
    assert len(ids) == 3 * AT_ONCE + 5
    assert {len(each) for each in ids} == {32}
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        os.write(writing, new_id().encode())
        os._exit(0)
    os.waitpid(child, 0)
    theirs = os.read(reading, 32).decode()
    os.close(reading)
    os.close(writing)
    assert len(theirs) == 32
    assert theirs not in {new_id() for _ in range(AT_ONCE)} | ids


def test_sqlite_itself_does_not_wait_for_the_disk(path: Path) -> None:
    store = Store(str(path))

    def found(connection: sa.Connection) -> tuple[str, int]:
        modes = [connection.exec_driver_sql(f"PRAGMA {name}").scalar_one() for name in ("journal_mode", "synchronous")]
        return modes[0], modes[1]

    assert store.database.read(found) == ("wal", 1)
    store.close()


def test_the_name_of_a_new_log_is_on_the_disk_before_anything_in_it_is_acknowledged(
    path: Path, synced: Callable[[Callable[[], None]], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[str] = []
    monkeypatch.setattr(log_sync, "make_durable", lambda folder: done.append(str(folder)))
    synced(lambda: done.append("log"))
    Store(str(path)).close()
    assert done[:2] == [str(path.parent), "log"]


def test_a_file_behind_a_link_is_served(path: Path) -> None:
    link = path.with_name("link.db")
    link.symlink_to(path)
    store = Store(str(link))
    store.append("ann", [NewEvent("e1", "i1", 1.0)], "m")
    store.close()
    assert events_of(path, "ann") == ["e1"]
