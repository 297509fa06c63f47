"""Faults of the file system, injected into a server by a library that is loaded before libc (`faults.c`)."""

import ctypes
import mmap
import subprocess
from pathlib import Path

from tools.torture.servers import Launcher

MODES = {"EIO": 1, "ENOSPC": 2, "short write": 3, "kill before": 4, "kill amid": 5, "kill after": 6}
"""What can happen to a call; a failed fsync is the fault `EIO` of a call of that kind."""


class _Control(ctypes.Structure):
    _fields_ = [
        ("mode", ctypes.c_int32),
        ("at", ctypes.c_int32),
        ("until", ctypes.c_int32),
        ("seen", ctypes.c_int32),
        ("fired", ctypes.c_int32),
        ("unused", ctypes.c_int32),
        ("clock_s", ctypes.c_int64),
    ]


class Faults:
    """Calls of servers that write a file with a path that contains `name`, and how they go wrong."""

    def __init__(self, folder: Path, name: str = "store.db") -> None:
        self._path, self._library, self._name = folder / "control", folder / "faults.so", name
        source = Path(__file__).with_name("faults.c")
        command = ["cc", "-O1", "-Wall", "-shared", "-fPIC", "-o", str(self._library), str(source)]
        subprocess.run(command, check=True, capture_output=True)
        self._path.write_bytes(bytes(ctypes.sizeof(_Control)))
        with self._path.open("r+b") as file:
            self._map = mmap.mmap(file.fileno(), 0)
        self._control = _Control.from_buffer(self._map)

    def launcher(self, folder: Path) -> Launcher:
        """A launcher of servers with these faults."""
        environment = {"LD_PRELOAD": str(self._library), "TORTURE_CONTROL": str(self._path), "TORTURE_FILE": self._name}
        return Launcher(folder, environment)

    def arm(self, mode: str, at: int, *, n: int = 1) -> None:
        """Let the call number `at` from now, and the following up to `n` calls, meet a fault."""
        control = self._control
        control.mode = 0
        control.at, control.until, control.seen, control.fired = at, at + n - 1, 0, 0
        control.mode = MODES[mode]

    def disarm(self) -> bool:
        """Let everything work again; returns whether a fault occurred."""
        self._control.mode = 0
        return bool(self._control.fired > 0)

    def set_clock(self, ahead_s: int) -> None:
        """Set the time of day ahead, or back."""
        self._control.clock_s = ahead_s
