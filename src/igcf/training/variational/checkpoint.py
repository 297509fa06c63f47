"""A checkpoint is one safetensors file with the JSON state in its header, replaced in one step.

It holds all columns, whoever trained them, so that any number of workers can go on from it. Tensors are written and
read some rows at a time: the first worker never holds one in all dimensions.
"""

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from igcf.config import GraphConfig
from igcf.errors import ConfigError, ModelError
from igcf.training.cluster.team import Team
from igcf.training.variational.shard import ROW_BLOCK, Shard

FORMAT = "igcf-checkpoint-2"


def write_checkpoint(path: Path, team: Team, config: GraphConfig, fingerprint: str, state: Mapping[str, Any]) -> None:
    """Write to a temporary name, then rename: a crash leaves the previous checkpoint as it was."""
    notes = {
        "format": FORMAT,
        "config": json.dumps(config.as_dict()),
        "fingerprint": fingerprint,
        "state": json.dumps(dict(state)),
    }
    part = path.with_name(f".{path.name}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _write(part, team, config.dim, notes)
        os.replace(part, path)
    except OSError as error:
        with suppress(OSError):
            part.unlink()
        raise ModelError(f"cannot write the checkpoint {path}: {error}; free some space or choose another") from error
    except BaseException:  # a worker was lost, or somebody pressed Ctrl-C
        with suppress(OSError):
            part.unlink()
        raise


def _write(path: Path, team: Team, dim: int, notes: dict[str, str]) -> None:
    """Write the safetensors format: the length of the header, the header, then the tensors one after the other."""
    header: dict[str, Any] = {"__metadata__": notes}
    tensors = team.shard.tensors()
    end = 0
    for name, tensor in tensors.items():
        shape = [len(tensor), dim] if tensor.ndim else []
        start, end = end, end + 4 * (len(tensor) * dim if tensor.ndim else 1)
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [start, end]}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with path.open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for name, tensor in tensors.items():
            blocks = team.call(Shard.collect, name=name) if tensor.ndim else [tensor]
            for block in blocks:
                file.write(block.detach().cpu().contiguous().numpy().astype("<f4", copy=False).data)


def read_checkpoint(path: Path, team: Team, config: GraphConfig, fingerprint: str) -> dict[str, Any]:
    """Load the saved tensors into the workers, and return the saved state."""
    try:
        with safe_open(path, framework="pt") as file:
            header = file.metadata() or {}
            if header.get("format") != FORMAT:
                raise ModelError(f"{path} is not a checkpoint of this igcf; delete it or train without resume")
            _check_same(path, json.loads(header["config"]), json.loads(json.dumps(config.as_dict())))
            if header["fingerprint"] != fingerprint:
                raise ConfigError(
                    f"{path} was begun on other data; train without resume, or give the log that it was begun on"
                )
            shapes = {name: file.get_slice(name).get_shape() for name in file.keys()}  # noqa: SIM118 (not a mapping)
            numbers = {name: float(file.get_tensor(name)) for name, shape in shapes.items() if not shape}

            def blocks(name: str) -> Iterator[Tensor]:
                saved = file.get_slice(name)
                for start in range(0, shapes[name][0], ROW_BLOCK):
                    block: Tensor = saved[start : start + ROW_BLOCK]
                    yield block.to(torch.float32)

            names = [name for name, shape in shapes.items() if shape]
            team.call(Shard.restore, {"blocks": blocks}, names=names, numbers=numbers)
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
