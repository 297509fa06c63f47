"""The model folder: `model.safetensors`, `items.parquet`, `meta.json`; whole or absent, checked, never executed."""

import hashlib
import io
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

from igcf.attributes import COLUMNS as ATTRIBUTE_COLUMNS
from igcf.attributes import Attributes
from igcf.errors import ConfigError, DataError, ModelError
from igcf.model.attribute_prior import CONTEXT_PREFIX, PREFIX, AttributePrior
from igcf.model.catalogue import Catalogue
from igcf.model.channel import Channel, Term
from igcf.model.checks import refuse_far_settings, refuse_far_tensors
from igcf.model.content import ContentPrior
from igcf.model.model import Model
from igcf.model.new_items import evidence_arrays, evidence_from_arrays
from igcf.model.reward import Reward
from igcf.model.usage import Usage

FORMAT, FORMAT_VERSION = "igcf-model", 1
TENSORS, ITEMS, META = "model.safetensors", "items.parquet", "meta.json"
META_BYTES = 64_000_000
ITEM_BYTES, ITEM_LABELS, OVERHEAD = 4_096, 512, 1_000_000
"""Bytes of text and number of labels per item, on average, that a table of items may hold, and how many more in all."""
OF_THE_LOG = ("appeared", "reactions", "low_pass")
"""Arrays that a model need not have."""
NUMBER = "number:"
"""Prefix of the columns of `items.parquet` that hold numbers of the items."""
LABELS, TEXTS = ("categories", "tags"), ("item_id", "title", "text", "image")
COLUMNS: dict[str, pl.DataType] = {
    **{name: pl.String() for name in TEXTS},
    **{name: pl.List(pl.String()) for name in LABELS},
    "available_from": pl.Float64(),
    "available_until": pl.Float64(),
    "hidden": pl.Boolean(),
}
"""Columns of `items.parquet` beside the numbers; only `item_id` is required."""
DAMAGES = (KeyError, TypeError, ValueError, AttributeError, IndexError, OverflowError, MemoryError, ConfigError)
"""Errors raised by a description with parts that are missing, of another type, or out of range."""


def save_model(model: Model, folder: Path) -> None:
    """Write `folder` under a temporary name and rename it: a reader finds the whole model or none."""
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
    """Read what `save_model` wrote, or refuse with one sentence."""
    meta = _read_meta(folder)
    try:
        sizes, sums = meta["bytes"], meta["sha256"]
        contents = {name: _read(folder, name, int(sizes[name])) for name in (TENSORS, ITEMS)}
        for name, content in contents.items():
            if hashlib.sha256(content).hexdigest() != sums[name]:
                raise ModelError(
                    f"{folder / name} is not the file that was saved (truncated or changed); restore or retrain"
                )
        tensors, n_channels = load(contents[TENSORS]), len(meta["channels"])
        refuse_far_settings({name: meta.get(name) for name in ("reward", "kinds", "channels", "terms", "usage")})
        items = _read_items(contents[ITEMS], meta["items"])
        model = Model(
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
            attributes=_attributes(items),
            reward=Reward(**meta["reward"]),
            metadata=meta["metadata"],
            **{name: tensors.get(name) for name in OF_THE_LOG},
            usage=Usage.from_dict(meta.get("usage", {})),
            content=ContentPrior.from_saved(tensors, meta["content"], n_channels) if "content" in meta else None,
            attribute_prior=_side(tensors, meta.get("users"), PREFIX),
            context_effect=_side(tensors, meta.get("context"), CONTEXT_PREFIX),
            added=tensors.get("added", ()),
            evidence=evidence_from_arrays(tensors, n_channels),
        )
        refuse_far_tensors(tensors)
        if model.dim != meta["dim"]:
            raise ModelError(f"{folder / META} says dim {meta['dim']}, the vectors of the users have {model.dim}")
        return model
    except ModelError:
        raise
    except (*DAMAGES, DataError, SafetensorError, pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        raise ModelError(f"{folder} does not hold a complete igcf model: {error}; run `igcf pretrain` again") from error


def saved_metadata(folder: Path) -> dict[str, Any]:
    """Return how a saved model was trained, from `meta.json` alone."""
    return dict(_read_meta(folder)["metadata"])


def model_id(folder: Path) -> str:
    """Return a short name of the exact contents, from `meta.json` alone."""
    return str(_read_meta(folder)["checksum"])[:12]


def _side(tensors: dict[str, npt.NDArray[Any]], saved: dict[str, Any] | None, prefix: str) -> AttributePrior | None:
    return None if saved is None else AttributePrior.from_saved(tensors, saved, prefix)


def _write_parts(model: Model, part: Path) -> None:
    tensors: dict[str, npt.NDArray[Any]] = {
        "item_variances": model.item_variances,
        "prior_mean": model.prior_mean,
        "prior_cov": model.prior_cov,
    }
    for i, channel in enumerate(model.channels):
        tensors |= {f"vectors_{i}": channel.vectors, f"noise_{i}": channel.noise_var}
    tensors |= {name: own for name in OF_THE_LOG if (own := getattr(model, name)) is not None}
    tensors |= model.content.arrays() if model.content else {}
    tensors |= model.attribute_prior.arrays() if model.attribute_prior else {}
    tensors |= model.context_effect.arrays(CONTEXT_PREFIX) if model.context_effect else {}
    tensors |= {"added": model.added} | evidence_arrays(model.evidence) if len(model.added) else {}
    items = io.BytesIO()
    _item_table(model.catalogue).write_parquet(items)
    arrays = {name: np.ascontiguousarray(each) for name, each in tensors.items()}
    contents = {TENSORS: save(arrays), ITEMS: items.getvalue()}
    meta = _description(model) | {
        "bytes": {name: len(content) for name, content in contents.items()},
        "sha256": {name: hashlib.sha256(content).hexdigest() for name, content in contents.items()},
    }
    contents[META] = json.dumps(_sealed(meta), indent=2, allow_nan=False).encode()
    for name, content in contents.items():
        with (part / name).open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())


def _description(model: Model) -> dict[str, Any]:
    described = {"content": model.content, "users": model.attribute_prior, "context": model.context_effect}
    return {
        "format": FORMAT,
        "version": FORMAT_VERSION,
        "ids": ITEMS,
        "items": model.n_items,
        "dim": model.dim,
        "reward": asdict(model.reward),
        "kinds": model.kinds,
        "channels": [{"reward": asdict(c.reward), "link": c.link, "start": c.start} for c in model.channels],
        "terms": [asdict(term) for term in model.terms],
        "metadata": model.metadata,
        **{name: part.description() for name, part in described.items() if part is not None},
        "usage": asdict(model.usage),
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
    """Read a regular file of at most `limit` bytes: a pipe, a device or a sparse file could fill the memory."""
    try:
        fd = os.open(folder / name, os.O_RDONLY | os.O_NONBLOCK)
        with open(fd, "rb") as file:
            found = os.fstat(fd)
            if not stat.S_ISREG(found.st_mode):
                raise ModelError(f"{folder / name} is not a regular file; the model is not complete")
            if found.st_size > limit:
                raise ModelError(f"{folder / name} has {found.st_size} bytes, more than the {limit} that were saved")
            return file.read(limit)
    except OSError as error:
        raise ModelError(f"cannot read {folder / name}: {error.strerror}; the model is not complete") from error


def _item_table(catalogue: Catalogue) -> pl.DataFrame:
    """Return the descriptions of items as the table that is saved."""
    own = catalogue.attributes
    columns: dict[str, Any] = {
        "item_id": catalogue.item_ids,
        "title": catalogue.titles,
        "categories": catalogue.categories,
        **{name: getattr(own, column) for column, (name, _) in ATTRIBUTE_COLUMNS.items()},
    }
    found = [
        pl.Series(name, list(map(list, each)) if name in LABELS else each, dtype=COLUMNS[name])
        for name, each in columns.items()
        if each is not None
    ]
    return pl.DataFrame([*found, *(pl.Series(f"{NUMBER}{name}", each) for name, each in own.numbers.items())])


def _read_items(content: bytes, n_items: int) -> pl.DataFrame:
    """Read the table of items; one that is larger than that of `n_items` items is refused."""
    table = pl.scan_parquet(io.BytesIO(content))
    schema = table.collect_schema()
    columns = COLUMNS | {name: pl.Float64() for name in schema if name.startswith(NUMBER)}
    if "item_id" not in schema or any(schema[name] != dtype for name, dtype in columns.items() if name in schema):
        raise ModelError(f"the table of items has columns {dict(schema)}; expected {columns}")
    n_rows = table.select(pl.len()).collect().item()
    if n_rows != n_items:
        raise ModelError(f"the table of items has {n_rows} rows, the model {n_items} items")
    labels = [pl.col(name).list.len().sum() for name in LABELS if name in schema]
    n_labels = sum(table.select(labels).collect(engine="streaming").row(0)) if labels else 0
    texts = [pl.col(name).str.len_bytes().sum() for name in TEXTS if name in schema]
    texts += [pl.col(name).explode().str.len_bytes().sum() for name in LABELS if name in schema]
    too_many = n_labels > n_items * ITEM_LABELS + OVERHEAD
    n_bytes = 0 if too_many else sum(table.select(texts).collect(engine="streaming").row(0))
    if too_many or n_bytes > n_items * ITEM_BYTES + OVERHEAD:
        raise ModelError(
            f"the table of items has {n_labels} labels and {n_bytes} bytes of text for {n_items} items; "
            f"expected at most {ITEM_LABELS} labels and {ITEM_BYTES} bytes per item"
        )
    items = table.select(name for name in columns if name in schema).collect()
    if items["item_id"].null_count() or (items["item_id"] == "").any():
        raise ModelError("the table of items has items without an id")
    return items


def _attributes(items: pl.DataFrame) -> Attributes | None:
    """Return the attributes among the columns of the table of items; None: it has none."""
    named = [name for name in items.columns if name.startswith(NUMBER)]
    numbers = {name.removeprefix(NUMBER): items[name].fill_null(np.nan).to_numpy() for name in named}
    columns: dict[str, Any] = {}
    for column, (name, missing) in ATTRIBUTE_COLUMNS.items():
        if name in items.columns:
            entries = items[name]
            if isinstance(missing, float | bool):
                columns[column] = entries.fill_null(missing).to_numpy()
            else:
                columns[column] = tuple(tuple(each or ()) if name in LABELS else each for each in entries.to_list())
    found = Attributes(items.height, numbers=numbers, **columns)
    return None if found.is_empty else found
