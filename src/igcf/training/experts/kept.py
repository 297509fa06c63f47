"""State of a training in a folder, so that a killed one goes on: one file per stage, each replaced in one step."""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from igcf.errors import ConfigError, ModelError

FORMAT = "igcf-experts-state-1"


@dataclass(frozen=True)
class KeptState:
    """Arrays of one stage of a training, in one file."""

    path: Path

    def load(self) -> dict[str, npt.NDArray[Any]] | None:
        """Return the arrays; None where the stage was not reached."""
        if not self.path.exists():
            return None
        try:
            with np.load(self.path, allow_pickle=False) as found:
                return {name: found[name] for name in found.files}
        except (OSError, ValueError, KeyError) as error:
            raise ModelError(f"cannot read the state {self.path}: {error}; delete the folder and begin anew") from error

    def save(self, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
        """Write the arrays to another name, then rename: a crash leaves the previous ones as they were."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with replaced(self.path) as part, part.open("wb") as file:
            np.savez(file, **arrays)  # type: ignore[arg-type]


class Kept:
    """Folder of the state of one training; without a path nothing is kept."""

    def __init__(self, folder: Path | None) -> None:
        self.folder = folder

    def begin(self, identity: Mapping[str, Any], *, resume: bool) -> None:
        """Note what is trained; with `resume` it must be what was trained before, otherwise the folder must be new."""
        if self.folder is None:
            return
        own = json.loads(json.dumps({"format": FORMAT, **identity}))
        file = self.folder / "training.json"
        if file.exists() and not resume:
            raise ConfigError(f"{self.folder} holds the state of a training; resume it, or choose another folder")
        if file.exists():
            before = json.loads(file.read_text(encoding="utf-8"))
            differing = sorted(name for name in own.keys() | before.keys() if own.get(name) != before.get(name))
            if differing:
                raise ConfigError(
                    f"{self.folder} holds the state of another training: {', '.join(differing)} differ; "
                    "choose another folder"
                )
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        with replaced(file) as part:
            part.write_text(json.dumps(own), encoding="utf-8")

    def check(self, name: str, value: str) -> None:
        """Note a further property of the training, or refuse another one than was noted before."""
        if self.folder is None:
            return
        file = self.folder / f"{name}.txt"
        if not file.exists():
            with replaced(file) as part:
                part.write_text(value, encoding="utf-8")
        elif file.read_text(encoding="utf-8") != value:
            raise ConfigError(f"{self.folder} holds the state of a training with another {name}; choose another folder")

    def part(self, name: str) -> "Kept":
        """Return a folder within this one."""
        return Kept(None if self.folder is None else self.folder / name)

    def stage(self, name: str) -> KeptState | None:
        """Return the place of a stage's state."""
        return None if self.folder is None else KeptState(self.folder / f"{name}.npz")


class replaced:  # noqa: N801 (used as a function)
    """Give a temporary name beside a file, and rename it to the file where the block succeeds."""

    def __init__(self, path: Path) -> None:
        self._path, self._part = path, path.with_name(f".{path.name}.part")

    def __enter__(self) -> Path:
        return self._part

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is None:
            os.replace(self._part, self._path)
        else:
            self._part.unlink(missing_ok=True)
