"""Whether this process was stopped: time limits that expire in such a pause say nothing about the service."""

import threading
import time

TICK_S = 0.1
LONG_S = 1.5
"""A tick that takes longer means that the process stood still; on a busy machine it may well take a second."""


class Standstill:
    """A thread that counts how often the process has stood still."""

    def __init__(self) -> None:
        self.times = 0
        self._stop = threading.Event()
        threading.Thread(target=self._run, name="standstill", daemon=True).start()

    def close(self) -> None:
        """Stop counting."""
        self._stop.set()

    def _run(self) -> None:
        before = time.monotonic()
        while not self._stop.wait(TICK_S):
            now = time.monotonic()
            self.times += now - before > TICK_S + LONG_S
            before = now
