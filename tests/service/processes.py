"""Real server processes for the tests, ended one by one."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import httpx


def wait_until(is_so: Callable[[], bool], what: str, seconds: float = 60.0) -> None:
    """Wait for a condition; fails with `what` when it does not come about."""
    deadline = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < deadline, what
        time.sleep(0.02)


class Server:
    """`igcf serve` in processes of its own."""

    def __init__(self, folder: Path, store: str | None, *options: str, port: int = 0, **environment: str) -> None:
        command = [sys.executable, "-m", "igcf", "serve", str(folder), "--port", str(port), "--json"]
        command += [] if store is None else ["--store", store]
        self._errors = tempfile.TemporaryFile("w+")  # noqa: SIM115 - a file, not a pipe: nobody reads while it runs
        self.process = subprocess.Popen(
            [*command, *options],
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
            start_new_session=True,
            env=os.environ | {"OPENBLAS_NUM_THREADS": "1"} | environment,
        )
        assert self.process.stdout is not None
        text = ""
        while not text.rstrip().endswith("}"):
            line = self.process.stdout.readline()
            assert line, f"the server did not start: {self.written()}"
            text += line
        self.url: str = json.loads(text)["url"]
        self.port = int(self.url.rsplit(":", 1)[1])

    def wait_until_ready(self, seconds: float = 120.0) -> "Server":
        deadline = time.monotonic() + seconds
        while True:
            try:
                if httpx.get(f"{self.url}/readyz", timeout=5).status_code == 200:
                    return self
            except httpx.TransportError:
                assert time.monotonic() < deadline, "the server did not become ready"
            assert self.process.poll() is None, "the server ended"
            time.sleep(0.02)

    def workers(self) -> list[int]:
        pid = self.process.pid
        found = [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
        return [each for each in found if b"spawn_main" in Path(f"/proc/{each}/cmdline").read_bytes()]

    def kill(self) -> None:
        """`kill -9` for the server and all of its workers."""
        workers = self.workers()
        self.process.kill()
        for worker in workers:
            os.kill(worker, signal.SIGKILL)
        self._close()

    def stop(self) -> str:
        """Ask it to stop; returns what it wrote to stderr."""
        if self._errors.closed:
            return ""
        if self.process.poll() is None:
            self.process.terminate()
        try:
            self.process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            self.kill()
            raise
        text = self.written()
        self._close()
        return text

    def written(self) -> str:
        self._errors.seek(0)
        return self._errors.read()

    def _close(self) -> None:
        self.process.communicate()
        self._errors.close()
