"""A limit of time for a database that hangs: it says nothing, so that only cutting the connection ends the waiting."""

import os
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress

LOOK_EVERY_S = 0.25


class Watchdog:
    """A thread that shuts down the sockets of connections in use for too long."""

    def __init__(self) -> None:
        self._due: dict[object, tuple[float, int]] = {}
        self._lock = threading.Lock()
        self._stop = threading.Event()
        threading.Thread(target=self._run, name="igcf-watchdog", daemon=True).start()

    @contextmanager
    def limit(self, fd: int, seconds: float) -> Iterator[None]:
        """Shut down the socket `fd` if the body takes longer than so many seconds."""
        key = object()
        with self._lock:
            self._due[key] = time.monotonic() + seconds, fd
        try:
            yield
        finally:
            with self._lock:
                self._due.pop(key, None)

    def close(self) -> None:
        """Stop looking."""
        self._stop.set()

    def _run(self) -> None:
        while not self._stop.wait(LOOK_EVERY_S):
            now = time.monotonic()
            with self._lock:  # whoever leaves `limit` waits here: the number is not given to another socket meanwhile
                for key, (due, fd) in list(self._due.items()):
                    if due < now:
                        del self._due[key]
                        with suppress(OSError), closing(socket.socket(fileno=os.dup(fd))) as end:
                            end.shutdown(socket.SHUT_RDWR)
