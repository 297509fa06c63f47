"""Making commits to a SQLite file durable after SQLite has let the next writer in, instead of before.

SQLite with `synchronous=FULL` waits for the disk while it holds the lock of writers, so that no two commits wait at the
same time. With `synchronous=NORMAL` a commit only appends to the write-ahead log; whoever made it then waits here, and
meanwhile others write. Commits stay in order: a power cut may take the end of the log, which nobody was told of.
"""

import os
import sqlite3
from contextlib import closing
from pathlib import Path

from igcf.errors import StoreError
from igcf.service.store.durable import make_durable

_sync = getattr(os, "fdatasync", os.fsync)  # macOS has only the latter


class LogSync:
    """The write-ahead log of a SQLite file, and whether all of it can be relied on to reach the disk."""

    def __init__(self, path: Path, wait_s: float) -> None:
        self._path, self._wait_s = path, wait_s
        self._log = Path(f"{path.resolve()}-wal")  # SQLite puts it beside the file itself, not beside a link to it
        self._identity: os.stat_result | None = None
        self._is_doubtful = False
        """Whether the disk has refused a part of the log; it may then take the next one and still lack that part."""

    def open(self) -> int:
        """Open the log for one commit, before anything of it is written: the system tells of errors after that."""
        try:
            if self._identity is None:  # in the first turn to write, when SQLite has opened it too
                make_durable(self._log.parent)  # its name: SQLite does that only when it copies
                self._identity = os.stat(self._log)
            return os.open(self._log, os.O_RDONLY | os.O_CLOEXEC)
        except OSError as error:
            raise StoreError(f"the store {self._path} has lost its log: {self._log}: {error.strerror}") from error

    def is_same(self) -> bool:
        """Whether the log is the one that SQLite has open here: otherwise what is written is lost."""
        try:
            return self._identity is not None and os.path.samestat(self._identity, os.stat(self._log))
        except OSError:
            return False

    def wait(self, fd: int) -> None:
        """Return when all that was committed before is on the disk."""
        if self._is_doubtful:
            self._copy_all()
            return
        try:
            _sync(fd)
        except OSError as error:
            self._is_doubtful = True
            raise StoreError(f"the store {self._path} could not be made durable: {error.strerror}") from error

    def _copy_all(self) -> None:
        """Copy the whole log to the file and begin it anew: what the disk refused of it is not needed any more."""
        try:
            uri = f"{self._path.absolute().as_uri()}?mode=rw"
            with closing(sqlite3.connect(uri, uri=True, timeout=self._wait_s, isolation_level=None)) as connection:
                busy, _, _ = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        except sqlite3.Error as error:
            raise StoreError(f"the store {self._path} could not be made durable: {error}") from error
        if busy:
            raise StoreError(f"the store {self._path} could not be made durable: others were reading it all the time")
        self._is_doubtful = False
