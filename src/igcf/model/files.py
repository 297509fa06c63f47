"""The model folder: `model.safetensors`, `items.parquet`, `meta.json`; whole or absent, checked, never executed."""

import hashlib
import json
import os
import shutil
import stat
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl
from safetensors import SafetensorError
from safetensors.numpy import load, save

from igcf.errors import ConfigError, DataError, ModelError
from igcf.model.channel import Channel, Term
from igcf.model.content import ContentPrior
from igcf.model.item_evidence import evidence_arrays, evidence_from_arrays
from igcf.model.item_files import ITEM_BYTES, OVERHEAD, item_table, read_attributes, read_item_table
from igcf.model.model import Model
from igcf.model.neighbours import Neighbours
from igcf.model.reward import Reward
from igcf.model.usage import Usage

FORMAT = "igcf-model"
FORMAT_VERSION = 1
NEIGHBOUR_ARRAYS = ("sources", "weights", "means")
TENSORS, ITEMS, META = "model.safetensors", "items.parquet", "meta.json"
MOST_ITEMS, LARGEST_DIM, MOST_CHANNELS = 200_000_000, 16_384, 64
META_BYTES = 64_000_000
MOST_CLASSES, MOST_FEATURES = 8, 2_000
"""Classes of items, and features of an item, that a content prior may have."""
NEIGHBOUR_BYTES = 16_384
"""Bytes per item that a map between items may have."""
DAMAGES = (KeyError, TypeError, ValueError, AttributeError, IndexError, OverflowError, ConfigError, DataError)
"""What comes of a description whose parts are missing, of another type, or out of range."""


def save_model(model: Model, folder: Path) -> None:
    """Write `folder`, under a temporary name first: a reader meets the whole model or none."""
    if folder.exists():
        raise ModelError(f"{folder} already exists; a model is never overwritten, choose another folder")
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        part = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
        try:
            _write_parts(model, part)
            part.chmod(0o755)
            part.rename(folder)
        except BaseException:
            shutil.rmtree(part, ignore_errors=True)
            raise
    except OSError as error:
        raise ModelError(
            f"cannot write the model to {folder}: {error.strerror or error}; nothing was left there"
        ) from error


def load_model(folder: Path) -> Model:
    """Read what `save_model` wrote, or refuse with one sentence.

    Sizes are checked before anything of that size is read, so that a folder from elsewhere cannot fill the memory.
    """
    meta = _read_meta(folder)
    limits = _size_limits(folder, meta)
    contents = {}
    for name in (TENSORS, ITEMS):
        contents[name] = _read(folder, name, limits[name])
        if hashlib.sha256(contents[name]).hexdigest() != meta["sha256"].get(name):
            raise ModelError(
                f"{folder / name} is not the file that was saved (truncated or changed); restore or retrain"
            )
    try:
        tensors = load(contents[TENSORS])
        items = read_item_table(contents[ITEMS], meta["items"])
        return Model(
            channels=[
                Channel(tensors[f"vectors_{i}"], tensors[f"noise_{i}"], Reward(**each.pop("reward")), **each)
                for i, each in enumerate(meta["channels"])
            ],
            terms=[Term(each["weight"], tuple(each["channels"])) for each in meta["terms"]],
            kinds=meta.get("kinds", {}),
            item_variances=tensors["item_variances"],
            prior_mean=tensors["prior_mean"],
            prior_cov=tensors["prior_cov"],
            item_ids=items["item_id"].to_list(),
            titles=items["title"].to_list() if "title" in items.columns else None,
            categories=items["categories"].to_list() if "categories" in items.columns else None,
            attributes=read_attributes(items),
            reward=Reward(**meta["reward"]),
            metadata=meta["metadata"],
            neighbours=_neighbours(tensors, meta),
            appeared=tensors.get("appeared"),
            reactions=tensors.get("reactions"),
            usage=Usage.from_dict(meta.get("usage", {})),
            content=_content(tensors, meta),
            added=tensors.get("added", ()),
            evidence=evidence_from_arrays(tensors, len(meta["channels"])),
        )
    except ModelError:
        raise
    except (*DAMAGES, SafetensorError, pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        raise ModelError(f"{folder} does not hold a complete igcf model: {error}; run `igcf pretrain` again") from error


def saved_metadata(folder: Path) -> dict[str, Any]:
    """Return how a saved model came about, from `meta.json` alone."""
    return dict(_read_meta(folder)["metadata"])


def _neighbours(tensors: dict[str, npt.NDArray[Any]], meta: dict[str, Any]) -> Neighbours | None:
    """The map between items; models saved before there was one, or without it, have none."""
    if "neighbours" not in meta:
        return None
    sources, weights, means = (tensors[f"neighbours_{part}"] for part in NEIGHBOUR_ARRAYS)
    return Neighbours(sources, weights, means, **meta["neighbours"])


def _content(tensors: dict[str, npt.NDArray[Any]], meta: dict[str, Any]) -> ContentPrior | None:
    """The content prior; models saved before there was one have none."""
    return ContentPrior.from_saved(tensors, meta["content"], len(meta["channels"])) if "content" in meta else None


def _size_limits(folder: Path, meta: dict[str, Any]) -> dict[str, int]:
    """Compute how large the files of a model of this description can be, in bytes."""
    try:
        n, d, channels = meta["items"], meta["dim"], len(meta["channels"])
        is_possible = type(n) is int and type(d) is int and 0 < n <= MOST_ITEMS and 0 < d <= LARGEST_DIM
        is_possible = (
            is_possible and type(meta.get("evidence", 0)) is int and 0 <= meta.get("evidence", 0) <= MOST_ITEMS
        )
        if not (is_possible and 0 < channels <= MOST_CHANNELS and isinstance(meta["sha256"], dict)):
            raise ValueError(f"{n!r} items, dim {d!r}, {channels} channels")
    except DAMAGES as error:
        raise ModelError(f"{folder / META} does not describe a model: {error}; restore or retrain") from error
    neighbours = n * NEIGHBOUR_BYTES if "neighbours" in meta else 0
    content = 8 * MOST_CLASSES * (d + 1) * (d + MOST_FEATURES) * (channels + 1) if "content" in meta else 0
    reactions = meta.get("evidence", 0)
    evidence = 8 * (reactions + n) * (d + 2 + channels * (MOST_CLASSES + 1)) + 8 * n * MOST_CLASSES * channels * d
    tensors = 8 * (n * (channels + 1) * (d + 1) + 2 * n + d * (d + 1)) + neighbours + content
    tensors += evidence if "evidence" in meta else 0
    return {TENSORS: tensors + OVERHEAD, ITEMS: n * ITEM_BYTES + OVERHEAD}


def model_id(folder: Path) -> str:
    """A short name of the exact contents, taken from `meta.json` alone."""
    return full_checksum(folder)[:12]


def full_checksum(folder: Path) -> str:
    """The checksum of the exact contents, taken from `meta.json` alone."""
    return str(_read_meta(folder)["checksum"])


def _write_parts(model: Model, part: Path) -> None:
    tensors: dict[str, npt.NDArray[Any]] = {
        "item_variances": model.item_variances,
        "prior_mean": model.prior_mean,
        "prior_cov": model.prior_cov,
    }
    for i, channel in enumerate(model.channels):
        tensors[f"vectors_{i}"] = np.ascontiguousarray(channel.vectors)
        tensors[f"noise_{i}"] = np.ascontiguousarray(channel.noise_var)
    if model.neighbours is not None:
        for name in NEIGHBOUR_ARRAYS:
            tensors[f"neighbours_{name}"] = np.ascontiguousarray(getattr(model.neighbours, name))
    if model.appeared is not None:
        tensors["appeared"] = model.appeared
    if model.reactions is not None:
        tensors["reactions"] = model.reactions
    if model.content is not None:
        tensors |= model.content.arrays()
    if len(model.added):
        tensors |= {"added": model.added} | evidence_arrays(model.evidence)
    _write(part / TENSORS, save(tensors))
    with (part / ITEMS).open("wb") as file:
        item_table(model.catalogue).write_parquet(file)
    _write(part / META, json.dumps(_sealed(_meta(model, part)), indent=2, allow_nan=False).encode())


def _meta(model: Model, part: Path) -> dict[str, Any]:
    map_of_items = model.neighbours
    return {
        "format": FORMAT,
        "version": FORMAT_VERSION,
        "ids": ITEMS,
        "items": model.n_items,
        "dim": model.dim,
        "reward": asdict(model.reward),
        "kinds": model.kinds,
        "channels": [
            {"reward": asdict(channel.reward), "link": channel.link, "start": channel.start}
            for channel in model.channels
        ],
        "terms": [asdict(term) for term in model.terms],
        "metadata": model.metadata,
        **({} if map_of_items is None else {"neighbours": {"mix": map_of_items.mix, "penalty": map_of_items.penalty}}),
        **({} if model.content is None else {"content": model.content.description()}),
        **({"evidence": sum(len(each.contributions) for each in model.evidence)} if len(model.added) else {}),
        "usage": asdict(model.usage),
        "sha256": {name: hashlib.sha256((part / name).read_bytes()).hexdigest() for name in (TENSORS, ITEMS)},
    }


def _sealed(meta: dict[str, Any]) -> dict[str, Any]:
    body = {name: value for name, value in meta.items() if name != "checksum"}
    return body | {"checksum": hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()}


def _read_meta(folder: Path) -> dict[str, Any]:
    if not folder.is_dir():
        raise ModelError(f"no model at {folder}; create one with `igcf pretrain --dataset synthetic --out {folder}`")
    if not (folder / META).is_file():
        raise ModelError(f"{folder} is not a model folder: it has no {META}")
    try:
        meta = json.loads(_read(folder, META, META_BYTES))
        sealed = _sealed(meta) if isinstance(meta, dict) else {}
    except (ValueError, RecursionError) as error:
        raise ModelError(f"{folder / META} is not readable JSON ({error}); restore or retrain") from error
    if not isinstance(meta, dict) or meta.get("format") != FORMAT:
        raise ModelError(f"{folder / META} does not describe an igcf model")
    if meta.get("version") != FORMAT_VERSION:
        raise ModelError(
            f"{folder} has model format {meta.get('version')}, this igcf reads {FORMAT_VERSION}; "
            "use the igcf that wrote it, or run `igcf pretrain` again"
        )
    if sealed["checksum"] != meta.get("checksum"):
        raise ModelError(f"{folder / META} was changed after it was saved; restore or retrain")
    return meta


def _read(folder: Path, name: str, limit: int) -> bytes:
    """Read a regular file that is not larger than `limit`; a pipe or a device could go on for ever."""
    try:
        fd = os.open(folder / name, os.O_RDONLY | os.O_NONBLOCK)
        with open(fd, "rb") as file:
            found = os.fstat(fd)
            if not stat.S_ISREG(found.st_mode):
                raise ModelError(f"{folder / name} is not a regular file; the model is not complete")
            if found.st_size > limit:
                raise ModelError(f"{folder / name} has {found.st_size} bytes, more than the {limit} its model can need")
            return file.read(limit)
    except OSError as error:
        raise ModelError(f"cannot read {folder / name}: {error.strerror}; the model is not complete") from error


def _write(path: Path, content: bytes) -> None:
    with path.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
