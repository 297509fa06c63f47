"""State of a training in a folder, to resume an interrupted one: one file per stage, each replaced in one step."""

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
import numpy.typing as npt

from igcf.errors import ConfigError, ModelError

FORMAT, NOTE = "igcf-training-2", "training.json"


class Checkpoint:
    """Folder of the state of one training; without a path nothing is kept."""

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = folder

    def load(self, stage: str) -> dict[str, npt.NDArray[Any]] | None:
        """Return the arrays of a stage; None where it was not reached."""
        if self.folder is None or not (path := self.folder / f"{stage}.npz").exists():
            return None
        try:
            with path.open("rb") as file, np.load(file, allow_pickle=False) as found:
                return {name: found[name] for name in found.files}
        except (OSError, ValueError, KeyError, TypeError, EOFError, BadZipFile) as error:
            raise damaged(path, error) from error

    def save(self, stage: str, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
        """Write the arrays to another name, then rename: a crash leaves the previous ones as they were."""
        if self.folder is not None:
            with replaced(self.folder / f"{stage}.npz") as part, part.open("wb") as file:
                np.savez(file, **arrays)  # type: ignore[arg-type]

    @property
    def is_begun(self) -> bool:
        """Whether there is a state to resume from."""
        return self.folder is not None and (self.folder / NOTE).exists()

    def begin(self, identity: Mapping[str, Any], *, resume: bool) -> None:
        """Note what is trained; with `resume` it must be what was trained before, otherwise the folder must be new."""
        if self.folder is None:
            return
        own = json.loads(json.dumps({"format": FORMAT, **identity}))
        file = self.folder / NOTE
        if file.exists() and not resume:
            raise ConfigError(f"{self.folder} holds the state of a training; resume it, or choose another folder")
        if file.exists():
            before = read_note(file)
            differing = sorted(name for name in own.keys() | before.keys() if own.get(name) != before.get(name))
            if differing:
                names = _differing(own.get("settings"), before.get("settings"))
                raise ConfigError(
                    f"{self.folder} holds the state of another training: {', '.join(differing)} differ{names}; "
                    "choose another folder"
                )
            return
        with replaced(file) as part:
            part.write_text(json.dumps(own), encoding="utf-8")

    def part(self, name: str) -> "Checkpoint":
        """Return a folder within this one."""
        return Checkpoint(None if self.folder is None else self.folder / name)


NO_CHECKPOINT = Checkpoint()


def _differing(one: Any, other: Any) -> str:
    """Name the settings that differ, in brackets."""
    if not isinstance(one, dict) or not isinstance(other, dict):
        return ""
    names = sorted(name for name in one.keys() | other.keys() if one.get(name) != other.get(name))
    return f" ({', '.join(names)})" if names else ""


def read_note(file: Path) -> dict[str, Any]:
    """Read what was noted as JSON."""
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
        if not isinstance(found, dict):
            raise ValueError(f"expected an object, found {type(found).__name__}")
    except (OSError, ValueError, RecursionError) as error:
        raise damaged(file, error) from error
    return found


@contextmanager
def replaced(path: Path) -> Iterator[Path]:
    """Give a temporary name beside a file, and rename it to the file where the block succeeds."""
    part = path.with_name(f".{path.name}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        yield part
        with part.open("rb") as file:
            os.fsync(file.fileno())
        os.replace(part, path)
    except OSError as error:
        raise ModelError(f"cannot keep the state of the training in {path}: {error.strerror or error}") from error
    finally:
        with suppress(OSError):
            part.unlink(missing_ok=True)


def damaged(path: Path, error: Exception) -> ModelError:
    """Say that what was kept cannot be read, and what to do."""
    return ModelError(f"cannot read the state {path}: {error}; delete the folder and begin anew")
