"""Columns of a table become ids, values and times; what cannot is refused with its row."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import polars as pl

from igcf.arrays import BoolArray, IntArray
from igcf.data.interactions import MISSING_TIME
from igcf.errors import DataError, quoted


@dataclass(frozen=True)
class Columns:
    """How the columns of a log are to be read; a name that is None is found in the table (`igcf.data.layout`)."""

    user: str | None = None
    item: str | None = None
    value: str | None = None
    timestamp: str | None = None
    kind: str | None = None
    """Column of the kinds of feedback (view, like, purchase ...)."""
    implicit: bool = False
    """Every reaction counts as 1, whatever its value."""
    kinds: Mapping[str, float] = field(default_factory=dict)
    """Value of each kind of feedback, for a log that has a column of them."""


def time_column(frame: pl.DataFrame, name: str | None) -> pl.Series | None:
    """Return the column that holds the times, NaN as null; None where there is none."""
    if name is None or name not in frame.columns:
        return None
    return frame[name].fill_nan(None) if frame[name].dtype.is_float() else frame[name]


def id_text(column: pl.Series) -> pl.Series:
    """Return ids as text: whole floats lose their `.0`, empty text becomes null."""
    return cast_or_null(_without_fraction(column), pl.String()).replace("", None)


def number(column: pl.Series) -> pl.Series:
    """Return values as float32; null where the text is no number."""
    column = _categories_as_text(column)
    values = cast_or_null(column, pl.Float32())
    if column.dtype == pl.String and values.null_count() > column.null_count():  # perhaps only blanks around them
        values = column.str.strip_chars().cast(pl.Float32, strict=False)
    return values


def seconds(column: pl.Series) -> pl.Series:
    """Return times as integers: numbers as they are, dates as seconds since 1970 (microseconds with fractions)."""
    return timed(column)[0]


def timed(column: pl.Series) -> tuple[pl.Series, bool]:
    """Return times as integers, as `seconds` does, and whether there are fractions."""
    column = _categories_as_text(column)
    if column.dtype == pl.String:
        whole = column.cast(pl.Int64, strict=False)
        if whole.null_count() == column.null_count():
            return whole, False
        numbers, dates = column.cast(pl.Float64, strict=False), _dates(column)
        column = numbers if numbers.null_count() <= dates.null_count() else dates
    if column.dtype.is_temporal():
        column = cast_or_null(column, pl.Datetime("us")).cast(pl.Int64)
        return (column, True) if (column % 1_000_000 != 0).any() else (column // 1_000_000, False)
    whole = _without_fraction(column)
    if whole.dtype.is_float():
        return (whole * 1e6).round().cast(pl.Int64, strict=False), True
    return cast_or_null(whole, pl.Int64()), False


def _without_fraction(column: pl.Series) -> pl.Series:
    """Return whole floats as integers and NaN as null; anything else as it is."""
    if not column.dtype.is_float():
        return column
    column = column.fill_nan(None)
    return column if (column % 1 != 0).any() else column.cast(pl.Int64, strict=False)


def _dates(text: pl.Series) -> pl.Series:
    try:
        return text.str.to_datetime(strict=False, time_unit="us")
    except pl.exceptions.PolarsError:  # no date format fits the first entries
        return _nulls(text, pl.Datetime("us"))


def cast_or_null(column: pl.Series, dtype: pl.DataType) -> pl.Series:
    """Return a column as another type, null where an entry is none of it: lists and times of day are no numbers."""
    if column.dtype.is_nested():
        return _nulls(column, dtype)
    try:
        return column.cast(dtype, strict=False)
    except pl.exceptions.PolarsError:  # there is no such cast
        return _nulls(column, dtype)


def _nulls(column: pl.Series, dtype: pl.DataType) -> pl.Series:
    return pl.Series(column.name, [None], dtype=dtype).new_from_index(0, len(column))


def _categories_as_text(column: pl.Series) -> pl.Series:
    return column.cast(pl.String) if column.dtype in (pl.Categorical, pl.Enum) else column


def refuse_nested(frame: pl.DataFrame, names: Iterable[str], source: str) -> None:
    """Raise where one of these columns holds lists or structures, which are neither ids nor values nor times."""
    for name in names:
        if name in frame.columns and frame[name].dtype.is_nested():
            raise DataError(
                f"{source}: column {name!r} is of type {frame[name].dtype}; expected text, numbers or times; "
                "name another column with user=, item=, value=, timestamp="
            )


def refuse_fractions(column: pl.Series, source: str, offset: int = 0) -> None:
    """Raise where a number of a column of ids is not whole; `offset` rows of the source come before."""
    if column.dtype.is_float() and (is_fraction := column.fill_nan(None) % 1 != 0).any():
        row = first_rows(is_fraction.fill_null(False))[0]
        raise DataError(
            f"{source}: column {column.name!r} holds fractions, first {column[row - 1]!r} in row {row + offset}; "
            "ids are whole numbers or text"
        )


def first_rows(mask: pl.Series | BoolArray, limit: int = 1) -> list[int]:
    """Return the first row numbers where `mask` holds; row 1 is the first one after the header."""
    rows = np.flatnonzero(mask.to_numpy() if isinstance(mask, pl.Series) else mask)[:limit]
    return [int(row) + 1 for row in rows]


def encode_ids(column: pl.Series, source: str) -> tuple[tuple[str, ...], IntArray]:
    """Return the ids, in numeric order where all are whole numbers, otherwise as text, and the row of each entry."""
    ids = whole_numbers(column)
    if ids is None:
        ids = id_text(column)
    missing = ids.is_null()
    if missing.any():
        raise DataError(
            f"{source}: column {column.name!r} has {missing.sum()} rows without an id, "
            f"first in row {first_rows(missing)[0]}"
        )
    if ids.dtype == pl.String:
        unique = ids.unique().sort()
        codes = ids.cast(pl.Enum(unique)).to_physical().cast(pl.Int32).to_numpy(writable=True)
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


def whole_numbers(column: pl.Series) -> pl.Series | None:
    """Return the ids as integers if every one is written as `str` would write it: `007` and `7` are different ids."""
    column = _without_fraction(column)
    if not column.dtype.is_integer() and column.dtype != pl.String:
        return None
    numbers = column.cast(pl.Int64, strict=False)
    if numbers.null_count() > column.null_count():
        return None
    if column.dtype != pl.String:
        return numbers
    padded = column.str.starts_with("0") & (column.str.len_bytes() > 1)
    signed = column.str.starts_with("+") | column.str.starts_with("-0")
    return None if (padded | signed).any() else numbers


def checked_values(column: pl.Series, source: str, *, first_row: int = 0) -> npt.NDArray[np.float32]:
    """Return the values; raises where one is no finite number; `first_row` rows of the source come before these."""
    values = number(column)
    bad = values.is_null() | ~values.is_finite().fill_null(False)
    if bad.any():
        row = first_rows(bad)[0]
        raise DataError(
            f"{source}: column {column.name!r} has {bad.sum()} rows that are not finite numbers, "
            f"first {quoted(column[row - 1])} in row {row + first_row}"
        )
    return values.to_numpy(writable=True)


def values_of_kinds(
    column: pl.Series, kinds: Mapping[str, float], source: str, *, first_row: int = 0
) -> npt.NDArray[np.float32]:
    """Return the value of each kind of feedback; raises where a kind has none."""
    text = column.cast(pl.String).str.strip_chars()
    values = text.replace_strict(list(kinds), list(kinds.values()), default=None, return_dtype=pl.Float32)
    unknown = values.is_null()
    if unknown.any():
        row = first_rows(unknown)[0]
        raise DataError(
            f"{source}: column {column.name!r} has {unknown.sum()} rows of a kind without a value, first "
            f"{quoted(column[row - 1])} in row {row + first_row}; known kinds are {', '.join(kinds)}, add it to kinds="
        )
    return values.to_numpy(writable=True)


def checked_times(column: pl.Series, source: str) -> npt.NDArray[np.int64] | None:
    """Return the times, `MISSING_TIME` where there is none; None where no row has one; raise where one is wrong."""
    if column.null_count() == len(column):
        return None
    times = seconds(column)
    refuse_unread_times(column, times, source)
    return times.fill_null(MISSING_TIME).to_numpy(writable=True)


def refuse_unread_times(column: pl.Series, times: pl.Series, source: str, offset: int = 0) -> None:
    """Raise where a row says something and no time was read from it; `offset` rows of the source come before."""
    bad = times.is_null() & column.is_not_null()
    if bad.any():
        row = first_rows(bad)[0]
        raise DataError(
            f"{source}: column {column.name!r} has {bad.sum()} rows that are neither numbers nor dates, "
            f"first {quoted(column[row - 1])} in row {row + offset}"
        )
