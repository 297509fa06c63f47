"""Peak of this process's memory during a piece of work, where the system tells it."""

import ctypes
from pathlib import Path

RESET, STATUS = Path("/proc/self/clear_refs"), Path("/proc/self/status")


class PeakMemory:
    """Peak memory since its creation; `bytes()` is None where the system has no such counter (it is Linux's)."""

    def __init__(self) -> None:
        self._before = None
        try:
            ctypes.CDLL(None).malloc_trim(0)  # what was freed earlier must not hide what is needed now
            RESET.write_text("5", encoding="ascii")
            self._before = _field("VmRSS")
        except (OSError, AttributeError):
            return

    def bytes(self) -> int | None:
        """Return the largest growth since the creation."""
        if self._before is None:
            return None
        peak = _field("VmHWM")
        return None if peak is None else max(peak - self._before, 0)

    def total(self) -> int | None:
        """Return the largest size of the whole process since the creation."""
        return None if self._before is None else _field("VmHWM")


def _field(name: str) -> int | None:
    for line in STATUS.read_text(encoding="ascii").splitlines():
        if line.startswith(name + ":"):
            return int(line.split()[1]) * 1024
    return None
