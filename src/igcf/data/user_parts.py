"""Divides the rows of the files of a log by their users, piece by piece, so that nobody reads the whole log.

Workers first collect the ids of their files (`found_ids`), then write each row, as numbers, to the part of its user
(`write_pieces`); last, each part is put together (`part_columns`). The folder of the parts must be one that all see.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import polars as pl

from igcf.arrays import Float32Array, IntArray
from igcf.data.findings import Piece
from igcf.data.interactions import MISSING_TIME
from igcf.data.log_files import LogFiles
from igcf.data.reading import MICROSECONDS, RowReader, Rows, id_order, latest_reactions
from igcf.errors import DataError


class Ids(NamedTuple):
    """Ids of some files as text: users with their numbers of rows, and items."""

    users: pl.Series
    counts: IntArray
    items: pl.Series


def _rows(files: LogFiles, numbers: Sequence[int]) -> Iterator[tuple[int, Piece, Rows]]:
    """Read some files: the number of each, its pieces and their rows."""
    for number in numbers:
        reader = RowReader(files.layout, files.columns)
        for piece in files.pieces(number):
            yield number, piece, reader.rows(piece)


def found_ids(files: LogFiles, numbers: Sequence[int]) -> Ids:
    """Collect the ids of some files."""
    found = Ids(pl.Series(dtype=pl.String), np.zeros(0, dtype=np.int64), pl.Series(dtype=pl.String))
    for _, _, rows in _rows(files, numbers):
        found = _united([found, Ids(rows.users, np.ones(len(rows.users), dtype=np.int64), rows.items)])
    return found


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


def write_pieces(files: LogFiles, numbers: Sequence[int], ids: Ids, bounds: Sequence[int], folder: Path) -> bool | None:
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
        elif files.layout.timestamp is not None:
            name = files.files[number]
            raise DataError(f"{name} has no column of times, others have one; give all files the same columns")
        place = files.starts[number] + piece.first_row
        part_of = np.searchsorted(np.asarray(bounds[1:-1]), user, side="right")
        for part in range(len(bounds) - 1):
            own_rows = np.flatnonzero(part_of == part)
            own_columns = {name: column[own_rows] for name, column in columns.items()}
            own_columns["user"] = (user[own_rows] - bounds[part]).astype(np.int32)
            np.savez(folder / f"{part:05d}-{place:015d}-{int(rows.has_fractions)}.npz", **own_columns)  # type: ignore[arg-type]
    return fractions


class PartColumns(NamedTuple):
    """Reactions of one part, in the order of users and items, at most one of each user to each item."""

    indptr: IntArray
    items: IntArray
    values: Float32Array
    times: IntArray | None
    n_duplicates: int


def part_columns(folder: Path, part: int, n_users: int, fractions: bool | None) -> PartColumns:
    """Put one part together: of several reactions of a user to an item the latest counts."""
    files = sorted(folder.glob(f"{part:05d}-*.npz"))
    users, items = _joined(files, "user"), _joined(files, "item")
    times = None if fractions is None else _joined(files, "time", in_microseconds=fractions)
    is_latest = latest_reactions(users, items, times)[0]
    order = np.flatnonzero(is_latest)
    order = order[np.lexsort((items[order], users[order]))]
    indptr = np.concatenate([[0], np.cumsum(np.bincount(users[order], minlength=n_users))])
    times = None if times is None else times[order]
    return PartColumns(indptr, items[order], _joined(files, "value")[order], times, len(users) - len(order))


def _joined(files: Sequence[Path], name: str, *, in_microseconds: bool = False) -> np.ndarray:
    """Return a column of all pieces; times in one unit."""
    parts = []
    for file in files:
        with np.load(file, allow_pickle=False) as columns:
            parts.append(columns[name])
        if in_microseconds and file.stem.endswith("-0"):
            parts[-1][parts[-1] != MISSING_TIME] *= MICROSECONDS
    return np.concatenate(parts)
