"""A checkpoint is one safetensors file with the JSON state in its header, replaced in one step."""

import json
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from igcf.config import PretrainConfig
from igcf.errors import ConfigError, ModelError
from igcf.pretrain.parameters import Parameters

FORMAT = "igcf-checkpoint-1"


def write_checkpoint(
    path: Path,
    parameters: Parameters,
    best: Parameters,
    optimiser: torch.optim.Optimizer,
    config: PretrainConfig,
    fingerprint: str,
    state: Mapping[str, Any],
) -> None:
    """Write to a temporary name, then rename: a crash leaves the previous checkpoint as it was."""
    tensors = {**_named(parameters, best), **_optimiser_tensors(optimiser)}
    header = {
        "format": FORMAT,
        "config": json.dumps(config.as_dict()),
        "fingerprint": fingerprint,
        "state": json.dumps(dict(state)),
    }
    part = path.with_name(f".{path.name}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        save_file({name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}, part, header)
        os.replace(part, path)
    except (OSError, SafetensorError) as error:
        with suppress(OSError):
            part.unlink()
        raise ModelError(f"cannot write the checkpoint {path}: {error}; free some space or choose another") from error


def read_checkpoint(
    path: Path,
    parameters: Parameters,
    best: Parameters,
    optimiser: torch.optim.Optimizer,
    config: PretrainConfig,
    fingerprint: str,
) -> dict[str, Any]:
    """Put the saved tensors into `parameters`, `best` and `optimiser`; return the saved state."""
    try:
        with safe_open(path, framework="pt") as file:
            header = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a mapping)
    except (OSError, SafetensorError) as error:
        raise ModelError(f"{path} is not a readable checkpoint ({error}); delete it or train without resume") from error
    if header.get("format") != FORMAT:
        raise ModelError(f"{path} is not a checkpoint of this igcf; delete it or train without resume")
    _check_same(path, json.loads(header["config"]), json.loads(json.dumps(config.as_dict())))
    if header["fingerprint"] != fingerprint:
        raise ConfigError(f"{path} was begun on other data; train without resume, or give the log that it was begun on")
    with torch.no_grad():
        for name, tensor in _named(parameters, best).items():
            tensor.copy_(tensors[name])
    for index, tensor in enumerate(parameters.tensors()):
        prefix = f"optimiser.{index}."
        saved = {name.removeprefix(prefix): each for name, each in tensors.items() if name.startswith(prefix)}
        if saved:
            optimiser.state[tensor] = {
                key: each.to(tensor.device) if each.ndim else each.clone() for key, each in saved.items()
            }
    state: dict[str, Any] = json.loads(header["state"])
    return state


def _named(parameters: Parameters, best: Parameters) -> dict[str, Tensor]:
    return {"mean": parameters.mean, "rho": parameters.rho, "best_mean": best.mean, "best_rho": best.rho}


def _optimiser_tensors(optimiser: torch.optim.Optimizer) -> dict[str, Tensor]:
    states = optimiser.state_dict()["state"]
    return {
        f"optimiser.{index}.{name}": value
        for index, values in states.items()
        for name, value in values.items()
        if isinstance(value, Tensor)
    }


def _check_same(path: Path, saved: dict[str, Any], now: dict[str, Any]) -> None:
    changed = sorted(name for name in saved.keys() | now.keys() if saved.get(name) != now.get(name))
    if changed:
        raise ConfigError(
            f"{path} was begun with other settings ({', '.join(f'{n}={saved.get(n)}' for n in changed)}); "
            "resume with the same settings or train without resume"
        )
