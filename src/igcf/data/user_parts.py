"""Divides the rows of the files of a log by their users, piece by piece, so that nobody reads the whole log.

Workers first collect the ids of their files (`found_ids`), then write each row, as numbers, to the part of its user
(`write_pieces`); last, each part is put together (`part_columns`). The folder of the parts must be one that all see.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt
import polars as pl

from igcf.arrays import Float32Array, IntArray
from igcf.data.columns import whole_numbers
from igcf.data.interactions import MISSING_TIME
from igcf.data.log_files import FilesOfLog
from igcf.data.reading import MICROSECONDS, RowReader
from igcf.errors import DataError

Number = TypeVar("Number", bound=np.generic)


class Ids(NamedTuple):
    """Ids of some files as text: users with their numbers of rows, and items."""

    users: pl.Series
    counts: IntArray
    items: pl.Series


def found_ids(files: FilesOfLog, numbers: Sequence[int]) -> Ids:
    """Collect the ids of some files."""
    schema = {"id": pl.String, "len": pl.UInt32}
    users, items = pl.DataFrame(schema=schema), pl.Series("id", [], dtype=pl.String)
    for number in numbers:
        reader = RowReader(files.layout, files.columns)
        for piece in files.pieces(number):
            rows = reader.rows(piece)
            own = rows.users.alias("id").to_frame()
            own = own.group_by("id").len().cast(schema)  # type: ignore[arg-type]
            users = pl.concat([users, own]).group_by("id").agg(pl.col("len").sum())
            own_items = rows.items.alias("id").unique()
            items = pl.concat([items, own_items]).unique()
    return Ids(users["id"], users["len"].to_numpy(), items)


def merged_ids(found: Sequence[Ids]) -> Ids:
    """Return the ids of all files in the order of a log's rows."""
    counts = [pl.Series("len", each.counts, dtype=pl.UInt32) for each in found]
    users = pl.DataFrame({"id": pl.concat([each.users for each in found]), "len": pl.concat(counts)})
    users = users.group_by("id").agg(pl.col("len").sum())
    users = users[_order(users["id"])]
    items = pl.concat([each.items for each in found]).unique()
    return Ids(users["id"], users["len"].to_numpy(), items.gather(_order(items)))


def _order(ids: pl.Series) -> pl.Series:
    numbers = whole_numbers(ids)
    return (ids if numbers is None else numbers).arg_sort()


def even_bounds(counts: IntArray, n_parts: int) -> tuple[int, ...]:
    """Return the row of the first user of each part, and the number of users: about equal numbers of reactions."""
    ends = np.cumsum(counts)
    wanted = ends[-1] * np.arange(1, n_parts) / n_parts
    return (0, *(np.searchsorted(ends, wanted) + 1).clip(max=len(counts)).tolist(), len(counts))


def write_pieces(
    files: FilesOfLog, numbers: Sequence[int], ids: Ids, bounds: Sequence[int], folder: Path
) -> bool | None:
    """Write the rows of some files as numbers, by part; return whether times have fractions; None: no times."""
    users, items = _rows_of(ids.users), _rows_of(ids.items)
    fractions: bool | None = None
    for number in numbers:
        reader = RowReader(files.layout, files.columns)
        for piece in files.pieces(number):
            rows_of_piece = reader.rows(piece)
            user = _codes(rows_of_piece.users, users)
            columns: dict[str, npt.NDArray[np.generic]] = {
                "user": user,
                "item": _codes(rows_of_piece.items, items),
                "value": rows_of_piece.values,
            }
            has_fractions = rows_of_piece.has_fractions
            if rows_of_piece.times is not None:
                columns["time"] = rows_of_piece.times.fill_null(MISSING_TIME).to_numpy()
                fractions = bool(fractions) or has_fractions
            elif files.layout.timestamp is not None:
                name = str(files.files[number])
                raise DataError(f"{name} has no column of times, others have one; give all files the same columns")
            place = files.starts[number] + piece.first_row
            part_of = np.searchsorted(np.asarray(bounds[1:-1]), user, side="right")
            for part in range(len(bounds) - 1):
                rows = np.flatnonzero(part_of == part)
                own = {name: column[rows] for name, column in columns.items()}
                own["user"] = (user[rows] - bounds[part]).astype(np.int32)
                target = folder / f"{part:05d}-{place:015d}-{int(has_fractions)}.npz"
                np.savez(target, **own)  # type: ignore[arg-type]
    return fractions


def _rows_of(ids: pl.Series) -> pl.DataFrame:
    return pl.DataFrame({"id": ids, "row": np.arange(len(ids), dtype=np.int32)})


def _codes(ids: pl.Series, rows: pl.DataFrame) -> npt.NDArray[np.int32]:
    joined = ids.alias("id").to_frame().join(rows, on="id", how="left", maintain_order="left")
    return joined["row"].to_numpy()


class PartColumns(NamedTuple):
    """Reactions of one part, in the order of users and items, at most one of each user to each item."""

    indptr: IntArray
    items: IntArray
    values: Float32Array
    times: IntArray | None
    n_duplicates: int


def part_columns(folder: Path, part: int, n_users: int, n_items: int, fractions: bool | None) -> PartColumns:
    """Put one part together: of several reactions of a user to an item the latest counts."""
    files = sorted(folder.glob(f"{part:05d}-*.npz"))
    sizes = [len(_column(file, "user")) for file in files]
    users, items = _joined(files, sizes, "user", np.int32), _joined(files, sizes, "item", np.int32)
    pair = users.astype(np.int64)
    pair *= n_items
    pair += items
    times = None if fractions is None else _times(files, sizes, fractions)
    order = np.argsort(pair, kind="stable")
    pair = pair[order]
    is_last = np.append(pair[1:] != pair[:-1], True) if len(pair) else np.zeros(0, dtype=np.bool_)
    n_duplicates = len(pair) - int(is_last.sum())
    if n_duplicates and times is not None:
        order = order[np.lexsort((times[order], pair))]  # stable: at equal times the last row stays last
    del pair
    order = order[is_last] if n_duplicates else order
    indptr = np.concatenate([[0], np.cumsum(np.bincount(users[order], minlength=n_users))])
    del users
    values = _joined(files, sizes, "value", np.float32)[order]
    return PartColumns(indptr, items[order], values, None if times is None else times[order], n_duplicates)


def _times(files: Sequence[Path], sizes: Sequence[int], fractions: bool) -> IntArray:
    times = _joined(files, sizes, "time", np.int64)
    start = 0
    for file, size in zip(files, sizes, strict=True):
        if fractions and file.stem.endswith("-0"):
            own = times[start : start + size]
            own[own != MISSING_TIME] *= MICROSECONDS
        start += size
    return times


def _joined(files: Sequence[Path], sizes: Sequence[int], name: str, kind: type[Number]) -> npt.NDArray[Number]:
    whole = np.empty(sum(sizes), dtype=kind)
    start = 0
    for file, size in zip(files, sizes, strict=True):
        whole[start : start + size] = _column(file, name)
        start += size
    return whole


def _column(file: Path, name: str) -> npt.NDArray[np.generic]:
    with np.load(file, allow_pickle=False) as columns:
        return np.asarray(columns[name])
