"""Reads a Parquet file, or a folder of them, piece by piece: of all rows only their numbers stay in memory.

An id is stored once, when it is first seen, in a dictionary that grows from piece to piece; a row keeps its number.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote

import numpy as np
import numpy.typing as npt

from igcf.arrays import IntArray
from igcf.data.columns import (
    MICROSECONDS,
    Columns,
    encode_numbers,
    first_rows,
    id_column,
    id_order,
    refuse_unread_times,
    time_column,
    timed,
    used_words,
)
from igcf.data.interactions import MISSING_TIME
from igcf.data.layout import LogLayout, find_layout, frame_values, is_known_name
from igcf.data.table_files import SAMPLE_ROWS, check_readable, first_line
from igcf.errors import DataError
from igcf.tabular.columns import Column, Table, column_of, joined, text_column
from igcf.tabular.engine import TableFileError
from igcf.tabular.parquet import ParquetFile

PIECE_ROWS = 1 << 20
"""Number of rows whose text is in memory at a time."""


@dataclass(frozen=True, eq=False)
class CodedLog:
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
        self._numbers: dict[str, int] = {}

    def codes(self, ids: Column) -> npt.NDArray[np.int32]:
        """Return the number of each id."""
        words, rows = coded(ids)
        numbers = self._numbers
        return np.array([numbers.setdefault(word, len(numbers)) for word in words] or [0], dtype=np.int32)[rows]

    def sorted(self, codes: IntArray) -> tuple[tuple[str, ...], IntArray]:
        """The ids in the order of `encode_ids`; `codes` become rows of it, in place, and the dictionary is gone."""
        words = list(self._numbers)
        self._numbers = {}
        order = id_order(words)
        row_of = np.empty(len(order), dtype=np.int32)
        row_of[order] = np.arange(len(order), dtype=np.int32)
        ids = tuple(words[row] for row in order.tolist())
        del order, words
        for start in range(0, len(codes), PIECE_ROWS):
            codes[start : start + PIECE_ROWS] = row_of[codes[start : start + PIECE_ROWS]]
        return ids, codes


def coded(ids: Column) -> tuple[Sequence[str], IntArray]:
    """Return different ids, each of which occurs, and the row of each entry among them."""
    if not len(ids):
        return (), np.empty(0, dtype=np.int32)
    return encode_numbers(ids.entries) if ids.kind == "whole" else used_words(ids)


def read_table(path: Path, columns: Columns) -> CodedLog:
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
    return CodedLog(user_ids, item_ids, user_idx, item_idx, values, times.result(), layout)


def parquet_frame(path: Path, columns: Columns) -> tuple[Table, LogLayout]:
    """Read the columns of a log from a Parquet file or folder, and say which they are."""
    if not path.is_dir():
        check_readable(path, text=False)
    files = parquet_files(path)
    layout = find_layout(head(files[0], path, columns), columns, str(files[0]))
    frames = [frame for _, _, frame in pieces(files, [n_rows(file) for file in files], path, layout)]
    return one_below_the_other(frames), layout


def whole_table(files: Sequence[Path]) -> Table:
    """Read files with all of their columns."""
    return one_below_the_other([_read(_opened(file), {}, 0, None) for file in files])


def one_below_the_other(tables: Sequence[Table]) -> Table:
    """Put tables together; a column that one of them has not is missing in its rows."""
    names = list(dict.fromkeys(name for table in tables for name in table.names))

    def part(table: Table, name: str) -> Column:
        return table[name] if name in table.names else column_of(name, [None] * len(table))

    n_rows = sum(map(len, tables))
    return Table((joined(name, [part(table, name) for table in tables]) for name in names), n_rows)


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

    def add(self, rows: slice, column: Column | None, file: Path, offset: int) -> None:
        """Add the times of one piece; either all files have them or none."""
        if rows.start == 0 and column is not None:
            self._times = np.empty(self._n_rows, dtype=np.int64)
        if (column is None) != (self._times is None):
            found, others = (
                ("no", "the files before it have one") if column is None else ("a", "those before have none")
            )
            raise DataError(f"{file} has {found} column of times, {others}; give all files the same columns")
        if column is None or self._times is None:
            return
        times, has_fractions = timed(column)
        refuse_unread_times(column, times, str(file), offset)
        self._times[rows] = times.filled(MISSING_TIME)
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


def pieces(files: list[Path], sizes: list[int], root: Path, layout: LogLayout) -> Iterator[tuple[Path, int, Table]]:
    """Yield some rows of a file at a time, with the number of the row before the first."""
    for file, size in zip(files, sizes, strict=True):
        opened = _opened(file)
        for offset in range(0, max(size, 1), PIECE_ROWS):
            yield file, offset, _piece(opened, root, layout, offset)


def _piece(file: ParquetFile, root: Path, layout: LogLayout, offset: int) -> Table:
    """Return the columns of the layout, also those that a folder's name tells (`day=3/`)."""
    told = _told_by_folders(file.path, root)
    found = list(dict.fromkeys((*file.types, *told)))
    missing = [name for name in layout.wanted() if name not in found]
    if missing and missing != [layout.timestamp]:  # `Times` says where times are missing
        names = ", ".join(repr(name) for name in missing)
        raise DataError(f"{file.path} has no column {names}; found {', '.join(repr(name) for name in found)}")
    return _read(
        file, {name: text for name, text in told.items() if name in layout.wanted()}, offset, PIECE_ROWS, layout
    )


def head(file: Path, root: Path, columns: Columns) -> Table:
    """Return the first rows with all columns; one that a folder's name tells counts where its name says what it is."""
    asked = (columns.user, columns.item, columns.value, columns.timestamp, columns.kind)
    opened, told = _opened(file), _told_by_folders(file, root)
    counted = {
        name: text for name, text in told.items() if name in opened.types or name in asked or is_known_name(name)
    }
    return _read(opened, counted, 0, SAMPLE_ROWS)


def _read(
    file: ParquetFile, told: Mapping[str, str], offset: int, n: int | None, layout: LogLayout | None = None
) -> Table:
    """Read some rows; a column that the names of folders tell stands in the place of that of the file."""
    try:
        table = file.read(None if layout is None else layout.wanted(), offset, n)
    except (TableFileError, OSError) as error:
        raise _unreadable(file.path, error) from error
    for name, text in told.items():
        table = table.with_column(text_column(name, [text], np.zeros(len(table), dtype=np.int32)))
    return table


def _told_by_folders(file: Path, root: Path) -> dict[str, str]:
    folders = file.relative_to(root).parts[:-1] if root.is_dir() else ()
    return {name: unquote(text) for name, _, text in (each.partition("=") for each in folders if "=" in each)}


def n_rows(file: Path) -> int:
    """Count the rows of a file."""
    return _opened(file).n_rows


def _opened(file: Path) -> ParquetFile:
    try:
        return ParquetFile(file)
    except (TableFileError, OSError) as error:
        raise _unreadable(file, error) from error


def _unreadable(file: Path, error: Exception) -> DataError:
    return DataError(f"{file} cannot be read as Parquet: {first_line(error)}")


def checked_ids(column: Column, source: str, offset: int) -> Column:
    """Return ids as whole numbers or text; raises where one is missing or a fraction."""
    ids = id_column(column)
    if ids.n_missing:
        raise DataError(
            f"{source}: column {column.name!r} has {ids.n_missing} rows without an id, "
            f"first in row {first_rows(ids.is_missing)[0] + offset}"
        )
    if column.kind == "float" and ids.kind != "whole":
        row = first_rows(column.entries % 1 != 0)[0]
        raise DataError(
            f"{source}: column {column.name!r} holds fractions, first {column[row - 1]!r} in row {row + offset}; "
            "ids are whole numbers or text"
        )
    return ids
