"""Divides a log among workers: each gets consecutive users, with about as many reactions as the others."""

import hashlib
import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from igcf.data.interactions import Interactions
from igcf.data.log_files import LogFiles
from igcf.data.user_parts import (
    Ids,
    even_bounds,
    found_ids,
    merged_ids,
    part_columns,
    write_pieces,
)
from igcf.errors import ModelError
from igcf.training.experts.executor import Executor
from igcf.training.experts.kept import damaged, read_note, replaced
from igcf.training.experts.part import Part, Worker
from igcf.training.experts.shared_log import NOBODY, SharedLog, catalogue_of


def shared_log(data: Interactions | LogFiles, executor: Executor, folder: Path) -> SharedLog:
    """Let the workers hold a log; its parts are written to `folder`, which all of them must see.

    Where the folder holds the parts of the same log for as many workers, they are taken.
    """
    parts, name = folder / "parts", data.name
    identity = log_fingerprint(data)
    note = parts / "parts.json"
    found = read_note(note) if note.exists() else {}
    if (found.get("identity"), found.get("workers")) != (identity, executor.size):
        try:
            shutil.rmtree(parts, ignore_errors=True)
            parts.mkdir(parents=True)
            divided = (
                _divided(data, executor, parts) if isinstance(data, Interactions) else _read(data, executor, parts)
            )
        except OSError as error:
            raise ModelError(f"cannot keep the parts of the log in {parts}: {error.strerror or error}") from error
        found = {"identity": identity, "workers": executor.size, **divided}
        with replaced(note) as temporary:
            temporary.write_text(json.dumps(found), encoding="utf-8")
    executor.call(open_part, each=[(parts / f"part-{number}",) for number in range(executor.size)])
    if isinstance(data, Interactions):
        catalogue = catalogue_of(data)
    else:
        empty = np.empty(0, dtype=np.int32)
        items = tuple(found["item_ids"])
        catalogue = Interactions((), items, empty, empty, empty.astype(np.float32), name=name)
        catalogue = replace(catalogue, kinds=dict(data.columns.kinds), layout=data.layout)
        if data.items is not None:
            catalogue = catalogue.with_items(data.items)
    return SharedLog(executor, catalogue, tuple(found["bounds"]), NOBODY, lambda: identity)


def log_fingerprint(data: Interactions | LogFiles) -> str:
    """Return a short hash of a log; of files it is one of what can be known of them without reading them."""
    return data.fingerprint() if isinstance(data, Interactions) else _files_fingerprint(data)


def _divided(data: Interactions, executor: Executor, parts: Path) -> dict[str, Any]:
    """Write the parts of a log that is in the memory of this process."""
    whole = Part.of(data)
    bounds = even_bounds(np.diff(whole.indptr), executor.size)
    for number in range(executor.size):
        whole.users(bounds[number], bounds[number + 1]).save(parts / f"part-{number}")
    return {"bounds": list(bounds)}


def _read(data: LogFiles, executor: Executor, parts: Path) -> dict[str, Any]:
    """Let the workers read the files and write the parts."""
    shares = [(share,) for share in data.shares(executor.size)]
    ids = merged_ids(executor.call(ids_of_files, data, each=shares))
    bounds = even_bounds(ids.counts, executor.size)
    pieces = parts / "pieces"
    pieces.mkdir()
    told = executor.call(write_files, data, ids, bounds, pieces, each=shares)
    fractions = None if all(each is None for each in told) else any(told)
    each = [(number, parts / f"part-{number}") for number in range(executor.size)]
    executor.call(put_together, pieces, bounds, len(ids.items), fractions, each=each)
    shutil.rmtree(pieces)
    return {"bounds": list(bounds), "item_ids": ids.items.to_list()}


def ids_of_files(_: Worker, files: LogFiles, numbers: list[int]) -> Ids:
    """Let a worker collect the ids of its files."""
    return found_ids(files, numbers)


def write_files(
    _: Worker, files: LogFiles, ids: Ids, bounds: tuple[int, ...], folder: Path, numbers: list[int]
) -> bool | None:
    """Let a worker divide the rows of its files."""
    return write_pieces(files, numbers, ids, bounds, folder)


def put_together(
    _: Worker,
    pieces: Path,
    bounds: tuple[int, ...],
    n_items: int,
    fractions: bool | None,
    number: int,
    folder: Path,
) -> None:
    """Let a worker write its part."""
    found = part_columns(pieces, number, bounds[number + 1] - bounds[number], fractions)
    Part(n_items, found.indptr, found.items, found.values, found.times).save(folder)


def open_part(worker: Worker, folder: Path) -> None:
    """Let a worker open its part."""
    try:
        worker.hold(Part.load(folder))
    except (KeyError, ValueError) as error:
        raise damaged(folder, error) from error


def _files_fingerprint(data: LogFiles) -> str:
    """Return a short hash of the names, sizes and times of change of all files."""
    digest = hashlib.sha256(repr((data.layout, sorted(data.columns.kinds.items()))).encode())
    for file in data.files:
        state = file.stat()
        digest.update(f"{file.relative_to(data.path.parent)} {state.st_size} {state.st_mtime_ns}\n".encode())
    return digest.hexdigest()[:16]
