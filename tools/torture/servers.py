"""Servers that can be killed: quickly restarted ones that are forked, and `igcf serve` as operators run it."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tools.torture.calls import Lost, call

READY_S = 120.0
"""A server that takes longer to become ready has failed; the machine may be busy."""


@dataclass(frozen=True)
class Forked:
    """One server in one process, forked from a launcher."""

    pid: int
    port: int

    def kill(self) -> None:
        """`kill -9`."""
        _signal(self.pid, signal.SIGKILL)
        wait_for_end(self.pid)

    def stop(self) -> None:
        """Ask it to stop and wait for it."""
        _signal(self.pid, signal.SIGTERM)
        wait_for_end(self.pid)

    def is_alive(self) -> bool:
        """Whether it runs."""
        return _is_alive(self.pid)


class Launcher:
    """The process from which servers are forked, with an environment of its own."""

    def __init__(self, folder: Path, environment: Mapping[str, str] | None = None) -> None:
        self.log = folder / "servers.log"
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tools.torture.launcher", str(self.log)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | {"OPENBLAS_NUM_THREADS": "1"} | dict(environment or {}),
        )

    def start(self, model: Path, store: str, **settings: Any) -> Forked:
        """Fork a server; it is not ready yet."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        asked = {"store": store, "log_level": "error", "models": str(model.parent)} | settings
        self._process.stdin.write(json.dumps({"folder": str(model), "settings": asked}) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"the launcher ended; see {self.log}")
        return Forked(**json.loads(line))

    def close(self) -> None:
        """End the launcher; servers that still run are the caller's."""
        self._process.communicate()


class Served:
    """`igcf serve` with worker processes, as operators run it."""

    def __init__(self, model: Path, store: str, log: Path, workers: int = 2) -> None:
        command = [sys.executable, "-m", "igcf", "serve", str(model), "--port", "0", "--json"]
        with log.open("a") as errors:
            self.process = subprocess.Popen(
                [*command, "--workers", str(workers), "--log-level", "error"],
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                env=os.environ | {"OPENBLAS_NUM_THREADS": "1", "IGCF_STORE": store},
            )
        assert self.process.stdout is not None
        text = ""
        while not text.rstrip().endswith("}"):
            line = self.process.stdout.readline()
            if not line:
                raise RuntimeError(f"the server did not start; see {log}")
            text += line
        self.port = int(json.loads(text)["url"].rsplit(":", 1)[1])

    def workers(self) -> list[int]:
        """Ids of the processes that answer."""
        pid = self.process.pid
        found = [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
        return [each for each in found if b"spawn_main" in Path(f"/proc/{each}/cmdline").read_bytes()]

    def kill(self, *pids: int) -> None:
        """`kill -9` for some of its processes."""
        for pid in pids:
            _signal(pid, signal.SIGKILL)

    def kill_all(self) -> None:
        """`kill -9` for the supervisor and all workers."""
        workers = self.workers()
        self.kill(self.process.pid, *workers)
        self.wait(workers)

    def wait(self, workers: list[int]) -> int:
        """Wait for the end of the supervisor and of its workers."""
        self.process.communicate(timeout=READY_S)
        for pid in workers:
            wait_for_end(pid)
        return self.process.returncode

    def stop(self) -> int:
        """Ask it to stop; returns the exit code."""
        workers = self.workers() if self.process.poll() is None else []
        self.process.terminate()
        return self.wait(workers)


def wait_until_ready(port: int, seconds: float = READY_S) -> float:
    """Wait for `/readyz`; returns when it was ready, by the monotonic clock."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            if call(port, "GET", "/readyz", timeout=10).status == 200:
                return time.monotonic()
        except Lost:
            pass
        if time.monotonic() > deadline:
            raise TimeoutError(f"the server on port {port} did not become ready within {seconds:g} s")
        time.sleep(0.02)


def wait_for_end(pid: int, seconds: float = 30.0) -> None:
    """Wait until a process has gone."""
    deadline = time.monotonic() + seconds
    while _is_alive(pid):
        if time.monotonic() > deadline:
            raise TimeoutError(f"process {pid} did not end within {seconds:g} s")
        time.sleep(0.005)


def _is_alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except OSError:
        return False
    return state not in "ZX"


def _signal(pid: int, number: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, number)
