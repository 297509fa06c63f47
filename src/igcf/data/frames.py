"""Tables of reactions become an `Interactions`, without a Python loop over rows."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from igcf.arrays import BoolArray, IntArray
from igcf.data.columns import Columns, checked_times, encode_ids, time_column
from igcf.data.interactions import Interactions
from igcf.data.layout import LogLayout, find_layout, frame_values
from igcf.data.partitions import read_table
from igcf.data.table_files import SAMPLE_ROWS, check_readable, csv_frame
from igcf.errors import DataError
from igcf.tabular.columns import Table, column_of

ROW_BLOCK = 1 << 20
Number = TypeVar("Number", bound=np.generic)


def log_frame(
    users: Sequence[object] | npt.NDArray[np.generic],
    items: Sequence[object] | npt.NDArray[np.generic],
    values: Sequence[float] | npt.NDArray[np.generic],
    timestamps: Sequence[int] | npt.NDArray[np.generic] | None = None,
) -> Table:
    """Make a table with the default column names from parallel sequences."""
    parts: dict[str, Sequence[object] | npt.NDArray[np.generic]] = {"user": users, "item": items, "value": values}
    if timestamps is not None:
        parts["timestamp"] = timestamps
    lengths = {name: len(part) for name, part in parts.items()}
    if len(set(lengths.values())) > 1:
        raise DataError(f"the columns differ in length: {lengths}; they must have one entry per reaction")
    return Table(column_of(name, part) for name, part in parts.items())


def read_csv(path: Path, columns: Columns | None = None, *, separator: str | None = None) -> Interactions:
    """Read a text file of columns (also gzipped); columns, separator and header are found where they are not given."""
    columns = columns or Columns()
    frame, layout = csv_frame(path, columns, separator=separator)
    log = interactions_from_frame(frame, layout, columns.kinds, name=_log_name(path), source=str(path))
    return replace(log, kinds=dict(columns.kinds), layout=layout)


def read_parquet(path: Path, columns: Columns | None = None) -> Interactions:
    """Read a Parquet file, or a folder of them (also partitioned as `key=value/`), some rows at a time."""
    columns = columns or Columns()
    if not path.is_dir():
        check_readable(path, text=False)
    table = read_table(path, columns)
    return _without_duplicates(
        Interactions(
            table.user_ids, table.item_ids, table.user_idx, table.item_idx, table.values, table.timestamps,
            name=_log_name(path), kinds=dict(columns.kinds), layout=table.layout,
        )
    )  # fmt: skip


def read_frame(frame: object, columns: Columns, *, name: str = "log") -> Interactions:
    """Read a polars or pandas frame; neither library is needed."""
    table = as_table(frame)
    layout = find_layout(table.head(SAMPLE_ROWS), columns, "the frame")
    log = interactions_from_frame(table, layout, columns.kinds, name=name, source="the frame")
    return replace(log, kinds=dict(columns.kinds), layout=layout)


def as_table(frame: Any) -> Table:
    """Return a table of anything that has named columns: polars (also lazy), pandas, a mapping of columns."""
    if isinstance(frame, Table):
        return frame
    frame = frame.collect() if hasattr(frame, "collect") else frame
    names = list(frame) if isinstance(frame, Mapping) else getattr(frame, "columns", None)
    if names is None:
        raise DataError(f"expected a pandas or polars frame, got a {type(frame).__name__}")
    return Table(column_of(str(name), _entries(frame[name])) for name in names)


def _entries(column: Any) -> Sequence[object] | npt.NDArray[np.generic]:
    """Return the entries of a column of a frame; what pandas has for a missing one becomes None."""
    if hasattr(column, "null_count") and (column.null_count() or not _is_of_numbers(column)):  # polars
        return list(column.to_list())
    if not hasattr(column, "to_numpy"):
        return list(column)
    entries = column.to_numpy()
    if entries.dtype != object:
        return entries  # type: ignore[no-any-return]
    is_missing = column.isna().to_numpy() if hasattr(column, "isna") else np.zeros(len(entries), dtype=np.bool_)
    return [None if missing else entry for entry, missing in zip(entries.tolist(), is_missing.tolist(), strict=True)]


def _is_of_numbers(column: Any) -> bool:
    return bool(column.dtype.is_numeric() or column.dtype.is_temporal() or str(column.dtype) == "Boolean")


def interactions_from_frame(
    frame: Table,
    layout: LogLayout | None = None,
    kinds: Mapping[str, float] | None = None,
    *,
    name: str = "log",
    source: str = "the log",
) -> Interactions:
    """Check the columns, map the ids to rows and take the latest of several reactions of a user to an item.

    Args:
        frame: one row per reaction.
        layout: which columns to read; None: `user`, `item`, `value` and, where there is one, `timestamp`.
        kinds: values of the kinds of feedback, where the layout has a column of them.
        name: name of the log.
        source: where the rows come from; error messages begin with it.
    """
    if layout is None:
        layout = LogLayout("user", "item", "value", "timestamp" if "timestamp" in frame.names else None)
    if not len(frame):
        raise DataError(f"{source} has no rows; expected one row per reaction")
    user_ids, user_idx = encode_ids(frame[layout.user], source)
    item_ids, item_idx = encode_ids(frame[layout.item], source)
    values = frame_values(frame, layout, kinds or {}, source)
    times = time_column(frame, layout.timestamp)
    timestamps = None if times is None else checked_times(times, source)
    return _without_duplicates(Interactions(user_ids, item_ids, user_idx, item_idx, values, timestamps, name=name))


def _without_duplicates(log: Interactions) -> Interactions:
    """Return the latest reaction of each user to each item; the columns of `log` are overwritten."""
    is_latest = _latest(log)
    if is_latest is None:
        return log
    return replace(
        log,
        user_idx=_filtered(log.user_idx, is_latest),
        item_idx=_filtered(log.item_idx, is_latest),
        values=_filtered(log.values, is_latest),
        timestamps=None if log.timestamps is None else _filtered(log.timestamps, is_latest),
        n_duplicates=int(len(log) - is_latest.sum()),
    )


def _filtered(column: npt.NDArray[Number], mask: BoolArray) -> npt.NDArray[Number]:
    """Move the entries where `mask` holds to the front, block by block: a large log has no room for a second column."""
    end = 0
    for start in range(0, len(column), ROW_BLOCK):
        block = column[start : start + ROW_BLOCK][mask[start : start + ROW_BLOCK]]
        column[end : end + len(block)] = block
        end += len(block)
    return column[:end] if 2 * end > len(column) else column[:end].copy()


def _latest(log: Interactions) -> BoolArray | None:
    """Return which rows are the latest reaction of a user to an item; None where there are no duplicates."""
    pair, rows = _repeated_pairs(log)
    if len(rows) == 0:
        return None
    if log.timestamps is not None:
        rows = rows[np.lexsort((log.timestamps[rows], pair))]  # stable: at equal times the last row stays last
    is_latest = np.ones(len(log), dtype=np.bool_)
    is_latest[rows] = False
    is_latest[rows[np.append(pair[1:] != pair[:-1], True)]] = True
    return is_latest


def _repeated_pairs(log: Interactions) -> tuple[IntArray, IntArray]:
    """Return the pairs of user and item that occur several times as sorted numbers, and their rows."""
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
    """Return which of the sorted numbers equal a neighbour when their last `bits` are ignored."""
    result = np.zeros(len(numbers), dtype=np.bool_)
    for start in range(0, len(numbers), ROW_BLOCK):
        block = numbers[start : start + ROW_BLOCK + 1] >> bits
        is_repeat = block[1:] == block[:-1]
        result[start : start + len(is_repeat)] |= is_repeat
        result[start + 1 : start + 1 + len(is_repeat)] |= is_repeat
    return result


def _log_name(path: Path) -> str:
    return path.name.split(".")[0]
