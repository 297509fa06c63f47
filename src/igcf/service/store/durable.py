"""Files and folders that survive a power cut."""

import os
from pathlib import Path


def make_durable(path: Path) -> None:
    """Return when the contents of a file, or the names in a folder, are on the disk."""
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
