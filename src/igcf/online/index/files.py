"""The index in the folder of its model, and whether a recommender scores all items or asks an index for candidates."""

import hashlib
import json
import logging
import shutil
import tempfile
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np

from igcf.errors import ConfigError, ModelError
from igcf.model import Model
from igcf.online.index.lists import ChannelLists, ItemLists, build_lists, load_faiss

FOLDER, META = "index", "meta.json"
VERSION = 1
SHARED = ("rows", "starts", "spread")
OF_CHANNEL = ("vectors", "lengths", "centres", "within")
MAPPED = ("rows", "vectors", "lengths")
NEXT_STEP = "build it again with `igcf index`"
IndexChoice = Literal["auto", "exact", "faiss"]
INDEXES: tuple[str, ...] = get_args(IndexChoice)
INDEX_FROM = 50_000
"""Items from which `auto` asks an index (docs/design/scale.md, section Retrieval)."""
logger = logging.getLogger("igcf.index")


def is_wanted(model: Model, index: str) -> bool:
    """Whether `index`, one of `INDEXES`, asks for an index of this model."""
    if index not in INDEXES:
        hint = "; `igcf index` stores one in the folder of a model" if index is None else ""
        raise ConfigError(f"index must be one of {', '.join(INDEXES)}, or an index that was built, got {index!r}{hint}")
    return index == "faiss" or (index == "auto" and model.n_items >= INDEX_FROM)


def find_index(model: Model, index: "str | ItemLists") -> ItemLists | None:
    """Return the index that was given, or build one where it is wanted; None: all items are scored.

    `index` may be `exact` (none), `faiss` (in any case) or `auto` (for large catalogues, if faiss is installed).
    """
    if isinstance(index, ItemLists):
        return index
    if not is_wanted(model, index):
        return None
    if index == "auto":
        try:
            load_faiss()
        except ConfigError as error:
            logger.warning("all %d items are scored for every answer: %s", model.n_items, error)
            return None
    logger.info("building an index of %d items", model.n_items)
    return build_lists(model)


def save_lists(lists: ItemLists, model_folder: Path) -> Path:
    """Write the index into the folder of its model, whole or not at all, in place of any that is there."""
    from igcf.model.files import full_checksum  # loads polars, which the client of the service does without

    target = model_folder / FOLDER
    try:
        part = Path(tempfile.mkdtemp(prefix=f".{FOLDER}.", dir=model_folder))
        try:
            arrays = {name: getattr(lists, name) for name in SHARED}
            for number, own in enumerate(lists.channels):
                arrays |= {f"{name}_{number}": getattr(own, name) for name in OF_CHANNEL}
            for name, array in arrays.items():
                np.save(part / f"{name}.npy", array, allow_pickle=False)
            sums = {name: _sha256(part / f"{name}.npy") for name in arrays}
            meta = {"version": VERSION, "model": full_checksum(model_folder), "sha256": sums}
            (part / META).write_text(json.dumps(meta, indent=2), encoding="utf-8")
            part.chmod(0o755)
            if target.exists():
                target.rename(part / "replaced")  # still mapped by those who read it
            part.rename(target)
            shutil.rmtree(target / "replaced", ignore_errors=True)
        except BaseException:
            shutil.rmtree(part, ignore_errors=True)
            raise
    except OSError as error:
        raise ModelError(f"cannot write the index to {target}: {error.strerror or error}") from error
    return target


def load_lists(model_folder: str | Path) -> ItemLists | None:
    """Map the index of a model, or return None if it has none; refuse a damaged index or that of another model."""
    from igcf.model.files import full_checksum

    model_folder = Path(model_folder)
    folder = model_folder / FOLDER
    if not folder.is_dir():
        return None
    try:
        meta: dict[str, Any] = json.loads((folder / META).read_text(encoding="utf-8"))
        if meta["version"] != VERSION:
            raise ModelError(f"{folder} has index format {meta['version']}, this igcf reads {VERSION}; {NEXT_STEP}")
        if meta["model"] != full_checksum(model_folder):
            raise ModelError(f"{folder} is the index of another model; {NEXT_STEP}")
        sums = meta["sha256"]
        n_channels = (len(sums) - len(SHARED)) // len(OF_CHANNEL)
        channels = [
            ChannelLists(**{name: _read(folder, f"{name}_{number}", sums) for name in OF_CHANNEL})
            for number in range(n_channels)
        ]
        return ItemLists(tuple(channels), **{name: _read(folder, name, sums) for name in SHARED})
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise ModelError(f"{folder} does not hold a complete index: {error}; {NEXT_STEP}") from error


def _read(folder: Path, name: str, sums: dict[str, str]) -> Any:
    """One array; the large ones are mapped."""
    path = folder / f"{name}.npy"
    if _sha256(path) != sums[name]:
        raise ModelError(f"{path} is not the file that was saved (truncated or changed); {NEXT_STEP}")
    is_mapped = name.partition("_")[0] in MAPPED
    array = np.load(path, mmap_mode="r" if is_mapped else None, allow_pickle=False)
    return array.view(np.ndarray)  # a plain array: slices of a memmap take several times as long to make


def index_of_folder(model: Model, folder: Path, index: str) -> ItemLists | None:
    """Return the index of a model that was loaded from `folder`; one that is built now is stored there if it can be.

    `index` is `auto`, `exact` or `faiss`, as `find_index` takes it.
    """
    if not is_wanted(model, index):
        return None
    stored = load_lists(folder)
    lists = find_index(model, index) if stored is None else stored
    if stored is None and lists is not None:
        try:
            save_lists(lists, folder)
        except ModelError as error:
            logger.warning("the index stays in the memory of this process: %s", error)
            return lists
        return load_lists(folder)  # mapped: one copy for all processes
    return lists


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
