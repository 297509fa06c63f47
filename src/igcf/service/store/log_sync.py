"""Making commits to a SQLite file durable after SQLite has let the next writer in, instead of before.

SQLite with `synchronous=FULL` waits for the disk while it holds the lock of writers, so that no two commits wait at the
same time. With `synchronous=NORMAL` a commit only appends to the write-ahead log; whoever made it then waits here, and
meanwhile others write. Commits stay in order: a power cut may take the end of the log, which nobody was told of.
"""

import os
import sqlite3
import threading
from contextlib import closing
from pathlib import Path

from igcf.errors import StoreError
from igcf.service.store.durable import make_durable

_sync = getattr(os, "fdatasync", os.fsync)  # macOS has only the latter


class LogSync:
    """The write-ahead log of a SQLite file, and whether all of it can be relied on to reach the disk.

    The system tells of a part that the disk has refused once to each descriptor that was open then, whoever else has
    heard of it. So descriptors are kept, one for each commit that waits at a time: what another process was told of is
    heard here too. One that is opened later knows nothing of what was before; the eldest is asked for it.
    """

    def __init__(self, path: Path, wait_s: float) -> None:
        self._path, self._wait_s = path, wait_s
        file = path.resolve()  # SQLite puts both beside the file itself, not beside a link to it
        self._log, self._index = f"{file}-wal", f"{file}-shm"
        self._identity: tuple[tuple[int, int], ...] | None = None
        self._eldest: int | None = None
        self._unused: list[int] = []
        self._lock = threading.Lock()
        self._refused = self._mended = 0
        """How often the disk has refused a part of the log, and how many of these times it was copied since; it may
        take the next part and still lack that one."""
        self._is_closed = False

    def open(self) -> int:
        """Take a descriptor for one commit, in the turn to write, before anything is written; see `give_back`."""
        try:
            if self._identity is None:  # in the first turn to write, when SQLite has opened both files too
                make_durable(Path(self._log).parent)  # their names: SQLite does that only when it copies
                self._identity = self._found()
            with self._lock:
                if self._unused:
                    return self._unused.pop()
            if self._eldest is None:
                self._eldest = self._opened()
            fd = self._opened()
        except OSError as error:
            raise StoreError(f"the store {self._path} has lost its log: {self._log}: {error.strerror}") from error
        try:
            _sync(self._eldest)
        except OSError:
            self._note_refusal()
        return fd

    def give_back(self, fd: int) -> None:
        """Say that a descriptor is not needed any more."""
        with self._lock:
            if not self._is_closed:
                self._unused.append(fd)
                return
        os.close(fd)

    def close(self) -> None:
        """Close all descriptors that nobody uses."""
        with self._lock:
            self._is_closed = True
            unused, self._unused = self._unused, []
        for fd in unused if self._eldest is None else [*unused, self._eldest]:
            os.close(fd)
        self._eldest = None

    def is_same(self) -> bool:
        """Whether the log and its index are those that SQLite has open here: otherwise what is written is lost."""
        try:
            return self._identity is not None and self._identity == self._found()
        except OSError:
            return False

    def wait(self, fd: int) -> None:
        """Return when all that was committed before is on the disk, in the log or in the file."""
        refused = self._refused
        if refused == self._mended:
            try:
                _sync(fd)
            except OSError:
                refused = self._note_refusal()
            else:
                return
        self._copy_all()
        with self._lock:
            self._mended = max(self._mended, refused)  # what was refused meanwhile may not be in it

    def _note_refusal(self) -> int:
        with self._lock:
            self._refused += 1
            return self._refused

    def _opened(self) -> int:
        return os.open(self._log, os.O_RDONLY | os.O_CLOEXEC)

    def _found(self) -> tuple[tuple[int, int], ...]:
        return tuple((found.st_dev, found.st_ino) for found in map(os.stat, (self._log, self._index)))

    def _copy_all(self) -> None:
        """Copy the whole log to the file and begin it anew: what the disk refused of it is not needed any more.

        Its new beginning must be on the disk too: what is there of the old one would be taken for newer than the file.
        """
        fd = None
        try:
            fd = self._opened()  # hears of errors from here on, not of those before
            uri = f"{self._path.absolute().as_uri()}?mode=rw"
            with closing(sqlite3.connect(uri, uri=True, timeout=self._wait_s, isolation_level=None)) as connection:
                busy, _, _ = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
            os.fsync(fd)
        except (sqlite3.Error, OSError) as error:
            raise StoreError(f"the store {self._path} could not be made durable: {error}") from error
        finally:
            if fd is not None:
                os.close(fd)
        if busy:
            raise StoreError(f"the store {self._path} could not be made durable: others were reading it all the time")
