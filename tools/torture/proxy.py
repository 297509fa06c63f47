"""A proxy between a server and PostgreSQL that cuts all connections after so many bytes."""

import socket
import threading
from contextlib import suppress
from typing import Literal

Direction = Literal["up", "down"]
"""Towards the database, or from it."""


class Proxy:
    """Listens on loopback and passes bytes to and from the socket of a database."""

    def __init__(self, target: str) -> None:
        self._target = target
        self._lock = threading.Lock()
        self._pairs: set[tuple[socket.socket, socket.socket]] = set()
        self._passed: dict[Direction, int] = {"up": 0, "down": 0}
        self._cut: tuple[Direction, int] | None = None
        self.n_cuts = 0
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, name="torture-proxy", daemon=True).start()

    def arm(self, direction: Direction, after: int) -> None:
        """Cut all connections once, when so many more bytes have passed in this direction."""
        with self._lock:
            self._passed = {"up": 0, "down": 0}
            self._cut = direction, after

    def disarm(self) -> dict[Direction, int]:
        """Cut nothing any more; returns how many bytes have passed since `arm`."""
        with self._lock:
            self._cut = None
            return dict(self._passed)

    def close(self) -> None:
        """Stop: cut all connections and take no more."""
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)  # closing alone would let a waiting `accept` take one more
        self._listener.close()
        with self._lock:
            self._close_all()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                far = socket.socket(socket.AF_UNIX)
                try:
                    far.connect(self._target)
                except OSError:
                    near.close()
                    continue
                with self._lock:
                    self._pairs.add((near, far))
                for source, sink, way in ((near, far, "up"), (far, near, "down")):
                    arguments = (source, sink, way, (near, far))
                    threading.Thread(target=self._pump, args=arguments, daemon=True).start()

    def _pump(
        self, source: socket.socket, sink: socket.socket, way: Direction, pair: tuple[socket.socket, socket.socket]
    ) -> None:
        with suppress(OSError):
            while content := source.recv(65536):
                with self._lock:
                    allowed = len(content)
                    if self._cut is not None and self._cut[0] == way:
                        allowed = min(allowed, max(0, self._cut[1] - self._passed[way]))
                    self._passed[way] += allowed
                    if allowed:
                        sink.sendall(content[:allowed])
                    if allowed < len(content):
                        self._cut, self.n_cuts = None, self.n_cuts + 1
                        self._close_all()
                        return
        with self._lock:
            self._close(pair)

    def _close_all(self) -> None:
        for pair in list(self._pairs):
            self._close(pair)

    def _close(self, pair: tuple[socket.socket, socket.socket]) -> None:
        self._pairs.discard(pair)
        for end in pair:
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()
