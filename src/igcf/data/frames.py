"""Readers of tables: CSV and Parquet columns become an `Interactions`, without a Python loop over rows."""

import gzip
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

import numpy as np
import numpy.typing as npt
import polars as pl

from igcf.arrays import BoolArray, IntArray
from igcf.data.columns import Columns, check_columns, checked_times, checked_values, encode_ids, time_column
from igcf.data.interactions import Interactions
from igcf.errors import DataError

ROW_BLOCK = 1 << 20
Number = TypeVar("Number", bound=np.generic)
GZIP_MAGIC = b"\x1f\x8b"
SEPARATORS = {",": "a comma", ";": "a semicolon", "\t": "a tab", "|": "a bar"}


def log_frame(
    users: Sequence[object] | npt.NDArray[np.generic],
    items: Sequence[object] | npt.NDArray[np.generic],
    values: Sequence[float] | npt.NDArray[np.generic],
    timestamps: Sequence[int] | npt.NDArray[np.generic] | None = None,
) -> pl.DataFrame:
    """A frame with the default column names from parallel sequences."""
    parts: dict[str, Sequence[object] | npt.NDArray[np.generic]] = {"user": users, "item": items, "value": values}
    if timestamps is not None:
        parts["timestamp"] = timestamps
    lengths = {name: len(part) for name, part in parts.items()}
    if len(set(lengths.values())) > 1:
        raise DataError(f"the columns differ in length: {lengths}; they must have one entry per reaction")
    return pl.DataFrame([_series(name, part) for name, part in parts.items()])


def _series(name: str, part: Sequence[object] | npt.NDArray[np.generic]) -> pl.Series:
    entries = part.tolist() if isinstance(part, np.ndarray) and part.dtype == object else part
    try:
        return pl.Series(name, entries)
    except (TypeError, pl.exceptions.PolarsError):  # a mix of strings and numbers
        return pl.Series(name, [None if entry is None else str(entry) for entry in entries])


def read_csv(path: Path, columns: Columns | None = None, *, separator: str = ",") -> Interactions:
    """Read a CSV file (also gzipped) with a header."""
    columns = columns or Columns()
    frame = csv_frame(path, columns, separator=separator)
    return interactions_from_frame(frame, columns, name=_log_name(path), source=str(path))


def read_parquet(path: Path, columns: Columns | None = None) -> Interactions:
    """Read a Parquet file, or a folder of them (also partitioned as `key=value/`), some rows at a time."""
    from igcf.data.partitions import read_table

    if not path.is_dir():
        _check_readable(path, text=False)
    table = read_table(path, columns or Columns())
    return _without_duplicates(
        Interactions(
            table.user_ids, table.item_ids, table.user_idx, table.item_idx, table.values, table.timestamps,
            name=_log_name(path),
        )
    )  # fmt: skip


def csv_frame(path: Path, columns: Columns, *, separator: str = ",") -> pl.DataFrame:
    """The named columns of a CSV file, as text; all columns but no rows where a named one is missing.

    As text an id such as `007` keeps its zeros, and a bad value can be shown as it stands.
    """
    _check_readable(path)
    try:
        header = pl.read_csv(path, separator=separator, infer_schema=False, n_rows=0)
        _check_separator(path, header.columns, separator)
        if not set(columns.required()) <= set(header.columns):
            return header
        wanted = [name for name in header.columns if name in (*columns.required(), "timestamp")]
        return pl.read_csv(path, separator=separator, infer_schema=False, columns=wanted)
    except (pl.exceptions.PolarsError, OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path} cannot be read as CSV: {_first_line(error)}") from error


def parquet_frame(path: Path, columns: Columns) -> pl.DataFrame:
    """The named columns of a Parquet file or folder; all columns but no rows where a named one is missing."""
    if path.is_dir():
        if not any(path.rglob("*.parquet")):
            raise DataError(f"{path} holds no .parquet file")
    else:
        _check_readable(path, text=False)
    try:
        scan = pl.scan_parquet(path / "**/*.parquet" if path.is_dir() else path, hive_partitioning=path.is_dir())
        found = scan.collect_schema().names()
        if not set(columns.required()) <= set(found):
            return scan.head(0).collect()  # enough to say which columns there are
        return scan.select([name for name in found if name in (*columns.required(), "timestamp")]).collect()
    except (pl.exceptions.PolarsError, OSError) as error:
        raise DataError(f"{path} cannot be read as Parquet: {_first_line(error)}") from error


def interactions_from_frame(
    frame: pl.DataFrame, columns: Columns | None = None, *, name: str = "log", source: str = "the log"
) -> Interactions:
    """Check the columns, map the ids to rows and keep the latest of several reactions of a user to an item.

    Args:
        frame: one row per reaction.
        columns: which columns to read.
        name: name of the log.
        source: where the rows come from; error messages begin with it.
    """
    columns = columns or Columns()
    check_columns(frame, columns, source)
    if frame.is_empty():
        raise DataError(f"{source} has no rows; expected one row per reaction")
    user_ids, user_idx = encode_ids(frame[columns.user], source)
    item_ids, item_idx = encode_ids(frame[columns.item], source)
    values = checked_values(frame[columns.value], source)
    times = time_column(frame, columns)
    timestamps = None if times is None else checked_times(times, source)
    return _without_duplicates(Interactions(user_ids, item_ids, user_idx, item_idx, values, timestamps, name=name))


def _without_duplicates(log: Interactions) -> Interactions:
    """The latest reaction of each user to each item; the columns of `log` are overwritten."""
    keep = _latest(log)
    if keep is None:
        return log
    return replace(
        log,
        user_idx=_kept(log.user_idx, keep),
        item_idx=_kept(log.item_idx, keep),
        values=_kept(log.values, keep),
        timestamps=None if log.timestamps is None else _kept(log.timestamps, keep),
        n_duplicates=int(len(log) - keep.sum()),
    )


def _kept(column: npt.NDArray[Number], keep: BoolArray) -> npt.NDArray[Number]:
    """The entries to keep, moved to the front block by block: a second column would not fit beside a large log."""
    end = 0
    for start in range(0, len(column), ROW_BLOCK):
        block = column[start : start + ROW_BLOCK][keep[start : start + ROW_BLOCK]]
        column[end : end + len(block)] = block
        end += len(block)
    return column[:end] if 2 * end > len(column) else column[:end].copy()


def _latest(log: Interactions) -> BoolArray | None:
    """The rows that stay when a user's latest reaction to an item counts; None where there are no duplicates."""
    pair, rows = _repeated_pairs(log)
    if len(rows) == 0:
        return None
    if log.timestamps is not None:
        rows = rows[np.lexsort((log.timestamps[rows], pair))]  # stable: at equal times the last row stays last
    keep = np.ones(len(log), dtype=np.bool_)
    keep[rows] = False
    keep[rows[np.append(pair[1:] != pair[:-1], True)]] = True
    return keep


def _repeated_pairs(log: Interactions) -> tuple[IntArray, IntArray]:
    """The rows of users and items that occur several times: a number for each pair, sorted, and the rows."""
    pair = log.user_idx.astype(np.int64)
    pair *= log.n_items
    pair += log.item_idx
    row_bits = len(log).bit_length()
    if (log.n_users * log.n_items).bit_length() + row_bits > 63:
        order = np.argsort(pair, kind="stable")
        pair = pair[order]
        in_group = _beside_equal(pair, 0)
        return pair[in_group], order[in_group]
    # in place and many times faster than a stable argsort: the row in the last bits
    pair <<= row_bits
    for start in range(0, len(pair), ROW_BLOCK):
        pair[start : start + ROW_BLOCK] += np.arange(start, min(start + ROW_BLOCK, len(pair)))
    pair.sort()
    found = pair[_beside_equal(pair, row_bits)]
    return found >> row_bits, found & ((1 << row_bits) - 1)


def _beside_equal(numbers: IntArray, bits: int) -> BoolArray:
    """Which of the sorted numbers equal one beside them, without their last `bits`."""
    result = np.zeros(len(numbers), dtype=np.bool_)
    for start in range(0, len(numbers), ROW_BLOCK):
        block = numbers[start : start + ROW_BLOCK + 1] >> bits
        is_repeat = block[1:] == block[:-1]
        result[start : start + len(is_repeat)] |= is_repeat
        result[start + 1 : start + 1 + len(is_repeat)] |= is_repeat
    return result


def _check_readable(path: Path, *, text: bool = True) -> None:
    if not path.exists():
        raise DataError(f"no file at {path}")
    if path.is_dir():
        raise DataError(f"{path} is a folder; expected a file")
    try:
        with path.open("rb") as file:
            head = file.read(4096)
        if text and head[:2] == GZIP_MAGIC:
            with gzip.open(path) as unpacked:
                head = unpacked.read(4096)
    except (OSError, EOFError) as error:
        raise DataError(f"{path} cannot be read: {_first_line(error)}") from error
    if not head.strip():
        raise DataError(f"{path} is empty; expected a header and one row per reaction")
    if text and b"\0" in head:
        raise DataError(f"{path} is not a text file; expected CSV, or a name that ends in .parquet")


def _check_separator(path: Path, header: list[str], separator: str) -> None:
    other = next((sign for sign in SEPARATORS if sign in header[0] and sign != separator), None)
    if len(header) == 1 and other is not None:
        raise DataError(
            f"{path} has one column, {header[0]!r}, when split at {separator!r}; "
            f"the header holds {SEPARATORS[other]}, so try separator={other!r}"
        )


def _first_line(error: Exception) -> str:
    return str(error).strip().split("\n")[0] or type(error).__name__


def _log_name(path: Path) -> str:
    return path.name.split(".")[0]
