"""Running the application: one process, or a supervisor with several worker processes on one socket."""

import fcntl
import json
import logging
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from types import FrameType

from igcf.errors import ConfigError
from igcf.service.http.logs import configure
from igcf.service.serving.current_model import CurrentModel
from igcf.service.settings import ServiceSettings
from igcf.service.worker import MISTAKE, Place, work

GRACE_S = 15
SHORTEST_PAUSE_S, LONGEST_PAUSE_S = 0.5, 10.0
"""A dead worker is started again after the first; each further failure in a row doubles it, up to the second."""
METRICS_PREFIX = "igcf-metrics-"

log = logging.getLogger("igcf.service")


def bound_socket(host: str, port: int) -> socket.socket:
    """A listening socket, or one sentence about why there is none."""
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        bound = socket.create_server((host, port), family=family, backlog=2048)
    except (OSError, UnicodeError) as error:
        raise ConfigError(f"cannot listen on {host}:{port}: {error}; choose another --host or --port") from error
    bound.set_inheritable(True)
    return bound


def run(folder: str, current: CurrentModel, settings: ServiceSettings, bound: socket.socket) -> int:
    """Serve until told to stop; returns the exit code. `folder` is for a store that has announced no model."""
    place = Place(folder, bound.fileno())
    if settings.workers == 1:
        return work(place, settings, current)
    return Supervisor(place, settings).run()


@dataclass
class Slot:
    """One of the workers, through all of its lives."""

    number: int
    process: "subprocess.Popen[bytes] | None" = None
    failures: int = 0
    """Deaths in a row before the worker was up."""
    due: float = 0.0
    """When to start it again."""


class Supervisor:
    """Starts workers, starts them again when they die, stops them together."""

    def __init__(self, place: Place, settings: ServiceSettings) -> None:
        self._place, self._settings = place, settings
        self._slots = [Slot(number) for number in range(settings.workers)]
        self._stopping = threading.Event()
        self._has_served = False

    def run(self) -> int:
        """Until a signal, or a mistake that keeps every worker from starting for the first time.

        Once a worker has been up, nothing that happens to a worker ends the others.
        """
        configure(self._settings.log_level)
        parent_fd, own_fd = os.pipe()
        up_fd, tell_fd = os.pipe()
        os.set_blocking(up_fd, False)
        self._place = replace(self._place, parent_fd=parent_fd, up_fd=tell_fd)
        code = 0
        with metrics_folder() as metrics:
            environment = {"PROMETHEUS_MULTIPROC_DIR": str(metrics)}
            for number in (signal.SIGTERM, signal.SIGINT):
                signal.signal(number, self._stop)
            while not self._stopping.wait(0.05):
                self._hear(up_fd)
                for slot in self._slots:
                    if self._look_after(slot, environment) == MISTAKE and not self._has_served:
                        code = MISTAKE
                        self._stopping.set()
                        break
            self._end_all()
        for fd in (parent_fd, own_fd, up_fd, tell_fd):
            os.close(fd)
        return code

    def _hear(self, up_fd: int) -> None:
        """Read which workers have come up."""
        with suppress(BlockingIOError):
            for number in os.read(up_fd, 1024):
                self._slots[number].failures = 0
                self._has_served = True

    def _look_after(self, slot: Slot, environment: dict[str, str]) -> int | None:
        """Start a worker that is due, note the death of one; returns the exit code of one that has just died."""
        if slot.process is None:
            if time.monotonic() >= slot.due:
                slot.process = self._start(slot, environment)
            return None
        code = slot.process.poll()
        if code is not None:
            _forget_process(slot.process.pid, environment)
            pause = min(SHORTEST_PAUSE_S * 2**slot.failures, LONGEST_PAUSE_S)
            slot.process, slot.due, slot.failures = None, time.monotonic() + pause, slot.failures + 1
            log.error("worker died", extra={"code": code, "again_in_s": pause})
        return code

    def _start(self, slot: Slot, environment: dict[str, str]) -> "subprocess.Popen[bytes]":
        place = replace(self._place, slot=slot.number, is_restart=slot.due > 0)
        fds = [fd for fd in (place.socket_fd, place.parent_fd, place.up_fd) if fd is not None]
        # A group of their own: Ctrl-C reaches the supervisor alone, which then stops them in order.
        process = subprocess.Popen(  # noqa: S603
            [sys.executable, "-m", "igcf.service.worker", json.dumps(vars(place))],
            env=os.environ | environment,
            pass_fds=fds,
            process_group=0,
            stdin=subprocess.PIPE,
        )
        # Through a pipe: what is on a command line is in the process list, and the settings may hold a password.
        with suppress(BrokenPipeError), process.stdin or nullcontext() as pipe:
            if pipe is not None:
                pipe.write(self._settings.to_json().encode())
        return process

    def _stop(self, _: int, __: FrameType | None) -> None:
        self._stopping.set()

    def _end_all(self) -> None:
        alive = [slot.process for slot in self._slots if slot.process is not None and slot.process.poll() is None]
        for process in alive:
            process.terminate()
        deadline = time.monotonic() + GRACE_S
        for process in alive:
            try:
                process.wait(max(0.1, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _forget_process(pid: int, environment: dict[str, str]) -> None:
    """Take what a dead worker said about the moment (gauges) out of the shared metrics; its counts stay."""
    from prometheus_client.multiprocess import mark_process_dead

    mark_process_dead(pid, environment["PROMETHEUS_MULTIPROC_DIR"])  # type: ignore[no-untyped-call]


@contextmanager
def metrics_folder() -> Iterator[Path]:
    """A folder in which workers share their counters; those that killed supervisors left behind are removed.

    Its owner holds a lock on a file in it for as long as it lives.
    """
    for left in Path(tempfile.gettempdir()).glob(f"{METRICS_PREFIX}*"):
        with suppress(OSError), (left / "lock").open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(left)
    with tempfile.TemporaryDirectory(prefix=METRICS_PREFIX) as name, (Path(name) / "lock").open("wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield Path(name)
