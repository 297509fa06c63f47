"""SQLite's write-ahead log: copied to the file and, after deletions, emptied, without keeping anybody waiting."""

import sqlite3
import threading
from contextlib import closing, suppress
from pathlib import Path

AGAIN_S = 0.2
"""Pause after an attempt that met a reader or a writer."""
COPY_EVERY_S = 0.5
LONG_LOG = 8_000
"""Pages of the log beyond which writers are stopped for a moment, so that it begins anew; 32 MB."""
LONGEST_LOG = 4 * LONG_LOG
"""Pages of the log at which a commit copies what is left, where the thread that does so does not come to it."""
RESTART_MS = 100
"""How long writers are kept waiting, at most, for the last readers of a long log."""


class Copier:
    """A thread that copies what was committed from the log to the file, so that commits need not do it.

    Without it, one commit in a few dozen would wait until a thousand pages all over the file are written; and while
    several processes write all the time, the log would never be copied whole, and never begin anew.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._written = threading.Event()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="igcf-copy", daemon=True)
        self._thread.start()

    def tell(self) -> None:
        """Say that something was committed."""
        if not self._written.is_set():
            self._written.set()

    def close(self) -> None:
        """Stop copying; SQLite itself does it when the last connection is closed."""
        self._stop.set()
        self._written.set()
        self._thread.join(timeout=10)

    def _run(self) -> None:
        while not self._stop.is_set():
            self._written.wait()
            if self._stop.wait(COPY_EVERY_S):
                return
            self._written.clear()
            with suppress(sqlite3.Error), closing(_connected(self._path)) as connection:
                _, pages, _ = connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
                if pages > LONG_LOG:  # all but the latest pages are copied, so that the rest takes a moment
                    connection.execute(f"PRAGMA busy_timeout={RESTART_MS}")
                    connection.execute("PRAGMA wal_checkpoint(RESTART)")


class Checkpointer:
    """A thread that empties the log when asked, and tries again for as long as readers or writers are in the way."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._asked = threading.Event()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()

    @property
    def is_pending(self) -> bool:
        """Whether deleted content may still be in the log."""
        return self._thread is not None or self._asked.is_set()

    def ask(self) -> None:
        """Have the log emptied; returns at once."""
        with self._lock:
            self._asked.set()
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._run, name="igcf-checkpoint", daemon=True)
                self._thread.start()

    def close(self) -> None:
        """Stop trying; SQLite itself empties the log when the last connection is closed."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(timeout=10)

    def _run(self) -> None:
        while not self._stop.is_set():
            self._asked.clear()  # a deletion from here on asks for another turn
            if not self._is_emptied():
                self._asked.set()
                self._stop.wait(AGAIN_S)
                continue
            with self._lock:
                if not self._asked.is_set():
                    self._thread = None
                    return

    def _is_emptied(self) -> bool:
        try:
            # Without a timeout: an attempt that waited would keep writers from their turn meanwhile.
            with closing(_connected(self._path)) as connection:
                busy, _, _ = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        except sqlite3.Error:
            return False
        return not busy


def _connected(path: str) -> sqlite3.Connection:
    """Open a connection that does not wait for others; a file that is gone is not made anew."""
    return sqlite3.connect(f"{Path(path).absolute().as_uri()}?mode=rw", uri=True, timeout=0, isolation_level=None)
