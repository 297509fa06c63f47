"""Divides a log among workers: each gets consecutive users, with about as many reactions as the others.

Of files, nobody reads the whole: workers first collect the ids of their files (`found_ids`), then write each row, as
numbers, to the part of its user (`write_pieces`); last, each part is put together (`put_together`).
"""

import hashlib
import json
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from igcf.arrays import IntArray
from igcf.data.findings import Piece
from igcf.data.interactions import MISSING_TIME, Interactions
from igcf.data.log_files import LogFiles
from igcf.data.reading import MICROSECONDS, RowReader, Rows, id_order, latest_reactions
from igcf.errors import DataError, ModelError
from igcf.training.attribute_prior import drawn_users
from igcf.training.checkpoint import damaged, read_note, replaced
from igcf.training.experts.executor import Executor, Worker
from igcf.training.experts.shared_log import NOBODY, Part, SharedLog, catalogue_of

USER_IDS = "users.arrow"
"""File of all user ids beside the parts; its suffix is not that of a log, since both may share a folder."""


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


def with_people(log: SharedLog, data: LogFiles, folder: Path) -> Interactions:
    """Return the reactions of the users to regress, with the table of users of the files."""
    if data.users is None:
        return log.catalogue
    rows = drawn_users(log.users, 0)
    ids = pl.read_ipc(folder / "parts" / USER_IDS)["user"].gather(rows).to_list()
    return replace(log.only_users(rows), user_ids=tuple(ids)).with_users(data.users, data.without)


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
    ids = merged_ids(executor.call(found_ids, data, each=shares))
    if not len(ids.users):
        raise DataError(f"{data.path} has no rows; expected one row per reaction", kind="empty")
    bounds = even_bounds(ids.counts, executor.size)
    pieces = parts / "pieces"
    pieces.mkdir()
    told = executor.call(write_pieces, data, ids, bounds, pieces, each=shares)
    fractions = None if all(each is None for each in told) else any(told)
    each = [(number, parts / f"part-{number}") for number in range(executor.size)]
    executor.call(put_together, pieces, bounds, len(ids.items), fractions, each=each)
    shutil.rmtree(pieces)
    ids.users.alias("user").to_frame().write_ipc(parts / USER_IDS)
    return {"bounds": list(bounds), "item_ids": ids.items.to_list()}


class Ids(NamedTuple):
    """Ids of some files as text: users with their numbers of rows, and items."""

    users: pl.Series
    counts: IntArray
    items: pl.Series


def found_ids(_: Worker, files: LogFiles, numbers: Sequence[int]) -> Ids:
    """Collect the ids of some files."""
    found = Ids(pl.Series(dtype=pl.String), np.zeros(0, dtype=np.int64), pl.Series(dtype=pl.String))
    for _number, _piece, rows in _rows(files, numbers):
        found = _united([found, Ids(rows.users, np.ones(len(rows.users), dtype=np.int64), rows.items)])
    return found


def _rows(files: LogFiles, numbers: Sequence[int]) -> Iterator[tuple[int, Piece, Rows]]:
    """Read some files: the number of each, its pieces and their rows."""
    for number in numbers:
        reader = RowReader(files.layout, files.columns)
        for piece in files.pieces(number):
            yield number, piece, reader.rows(piece)


def merged_ids(found: Sequence[Ids]) -> Ids:
    """Return the ids of all files in the order of a log's rows."""
    users, counts, items = _united(found)
    order = id_order(users)
    return Ids(users.gather(order), counts[order.to_numpy()], items.gather(id_order(items)))


def _united(found: Sequence[Ids]) -> Ids:
    users = pl.DataFrame(
        {"id": pl.concat([each.users.alias("id") for each in found]), "n": np.concatenate([x.counts for x in found])}
    )
    users = users.group_by("id").agg(pl.col("n").sum())
    items = pl.concat([each.items.alias("id") for each in found]).unique()
    return Ids(users["id"], users["n"].to_numpy(), items)


def even_bounds(counts: IntArray, n_parts: int) -> tuple[int, ...]:
    """Return the row of the first user of each part, and the number of users: about equal numbers of reactions."""
    ends = np.cumsum(counts)
    wanted = ends[-1] * np.arange(1, n_parts) / n_parts
    return (0, *(np.searchsorted(ends, wanted) + 1).clip(max=len(counts)).tolist(), len(counts))


def write_pieces(
    _: Worker, files: LogFiles, ids: Ids, bounds: Sequence[int], folder: Path, numbers: Sequence[int]
) -> bool | None:
    """Write the rows of some files as numbers, by part; return whether times have fractions; None: no times."""
    users, items = (
        pl.DataFrame({"id": own, "row": np.arange(len(own), dtype=np.int32)}) for own in (ids.users, ids.items)
    )
    fractions: bool | None = None
    for number, piece, rows in _rows(files, numbers):
        user, item = (
            own.alias("id").to_frame().join(known, on="id", how="left", maintain_order="left")["row"].to_numpy()
            for own, known in ((rows.users, users), (rows.items, items))
        )
        columns = {"user": user, "item": item, "value": rows.values}
        if rows.times is not None:
            columns["time"] = rows.times
            fractions = bool(fractions) or rows.has_fractions
        part_of = np.searchsorted(np.asarray(bounds[1:-1]), user, side="right")
        for part in range(len(bounds) - 1):
            own_rows = np.flatnonzero(part_of == part)
            own_columns = {name: column[own_rows] for name, column in columns.items()}
            own_columns["user"] = (user[own_rows] - bounds[part]).astype(np.int32)
            name = f"{part:05d}-{number:06d}-{piece.first_row:015d}-{int(rows.has_fractions)}.npz"
            np.savez(folder / name, **own_columns)  # type: ignore[arg-type]
    return fractions


def put_together(
    _: Worker,
    pieces: Path,
    bounds: Sequence[int],
    n_items: int,
    fractions: bool | None,
    number: int,
    folder: Path,
) -> None:
    """Write one part, in the order of users and items: of several reactions of a user to an item the latest counts."""
    files = sorted(pieces.glob(f"{number:05d}-*.npz"))
    users, items = _joined(files, "user"), _joined(files, "item")
    times = None if fractions is None else _joined(files, "time", in_microseconds=fractions)
    order = np.flatnonzero(latest_reactions(users, items, times)[0])
    order = order[np.lexsort((items[order], users[order]))]
    n_users = bounds[number + 1] - bounds[number]
    indptr = np.concatenate([[0], np.cumsum(np.bincount(users[order], minlength=n_users))])
    times = None if times is None else times[order]
    Part(n_items, indptr, items[order], _joined(files, "value")[order], times).save(folder)


def _joined(files: Sequence[Path], name: str, *, in_microseconds: bool = False) -> np.ndarray:
    """Return a column of all pieces; times in one unit."""
    parts = []
    for file in files:
        with np.load(file, allow_pickle=False) as columns:
            parts.append(columns[name])
        if in_microseconds and file.stem.endswith("-0"):
            parts[-1][parts[-1] != MISSING_TIME] *= MICROSECONDS
    return np.concatenate(parts)


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
