"""A checkpoint is one safetensors file with the JSON state in its header, replaced in one step."""

import json
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file

from igcf.errors import ConfigError, ModelError
from igcf.training.variational.trainer import Trainer

FORMAT = "igcf-checkpoint-3"


def write_checkpoint(path: Path, trainer: Trainer, state: Mapping[str, Any]) -> None:
    """Write to a temporary name, then rename: a crash leaves the previous checkpoint as it was."""
    notes = {
        "format": FORMAT,
        "config": json.dumps(trainer.config.as_dict()),
        "fingerprint": trainer.training_pairs.fingerprint,
        "state": json.dumps(dict(state)),
    }
    part = path.with_name(f".{path.name}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        save_file({name: tensor.detach().cpu() for name, tensor in trainer.tensors().items()}, part, notes)
        os.replace(part, path)
    except (OSError, SafetensorError) as error:
        with suppress(OSError):
            part.unlink()
        raise ModelError(f"cannot write the checkpoint {path}: {error}; free some space or choose another") from error


def read_checkpoint(path: Path, trainer: Trainer) -> dict[str, Any]:
    """Load the saved tensors, and return the saved state."""
    try:
        with safe_open(path, framework="pt") as file:
            header = file.metadata() or {}
            if header.get("format") != FORMAT:
                raise ModelError(f"{path} is not a checkpoint of this igcf; delete it or train without resume")
            _check_same(path, json.loads(header["config"]), json.loads(json.dumps(trainer.config.as_dict())))
            if header["fingerprint"] != trainer.training_pairs.fingerprint:
                raise ConfigError(
                    f"{path} was begun on other data; train without resume, or give the log that it was begun on"
                )
            trainer.restore({name: file.get_tensor(name) for name in file.keys()})  # noqa: SIM118 (not a mapping)
    except (OSError, SafetensorError) as error:
        raise ModelError(f"{path} is not a readable checkpoint ({error}); delete it or train without resume") from error
    state: dict[str, Any] = json.loads(header["state"])
    return state


def _check_same(path: Path, saved: dict[str, Any], now: dict[str, Any]) -> None:
    changed = sorted(name for name in saved.keys() | now.keys() if saved.get(name) != now.get(name))
    if changed:
        raise ConfigError(
            f"{path} was begun with other settings ({', '.join(f'{n}={saved.get(n)}' for n in changed)}); "
            "resume with the same settings or train without resume"
        )
