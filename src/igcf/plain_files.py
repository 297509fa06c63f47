"""Files that are read whole: a pipe or a device might never end."""

from pathlib import Path


def refuse_other_than_file(path: Path) -> None:
    """Refuse to read from a pipe or a device; whether there is anything at all shows when it is read."""
    if path.exists() and not path.is_file():
        raise OSError("it is no regular file")
