"""Power cuts: what a disk has at a random moment, without what the system still held in memory, is inspected.

The disk is a file system in an image, mounted; what was not made durable is not in the image. Only root may do this.
"""

import multiprocessing
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from multiprocessing.process import BaseProcess
from pathlib import Path

from igcf.errors import StoreError
from igcf.service.store import NewEvent, Store
from igcf.service.store.maintenance import backup_store, check_store
from tools.torture.results import Trial

SERVERS, WRITERS = 2, 3
"""Processes that write, and threads of each."""
LONGEST_S = 0.6
"""From one cut to the next, at most."""
MEGABYTES = 64
CAP_SYS_ADMIN = 21


def can_mount() -> bool:
    """Whether this machine lets us have a disk of our own."""
    with suppress(OSError):
        status = dict(line.split(":\t") for line in Path("/proc/self/status").read_text().splitlines())
        may_mount = int(status["CapEff"], 16) >> CAP_SYS_ADMIN & 1
        has_tools = shutil.which("mkfs.ext4") is not None and Path("/dev/loop-control").exists()
        return bool(may_mount) and has_tools
    return False  # not Linux


def power_cuts(rng: random.Random, cuts: int = 20) -> Iterator[Trial]:
    """Write to one SQLite file from several processes, others copying its log, with so many power cuts."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="igcf-power-")))
        disk, image = stack.enter_context(_disk(folder))
        told = folder / "told"
        told.touch()
        Store(str(disk / "s.db")).close()
        seeds = [rng.random() for _ in range(SERVERS + 1)]
        works = [_write] * SERVERS + [_disturb]
        processes = [
            stack.enter_context(_started(work, disk, told, seed)) for work, seed in zip(works, seeds, strict=True)
        ]
        while len(told.read_bytes()) < 200:
            time.sleep(0.01)
        for _ in range(cuts):
            time.sleep(rng.uniform(0.01, LONGEST_S))
            with _stopped(processes):
                shutil.copy(image, image.with_name("cut"))
                acknowledged = told.read_text().splitlines()
            yield Trial("power cut", "SQLite", _missing(image.with_name("cut"), folder / "after", acknowledged))
            dead = [process.name for process in processes if not process.is_alive()]
            if dead:
                yield Trial("power cut", "SQLite", [f"a process ended by itself: {dead[0]}"])
                return


def _missing(image: Path, place: Path, acknowledged: list[str]) -> list[str]:
    """Find what is wrong after a power cut: what was acknowledged and is not there once, and the store as a whole."""
    with _mounted(image, place) as after:
        path = after / "s.db"
        with closing(sqlite3.connect(path)) as connection:
            (sound,) = connection.execute("PRAGMA integrity_check").fetchone()
            rows = connection.execute("SELECT user_id || ' ' || event_id FROM feedback").fetchall()
            there = Counter(line for (line,) in rows)
        problems = [] if sound == "ok" else [f"the file is damaged: {sound}"]
        problems += [
            f"{line} was acknowledged and is there {there[line]} times" for line in acknowledged if there[line] != 1
        ]
        return [*problems, *map(str, check_store(str(path)))]


def _write(path: Path, told: Path, rng: random.Random) -> None:
    """Store reactions of own and common users, alone and together, and note each that is acknowledged."""
    store = Store(str(path), wait_s=5.0)
    note = os.open(told, os.O_WRONLY | os.O_APPEND)

    def write(seed: float, name: str) -> None:
        mine, n = random.Random(seed), 0
        while True:
            n += 1
            users = mine.sample(["common", *(f"{name}-{number}" for number in range(8))], mine.choice([1, 1, 1, 5]))
            event = NewEvent(f"{name}-{n}", "i" * mine.choice([10, 1_000]), 1.0)
            for user, found in store.append_all({user: [event] for user in users}, "m").items():
                if not isinstance(found, StoreError):
                    os.write(note, f"{user} {event.event_id}\n".encode())

    threads = [
        threading.Thread(target=write, args=(rng.random(), f"{os.getpid()}-{number}"), daemon=True)
        for number in range(WRITERS)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _disturb(path: Path, told: Path, rng: random.Random) -> None:
    """Copy the log, the file and nothing, each on a connection of its own, at random moments."""
    copy = told.with_name("copy.db")
    while True:
        time.sleep(rng.uniform(0, 0.05))
        what = rng.choice(["PASSIVE", "FULL", "RESTART", "TRUNCATE", "backup", "open and close"])
        if what == "backup":
            with suppress(StoreError):
                backup_store(str(path), copy)
            copy.unlink(missing_ok=True)
        elif what == "open and close":
            Store(str(path)).close()
        else:
            with suppress(sqlite3.Error), closing(sqlite3.connect(path, timeout=0.1)) as connection:
                connection.execute(f"PRAGMA wal_checkpoint({what})").fetchone()


@contextmanager
def _started(
    work: Callable[[Path, Path, random.Random], None], disk: Path, told: Path, seed: float
) -> Iterator[BaseProcess]:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tools.torture.power"])
    process = context.Process(target=work, args=(disk / "s.db", told, random.Random(seed)), name=work.__name__)
    process.start()
    try:
        yield process
    finally:
        process.kill()
        process.join()


@contextmanager
def _stopped(processes: list[BaseProcess]) -> Iterator[None]:
    """Stop processes, all threads of them, as at the moment of a power cut; then let them continue."""
    ids = [process.pid for process in processes if process.pid is not None and process.is_alive()]
    for each in ids:
        os.kill(each, signal.SIGSTOP)
    while any(state != "T" for each in ids for state in _states(each)):
        time.sleep(0.001)
    try:
        yield
    finally:
        for each in ids:
            os.kill(each, signal.SIGCONT)


def _states(process: int) -> Iterator[str]:
    for task in Path(f"/proc/{process}/task").iterdir():
        with suppress(OSError):  # it has ended
            yield (task / "stat").read_text().rpartition(")")[2].split()[0]


@contextmanager
def _disk(folder: Path) -> Iterator[tuple[Path, Path]]:
    """A file system of our own, and the image that it is in, in memory."""
    memory = folder / "memory"
    memory.mkdir()
    _run("mount", "-t", "tmpfs", "-o", f"size={2 * MEGABYTES}m", "tmpfs", str(memory))
    try:
        image = memory / "image"
        with image.open("wb") as file:
            file.truncate(MEGABYTES * 2**20)
        _run("mkfs.ext4", "-q", str(image))
        with _mounted(image, folder / "disk") as disk:
            yield disk, image
    finally:
        _run("umount", str(memory))


@contextmanager
def _mounted(image: Path, place: Path) -> Iterator[Path]:
    place.mkdir(exist_ok=True)
    _run("mount", "-o", "loop", str(image), str(place))
    try:
        yield place
    finally:
        _run("umount", str(place))


def _run(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True)
