"""Commits to a SQLite file: acknowledged when they are on the disk, while others go on writing."""

import errno
import os
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy import event

from igcf.errors import StoreError
from igcf.service.store import NewEvent, Store, checkpoint, log_sync
from igcf.service.store.checkpoint import Copier
from igcf.service.store.log_sync import LogSync


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


class Disk:
    """What the system tells of a file: every descriptor hears once of each refusal since it was opened."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.refusals, self.refuses_next, self.syncs = 0, False, 0
        self.emptied = list[int]()
        """Lengths of the log when it was made durable with its length."""
        self._heard: dict[int, int] = {}
        self._sync, self._open, self._fsync = log_sync._sync, os.open, os.fsync
        monkeypatch.setattr(log_sync, "_sync", self.sync)
        monkeypatch.setattr(os, "open", self.open)
        monkeypatch.setattr(os, "fsync", self.fsync)

    def open(self, path: Any, *rest: Any, **options: Any) -> int:
        fd = self._open(path, *rest, **options)
        self._heard[fd] = self.refusals
        return fd

    def sync(self, fd: int) -> None:
        self.syncs += 1
        self.refusals += self.refuses_next
        self.refuses_next = False
        heard, self._heard[fd] = self._heard[fd], self.refusals
        if heard < self.refusals:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        self._sync(fd)

    def fsync(self, fd: int) -> None:
        self.emptied.append(os.fstat(fd).st_size)
        self._fsync(fd)


@contextmanager
def read_by_others(path: Path) -> Iterator[None]:
    """Somebody reads the store, which is in the way of copying all of the log."""
    with closing(sqlite3.connect(path, isolation_level=None)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT * FROM users").fetchall()
        yield


def reaction(event_id: str) -> list[NewEvent]:
    return [NewEvent(event_id, "i1", 1.0)]


def test_what_the_disk_refuses_is_not_acknowledged_until_the_whole_log_is_in_the_file(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A disk that has refused a part of a file says of the next part that all is well."""
    disk = Disk(monkeypatch)
    store = _impatient(Store(str(path)))
    disk.refuses_next = True
    with read_by_others(path):
        for event_id in ("e1", "e2"):
            with pytest.raises(StoreError, match="could not be made durable"):
                store.append("ann", reaction(event_id), "m")
    disk.emptied.clear()
    again = store.append("ann", [*reaction("e1"), *reaction("e2")], "m")
    assert [(each.revision, each.duplicate) for each in again.receipts] == [(2, True), (2, True)]
    assert path.with_name("s.db-wal").stat().st_size == 0
    assert disk.emptied == [0]  # what is left of the old log on the disk would be taken for newer than the file
    n = disk.syncs
    store.append("ann", reaction("e3"), "m")
    assert disk.syncs == n + 1
    disk.refuses_next = True
    store.append("ann", reaction("e4"), "m")  # refused in the log, and written to the file at once
    assert disk.emptied == [0, 0]
    store.close()


def test_what_the_disk_refuses_to_one_server_is_not_built_on_by_another(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The system tells of it once; who opens the log afterwards hears nothing, and a power cut takes all after it."""
    disk = Disk(monkeypatch)
    one, two = _impatient(Store(str(path))), _impatient(Store(str(path)))
    disk.refuses_next = True
    with read_by_others(path):
        with pytest.raises(StoreError, match="could not be made durable"):
            one.append("ann", reaction("e1"), "m")
        with pytest.raises(StoreError, match="could not be made durable"):
            two.append("bob", reaction("e1"), "m")
    disk.emptied.clear()
    two.append("bob", reaction("e2"), "m")
    assert disk.emptied == [0]
    one.close()
    two.close()


def test_one_more_writer_than_ever_before_hears_of_earlier_refusals_too(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk, store, copied = Disk(monkeypatch), Store(str(path)), list[None]()
    log = LogSync(path, 1.0)
    first = log.open()
    disk.refusals += 1  # another process has heard of it
    second = log.open()
    monkeypatch.setattr(log, "_copy_all", lambda: copied.append(None))
    log.wait(second)
    assert len(copied) == 1
    log.give_back(first)
    log.give_back(second)
    log.close()
    store.close()


def test_what_is_refused_while_the_log_is_being_copied_has_it_copied_again(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk, store, copied = Disk(monkeypatch), Store(str(path)), list[None]()
    log = LogSync(path, 1.0)
    fds = [log.open() for _ in range(3)]

    def copy() -> None:
        copied.append(None)
        if len(copied) == 1:  # meanwhile another one, who asked the disk before that was known, is refused
            disk.refuses_next, log._mended = True, log._refused
            with pytest.raises(StoreError):
                log.wait(fds[1])
        elif len(copied) == 2:
            raise StoreError("not now")

    monkeypatch.setattr(log, "_copy_all", copy)
    disk.refuses_next = True
    log.wait(fds[0])
    log.wait(fds[2])
    assert len(copied) == 3
    for fd in fds:
        log.give_back(fd)
    log.close()
    store.close()


def _impatient(store: Store) -> Store:
    log: Any = store.database._log
    log._wait_s = 0.05
    return store


@pytest.mark.parametrize("ending", ["-wal", "-shm"], ids=["log", "index of the log"])
def test_a_log_that_another_one_takes_the_place_of_acknowledges_nothing(path: Path, ending: str) -> None:
    store = Store(str(path))
    store.append("ann", reaction("e1"), "m")
    replaced = path.with_name(f"s.db{ending}")
    replaced.unlink()
    replaced.write_bytes(b"")
    length = path.with_name("s.db-wal").stat().st_size
    with pytest.raises(StoreError, match="deleted or replaced"):
        store.append("ann", reaction("e2"), "m")
    assert path.with_name("s.db-wal").stat().st_size == length  # others may have written there since
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
