"""Readers of tables: CSV and Parquet columns become an `Interactions`, without a Python loop over rows."""

import gzip
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import polars as pl

from igcf.arrays import BoolArray, IntArray
from igcf.data.interactions import MISSING_TIME, Interactions
from igcf.errors import DataError

GZIP_MAGIC = b"\x1f\x8b"
SEPARATORS = {",": "a comma", ";": "a semicolon", "\t": "a tab", "|": "a bar"}


@dataclass(frozen=True)
class Columns:
    """The names of the columns that are read; all others are ignored."""

    user: str = "user"
    item: str = "item"
    value: str = "value"
    timestamp: str | None = None
    """None: the column `timestamp` when there is one, otherwise no times."""

    def required(self) -> tuple[str, ...]:
        """The columns that must exist."""
        names = (self.user, self.item, self.value)
        return names if self.timestamp is None else (*names, self.timestamp)


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
    try:
        return pl.Series(name, part)
    except (TypeError, pl.exceptions.PolarsError):  # a mix of strings and numbers
        return pl.Series(name, [None if entry is None else str(entry) for entry in part])


def read_csv(path: Path, columns: Columns | None = None, *, separator: str = ",") -> Interactions:
    """Read a CSV file (also gzipped) with a header."""
    columns = columns or Columns()
    frame = csv_frame(path, columns, separator=separator)
    return interactions_from_frame(frame, columns, name=_log_name(path), source=str(path))


def read_parquet(path: Path, columns: Columns | None = None) -> Interactions:
    """Read a Parquet file, or a folder of them (also partitioned as `key=value/`)."""
    columns = columns or Columns()
    return interactions_from_frame(parquet_frame(path, columns), columns, name=_log_name(path), source=str(path))


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
    user_ids, user_idx = _encode(frame[columns.user], columns.user, source)
    item_ids, item_idx = _encode(frame[columns.item], columns.item, source)
    values = _checked_values(frame[columns.value], columns.value, source)
    time_column = time_column_of(frame, columns)
    timestamps = None if time_column is None else _checked_times(frame[time_column], time_column, source)
    log = Interactions(user_ids, item_ids, user_idx, item_idx, values, timestamps, name=name)
    keep = _latest(log)
    if keep is None:
        return log
    kept = log.subset(keep)
    return Interactions(
        user_ids, item_ids, kept.user_idx, kept.item_idx, kept.values, kept.timestamps,
        name=name, n_duplicates=len(log) - len(kept),
    )  # fmt: skip


def check_columns(frame: pl.DataFrame, columns: Columns, source: str) -> None:
    """Raise where a named column is missing."""
    missing = [name for name in columns.required() if name not in frame.columns]
    if missing:
        raise DataError(
            f"{source} has no column {_quoted(missing)}; found {_quoted(frame.columns)}; "
            "name the columns to use with user=, item=, value=, timestamp="
        )


def time_column_of(frame: pl.DataFrame, columns: Columns) -> str | None:
    """The column that holds the times."""
    return columns.timestamp or ("timestamp" if "timestamp" in frame.columns else None)


def id_text(column: pl.Series) -> pl.Series:
    """Ids as text: whole floats lose their `.0`, empty text becomes null."""
    return _without_fraction(column).cast(pl.String).replace("", None)


def number(column: pl.Series) -> pl.Series:
    """Values as float32; null where the text is no number."""
    values = column.cast(pl.Float32, strict=False)
    if column.dtype == pl.String and values.null_count() > column.null_count():  # perhaps only blanks around them
        values = column.str.strip_chars().cast(pl.Float32, strict=False)
    return values


def seconds(column: pl.Series) -> pl.Series:
    """Times as integers: numbers as they are, dates as seconds since 1970; microseconds where there are fractions."""
    if column.dtype == pl.String:
        whole = column.cast(pl.Int64, strict=False)
        if whole.null_count() == column.null_count():
            return whole
        numeric = column.cast(pl.Float64, strict=False)
        column = numeric if numeric.null_count() == column.null_count() else _dates(column)
    if column.dtype.is_temporal():
        column = column.cast(pl.Datetime("us")).cast(pl.Int64)
        return column if (column % 1_000_000 != 0).any() else column // 1_000_000
    if column.dtype.is_float() and (column % 1 != 0).any():
        column = (column * 1e6).round()
    return column.cast(pl.Int64, strict=False)


def _without_fraction(column: pl.Series) -> pl.Series:
    """Whole floats as integers; anything else as it is."""
    return column.cast(pl.Int64, strict=False) if column.dtype.is_float() and not (column % 1 != 0).any() else column


def _dates(text: pl.Series) -> pl.Series:
    try:
        return text.str.to_datetime(strict=False, time_unit="us")
    except pl.exceptions.PolarsError:  # no date format fits the first entries
        return pl.Series(text.name, [None] * len(text), dtype=pl.Datetime("us"))


def first_rows(mask: pl.Series | BoolArray, limit: int = 1) -> list[int]:
    """The first row numbers where `mask` holds; row 1 is the first one after the header."""
    rows = np.flatnonzero(mask.to_numpy() if isinstance(mask, pl.Series) else mask)[:limit]
    return [int(row) + 1 for row in rows]


def _encode(column: pl.Series, name: str, source: str) -> tuple[tuple[str, ...], IntArray]:
    """Ids in numeric order where all are whole numbers, otherwise in lexicographic order; and the row of each entry."""
    ids = _whole_numbers(column)
    if ids is None:
        ids = id_text(column)
    missing = ids.is_null()
    if missing.any():
        raise DataError(
            f"{source}: column {name!r} has {missing.sum()} rows without an id, first in row {first_rows(missing)[0]}"
        )
    if ids.dtype == pl.String:
        unique = ids.unique().sort()
        codes = ids.cast(pl.Enum(unique)).to_physical().cast(pl.Int32).to_numpy()
        return tuple(unique.to_list()), codes
    return _encode_numbers(ids.to_numpy())


def _encode_numbers(ids: npt.NDArray[np.int64]) -> tuple[tuple[str, ...], IntArray]:
    low, high = int(ids.min()), int(ids.max())
    if high - low > 10 * len(ids) + 1000:  # a table of the whole range would be mostly empty
        unique = pl.Series(ids).unique().sort().to_numpy()
        return tuple(map(str, unique.tolist())), np.searchsorted(unique, ids).astype(np.int32)
    present = np.zeros(high - low + 1, dtype=np.bool_)
    present[ids - low] = True
    row_of = np.cumsum(present, dtype=np.int32) - np.int32(1)
    return tuple(map(str, (np.flatnonzero(present) + low).tolist())), row_of[ids - low]


def _whole_numbers(column: pl.Series) -> pl.Series | None:
    """The ids as integers if every one is written as `str` would write it: `007` and `7` are different ids."""
    column = _without_fraction(column)
    if column.dtype.is_integer():
        return column.cast(pl.Int64, strict=False)
    if column.dtype != pl.String:
        return None
    numbers = column.cast(pl.Int64, strict=False)
    if numbers.null_count() > column.null_count():
        return None
    padded = column.str.starts_with("0") & (column.str.len_bytes() > 1)
    signed = column.str.starts_with("+") | column.str.starts_with("-0")
    return None if (padded | signed).any() else numbers


def _checked_values(column: pl.Series, name: str, source: str) -> npt.NDArray[np.float32]:
    values = number(column)
    bad = values.is_null() | ~values.is_finite().fill_null(False)
    if bad.any():
        row = first_rows(bad)[0]
        raise DataError(
            f"{source}: column {name!r} has {bad.sum()} rows that are not finite numbers, "
            f"first {column[row - 1]!r} in row {row}"
        )
    return values.to_numpy()


def _checked_times(column: pl.Series, name: str, source: str) -> npt.NDArray[np.int64] | None:
    if column.null_count() == len(column):
        return None
    times = seconds(column)
    bad = times.is_null() & column.is_not_null()
    if bad.any():
        row = first_rows(bad)[0]
        raise DataError(
            f"{source}: column {name!r} has {bad.sum()} rows that are neither numbers nor dates, "
            f"first {column[row - 1]!r} in row {row}"
        )
    return times.fill_null(MISSING_TIME).to_numpy()


def _latest(log: Interactions) -> BoolArray | None:
    """The rows that stay when a user's latest reaction to an item counts; None where there are no duplicates."""
    pair, order = _sorted_pairs(log)
    is_repeat = pair[1:] == pair[:-1]
    if not is_repeat.any():
        return None
    in_group = np.zeros(len(log), dtype=np.bool_)
    in_group[1:] |= is_repeat
    in_group[:-1] |= is_repeat
    pair, rows = pair[in_group], order[in_group]
    if log.timestamps is not None:
        rows = rows[np.lexsort((log.timestamps[rows], pair))]  # stable: at equal times the last row stays last
    keep = np.ones(len(log), dtype=np.bool_)
    keep[rows] = False
    keep[rows[np.append(pair[1:] != pair[:-1], True)]] = True
    return keep


def _sorted_pairs(log: Interactions) -> tuple[IntArray, IntArray]:
    """A number for each user and item, sorted, and the rows in that order."""
    pair = log.user_idx.astype(np.int64) * log.n_items + log.item_idx
    row_bits = len(log).bit_length()
    if (log.n_users * log.n_items).bit_length() + row_bits > 63:
        order = np.argsort(pair, kind="stable")
        return pair[order], order
    packed = np.sort((pair << row_bits) | np.arange(len(log)))  # many times faster than a stable argsort
    return packed >> row_bits, packed & ((1 << row_bits) - 1)


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


def _quoted(names: Sequence[str]) -> str:
    return ", ".join(repr(name) for name in names)


def _first_line(error: Exception) -> str:
    return str(error).strip().split("\n")[0] or type(error).__name__


def _log_name(path: Path) -> str:
    return path.name.split(".")[0]
