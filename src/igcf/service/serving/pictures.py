"""Pictures of items: files of one folder that the `image` of an item names."""

from dataclasses import dataclass
from pathlib import Path

from igcf.errors import ConfigError

TYPES = {
    ".avif": "image/avif",
    ".gif": "image/gif",
    ".jpeg": "image/jpeg",
    ".jpg": "image/jpeg",
    ".png": "image/png",
    ".webp": "image/webp",
}
"""Content types by the ending of a file; others are not shown. SVG is none of them: it may hold scripts."""
LARGEST = 5_000_000
"""Bytes of a picture; a larger one is not shown."""


@dataclass(frozen=True)
class Picture:
    """The content of a file, and what it is."""

    content: bytes
    media_type: str
    mark: str
    """Changes when the file does."""


class Pictures:
    """The folder of pictures; nothing outside of it is ever read, whatever an item names."""

    def __init__(self, folder: str) -> None:
        self.folder = Path(folder).resolve()
        if not self.folder.is_dir():
            raise ConfigError(f"images names {folder}, which is not a folder; expected the folder of the pictures")

    def read(self, name: str | None) -> Picture | None:
        """Read the picture of that name, a path within the folder; None where there is none that may be shown."""
        if not name:
            return None
        try:
            path = (self.folder / name).resolve()  # links are followed first, so that none leads outside
            if not path.is_relative_to(self.folder) or path.suffix.lower() not in TYPES or not path.is_file():
                return None
            with path.open("rb") as file:
                content = file.read(LARGEST + 1)
            changed = path.stat().st_mtime_ns
        except (OSError, ValueError):  # not to be read, too long, or with a zero byte
            return None
        if len(content) > LARGEST:
            return None
        return Picture(content, TYPES[path.suffix.lower()], f'"{changed:x}-{len(content):x}"')
