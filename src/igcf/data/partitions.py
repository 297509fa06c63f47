"""Reads a Parquet file, or a folder of them, piece by piece: of all rows only their numbers stay in memory.

An id is stored once, when it is first seen, in a dictionary that grows from piece to piece; a row keeps its number.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote

import numpy as np
import numpy.typing as npt
import polars as pl

from igcf.arrays import IntArray
from igcf.data.columns import (
    Columns,
    first_rows,
    id_text,
    number,
    refuse_fractions,
    refuse_nested,
    refuse_unread_times,
    seconds,
    time_column,
    timed,
    whole_numbers,
)
from igcf.data.interactions import MISSING_TIME
from igcf.data.layout import LogLayout, find_layout, frame_values, is_known_name
from igcf.data.table_files import SAMPLE_ROWS, check_readable, first_line
from igcf.errors import DataError

PIECE_ROWS = 1 << 20
"""Number of rows whose text is in memory at a time."""
MICROSECONDS = 1_000_000


@dataclass(frozen=True, eq=False)
class Table:
    """Columns of a log as numbers."""

    user_ids: tuple[str, ...]
    item_ids: tuple[str, ...]
    user_idx: IntArray
    item_idx: IntArray
    values: npt.NDArray[np.float32]
    timestamps: npt.NDArray[np.int64] | None
    layout: LogLayout


class Dictionary:
    """Numbers for ids, in the order in which they first appear."""

    def __init__(self) -> None:
        self._categories = pl.Categories.random()
        # polars forgets what no column uses
        self._holder: pl.Series | None = pl.Series([], dtype=pl.Categorical(self._categories))

    def codes(self, ids: pl.Series) -> npt.NDArray[np.int32]:
        """Return the number of each id."""
        return ids.cast(pl.Categorical(self._categories)).to_physical().cast(pl.Int32).to_numpy()

    def sorted(self, codes: IntArray) -> tuple[tuple[str, ...], IntArray]:
        """The ids in the order of `encode_ids`; `codes` become rows of it, in place, and the dictionary is gone."""
        text = self._categories.to_series()
        self._holder = None
        numbers = whole_numbers(text)
        order = (text if numbers is None else numbers).arg_sort()
        text = text.gather(order)
        row_of = np.empty(len(order), dtype=np.int32)
        row_of[order.to_numpy()] = np.arange(len(order), dtype=np.int32)
        del order, numbers
        ids = tuple(text.to_list())
        for start in range(0, len(codes), PIECE_ROWS):
            codes[start : start + PIECE_ROWS] = row_of[codes[start : start + PIECE_ROWS]]
        return ids, codes


def read_table(path: Path, columns: Columns) -> Table:
    """Read all pieces; raises where one cannot be used, naming its file and row."""
    files = parquet_files(path)
    sizes = [n_rows(file) for file in files]
    n = sum(sizes)
    layout = find_layout(head(files[0], path, columns), columns, str(files[0]))
    if n == 0:
        raise DataError(f"{path} has no rows; expected one row per reaction")
    users, items, times = Dictionary(), Dictionary(), Times(n)
    user_idx, item_idx = np.empty(n, dtype=np.int32), np.empty(n, dtype=np.int32)
    values = np.empty(n, dtype=np.float32)
    place = 0
    for file, offset, frame in pieces(files, sizes, path, layout):
        rows = slice(place, place + len(frame))
        user_idx[rows] = users.codes(checked_ids(frame[layout.user], str(file), offset))
        item_idx[rows] = items.codes(checked_ids(frame[layout.item], str(file), offset))
        values[rows] = frame_values(frame, layout, columns.kinds, str(file), first_row=offset)
        times.add(rows, time_column(frame, layout.timestamp), file, offset)
        place = rows.stop
    user_ids, user_idx = users.sorted(user_idx)  # type: ignore[assignment]
    item_ids, item_idx = items.sorted(item_idx)  # type: ignore[assignment]
    return Table(user_ids, item_ids, user_idx, item_idx, values, times.result(), layout)


def parquet_frame(path: Path, columns: Columns) -> tuple[pl.DataFrame, LogLayout]:
    """Read the columns of a log from a Parquet file or folder, and say which they are."""
    if not path.is_dir():
        check_readable(path, text=False)
    files = parquet_files(path)
    layout = find_layout(head(files[0], path, columns), columns, str(files[0]))
    found = list(pieces(files, [n_rows(file) for file in files], path, layout))
    schemas = [frame.schema for _, _, frame in found]
    differing = {name for name in layout.wanted() if len({schema.get(name) for schema in schemas}) > 1}
    for file, offset, frame in found:
        for name in (layout.user, layout.item):
            refuse_fractions(frame[name], str(file), offset)
        if layout.timestamp is not None:
            _refuse_other_times(file, layout.timestamp in frame.columns, layout.timestamp in schemas[0])
    return pl.concat(
        _read_columns(frame, layout, differing, str(file), offset) for file, offset, frame in found
    ), layout


def _read_columns(
    frame: pl.DataFrame, layout: LogLayout, names: Collection[str], source: str, offset: int
) -> pl.DataFrame:
    """Return a piece with some columns as the log is read: ids and kinds as text, values and times as numbers."""
    read = []
    for column in frame.select(name for name in layout.wanted() if name in frame.columns):
        if column.name not in names:
            read.append(column)
        elif column.name == layout.value:
            read.append(number(column))
        elif column.name == layout.timestamp:
            times = seconds(column)
            refuse_unread_times(column, times, source, offset)
            read.append(times)
        else:
            read.append(id_text(column))
    return pl.DataFrame(read)


def parquet_files(path: Path) -> list[Path]:
    """Return the file itself, or all `.parquet` files below a folder in the order of their names."""
    if not path.is_dir():
        return [path]
    files = sorted(file for file in path.rglob("*.parquet") if file.is_file())
    if not files:
        raise DataError(f"{path} holds no .parquet file")
    return files


class Times:
    """Column of times that grows piece by piece: seconds, or microseconds as soon as one piece has fractions."""

    def __init__(self, n_rows: int) -> None:
        self._n_rows = n_rows
        self._times: npt.NDArray[np.int64] | None = None
        self._whole: list[slice] = []
        self._fractions = False

    def add(self, rows: slice, column: pl.Series | None, file: Path, offset: int) -> None:
        """Add the times of one piece; either all files have them or none."""
        if rows.start == 0 and column is not None:
            self._times = np.empty(self._n_rows, dtype=np.int64)
        _refuse_other_times(file, column is not None, self._times is not None)
        if column is None or self._times is None:
            return
        times, has_fractions = timed(column)
        refuse_unread_times(column, times, str(file), offset)
        self._times[rows] = times.fill_null(MISSING_TIME).to_numpy()
        self._fractions |= has_fractions
        if not has_fractions:
            self._whole.append(rows)

    def result(self) -> npt.NDArray[np.int64] | None:
        """Return all times in one unit; None where no row has one."""
        if self._times is None or (self._times == MISSING_TIME).all():
            return None
        for rows in self._whole if self._fractions else ():
            part = self._times[rows]
            part[part != MISSING_TIME] *= MICROSECONDS
        return self._times


def _refuse_other_times(file: Path, has_times: bool, had_times: bool) -> None:
    """Raise where a file has times and those before it have none, or the other way round."""
    if has_times != had_times:
        found, others = ("a", "those before have none") if has_times else ("no", "the files before it have one")
        raise DataError(f"{file} has {found} column of times, {others}; give all files the same columns")


def pieces(
    files: list[Path], sizes: list[int], root: Path, layout: LogLayout
) -> Iterator[tuple[Path, int, pl.DataFrame]]:
    """Yield some rows of a file at a time, with the number of the row before the first."""
    for file, size in zip(files, sizes, strict=True):
        for offset in range(0, max(size, 1), PIECE_ROWS):
            yield file, offset, _piece(file, root, layout, offset)


def _piece(file: Path, root: Path, layout: LogLayout, offset: int) -> pl.DataFrame:
    """Return the columns of the layout, also those that a folder's name tells (`day=3/`)."""
    try:
        scan = _scan(file, root)
        found = scan.collect_schema().names()
        missing = [name for name in layout.wanted() if name not in found]
        if missing and missing != [layout.timestamp]:  # `Times` says where times are missing
            names = ", ".join(repr(name) for name in missing)
            raise DataError(f"{file} has no column {names}; found {', '.join(repr(name) for name in found)}")
        present = [name for name in found if name in layout.wanted()]
        piece = scan.select(present).slice(offset, PIECE_ROWS).collect()
        refuse_nested(piece, present, str(file))
        return piece
    except (pl.exceptions.PolarsError, OSError) as error:
        raise _unreadable(file, error) from error


def head(file: Path, root: Path, columns: Columns) -> pl.DataFrame:
    """Return the first rows with all columns; one that a folder's name tells counts where its name says what it is."""
    asked = (columns.user, columns.item, columns.value, columns.timestamp, columns.kind)
    try:
        head = _scan(file, root).head(SAMPLE_ROWS).collect()
        own = pl.scan_parquet(file, hive_partitioning=False, glob=False).collect_schema().names()
        return head.select([name for name in head.columns if name in own or name in asked or is_known_name(name)])
    except (pl.exceptions.PolarsError, OSError) as error:
        raise _unreadable(file, error) from error


def _scan(file: Path, root: Path) -> pl.LazyFrame:
    folders = file.relative_to(root).parts[:-1] if root.is_dir() else ()
    told = dict(folder.split("=", 1) for folder in folders if "=" in folder)
    columns = [pl.lit(unquote(text)).alias(name) for name, text in told.items()]
    return pl.scan_parquet(file, hive_partitioning=False, glob=False).with_columns(columns)


def n_rows(file: Path) -> int:
    """Count the rows of a file."""
    try:
        return int(pl.scan_parquet(file, hive_partitioning=False, glob=False).select(pl.len()).collect().item())
    except (pl.exceptions.PolarsError, OSError) as error:
        raise _unreadable(file, error) from error


def _unreadable(file: Path, error: Exception) -> DataError:
    return DataError(f"{file} cannot be read as Parquet: {first_line(error)}")


def checked_ids(column: pl.Series, source: str, offset: int) -> pl.Series:
    """Return ids as text; raises where one is missing or a fraction."""
    ids = id_text(column)
    missing = ids.is_null()
    if missing.any():
        raise DataError(
            f"{source}: column {column.name!r} has {missing.sum()} rows without an id, "
            f"first in row {first_rows(missing)[0] + offset}"
        )
    refuse_fractions(column, source, offset)
    return ids
