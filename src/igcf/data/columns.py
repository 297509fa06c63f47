"""Columns of a table become ids, values and times; what cannot is refused with its row."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from igcf.arrays import BoolArray, IntArray
from igcf.data.interactions import MISSING_TIME
from igcf.errors import DataError
from igcf.tabular.columns import Column, Table, as_text
from igcf.tabular.text_values import moments_in, numbers_in

WHOLE_NUMBER = re.compile(r"0|-?[1-9][0-9]*")
MICROSECONDS = 1_000_000


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


def time_column(table: Table, name: str | None) -> Column | None:
    """Return the column that holds the times, NaN as missing; None where there is none."""
    return None if name is None or name not in table.names else _without_nan(table[name])


def _without_nan(column: Column) -> Column:
    if column.kind != "float" or not (is_nan := np.isnan(column.entries)).any():
        return column
    return replace(column, missing=is_nan | column.is_missing)


def id_text(column: Column) -> Column:
    """Return ids as text: whole floats lose their `.0`, empty text is missing."""
    text = as_text(_without_fraction(column))
    if not text.words or text.words[0]:
        return text
    return replace(text, missing=text.is_missing | (text.entries == 0))  # the empty word is the first


def number(column: Column) -> Column:
    """Return values as floats in single precision; missing where the text is no number."""
    if column.kind == "text":
        found, is_none = numbers_in(column.words)
        values, missing = _of_words(column, found, is_none)
    elif column.kind == "list":
        values, missing = np.zeros(len(column)), np.ones(len(column), dtype=np.bool_)
    else:
        values, missing = column.entries, column.is_missing
    with np.errstate(over="ignore"):  # what is too large is infinite
        single = values.astype(np.float32)
    return Column(column.name, "float", single, missing if missing.any() else None)


def _of_words(
    column: Column, found: npt.NDArray[np.generic], is_none: BoolArray
) -> tuple[npt.NDArray[np.generic], BoolArray]:
    """Return for each entry what was found of its word, and where there is none."""
    if not len(found):
        return np.zeros(len(column), dtype=found.dtype), np.ones(len(column), dtype=np.bool_)
    rows = np.where(column.is_missing, 0, column.entries)
    return found[rows], is_none[rows] | column.is_missing


def seconds(column: Column) -> Column:
    """Return times as integers: numbers as they are, dates as seconds since 1970 (microseconds with fractions)."""
    return timed(column)[0]


def timed(column: Column) -> tuple[Column, bool]:
    """Return times as integers, as `seconds` does, and whether there are fractions."""
    if column.kind in ("text", "list"):
        column = _times_in(as_text(column))
    missing = column.is_missing
    if column.kind == "time":
        known = column.entries[~missing]
        if (known % MICROSECONDS != 0).any():
            return replace(column, kind="whole"), True
        return replace(column, kind="whole", entries=column.entries // MICROSECONDS), False
    whole = _without_fraction(column)
    if whole.kind == "float":
        scaled = np.round(np.where(whole.is_missing, 0.0, whole.entries) * 1e6)
        return _as_whole(replace(whole, entries=scaled)), True
    return replace(whole, kind="whole", entries=whole.entries.astype(np.int64, copy=False)), False


def _times_in(text: Column) -> Column:
    """Return what is most of a column of text: whole numbers, numbers or moments."""
    whole = whole_words(text.words)
    if whole is not None:
        values, missing = _of_words(text, whole, np.zeros(len(whole), dtype=np.bool_))
        return Column(text.name, "whole", values, missing if missing.any() else None)
    numbers, moments = _of_words(text, *numbers_in(text.words)), _of_words(text, *moments_in(text.words))
    if numbers[1].sum() <= moments[1].sum():
        return _without_nan(Column(text.name, "float", *numbers))
    return Column(text.name, "time", *moments)


def _without_fraction(column: Column) -> Column:
    """Return whole floats as integers and NaN as missing; anything else as it is."""
    if column.kind != "float":
        return column
    column = _without_nan(column)
    known = column.entries if column.missing is None else column.entries[~column.missing]
    with np.errstate(invalid="ignore"):
        return column if (known % 1 != 0).any() else _as_whole(column)


def _as_whole(column: Column) -> Column:
    """Return whole floats as integers; missing where one is too large for that."""
    known = np.where(column.is_missing, 0.0, column.entries)
    too_large = ~(np.abs(known) < 2.0**63)
    missing = column.is_missing | too_large
    entries = np.where(too_large, 0.0, known).astype(np.int64)
    return Column(column.name, "whole", entries, missing if missing.any() else None)


def first_rows(mask: BoolArray, limit: int = 1) -> list[int]:
    """Return the first row numbers where `mask` holds; row 1 is the first one after the header."""
    return [int(row) + 1 for row in np.flatnonzero(mask)[:limit]]


def encode_ids(column: Column, source: str) -> tuple[tuple[str, ...], IntArray]:
    """Return the ids, in numeric order where all are whole numbers, otherwise as text, and the row of each entry."""
    ids = id_column(column)
    if ids.n_missing:
        raise DataError(
            f"{source}: column {column.name!r} has {ids.n_missing} rows without an id, "
            f"first in row {first_rows(ids.is_missing)[0]}"
        )
    return encode_numbers(ids.entries) if ids.kind == "whole" else _encode_text(ids)


def id_column(column: Column) -> Column:
    """Return ids as whole numbers where they are, otherwise as text."""
    ids = _without_fraction(column)
    return ids if ids.kind == "whole" else id_text(ids)


def _encode_text(ids: Column) -> tuple[tuple[str, ...], IntArray]:
    words, codes = used_words(ids)
    order = id_order(words)
    row_of = np.empty(len(words), dtype=np.int32)
    row_of[order] = np.arange(len(words), dtype=np.int32)
    return tuple(words[row] for row in order.tolist()), row_of[codes]


def used_words(text: Column) -> tuple[Sequence[str], IntArray]:
    """Return the words that occur in a column of text without missing entries, and the row of each entry."""
    is_used = np.bincount(text.entries, minlength=len(text.words)) > 0
    if is_used.all():
        return text.words, text.entries
    words = [word for word, used in zip(text.words, is_used.tolist(), strict=True) if used]
    return words, (np.cumsum(is_used, dtype=np.int32) - np.int32(1))[text.entries]


def encode_numbers(ids: npt.NDArray[np.int64]) -> tuple[tuple[str, ...], IntArray]:
    """Return whole numbers as ids, in their order, and the row of each entry."""
    low, high = int(ids.min()), int(ids.max())
    if high - low > 10 * len(ids) + 1000:  # a table of the whole range would be mostly empty
        unique = np.unique(ids)
        return tuple(map(str, unique.tolist())), np.searchsorted(unique, ids).astype(np.int32)
    present = np.zeros(high - low + 1, dtype=np.bool_)
    present[ids - low] = True
    row_of = np.cumsum(present, dtype=np.int32) - np.int32(1)
    return tuple(map(str, (np.flatnonzero(present) + low).tolist())), row_of[ids - low]


def whole_words(words: Sequence[str]) -> npt.NDArray[np.int64] | None:
    """Return the words as integers if every one is written as `str` would write it: `007` and `7` are different ids."""
    if not all(map(WHOLE_NUMBER.fullmatch, words)):
        return None
    try:
        return np.array([int(word) for word in words], dtype=np.int64)
    except OverflowError:
        return None


def id_order(ids: Sequence[str]) -> IntArray:
    """Return the order of different ids: as numbers where all are whole ones, otherwise as text."""
    numbers = whole_words(ids)
    if numbers is not None:
        return np.argsort(numbers, kind="stable")
    return np.array(sorted(range(len(ids)), key=ids.__getitem__), dtype=np.int64)


def checked_values(column: Column, source: str, *, first_row: int = 0) -> npt.NDArray[np.float32]:
    """Return the values; raises where one is no finite number; `first_row` rows of the source come before these."""
    values = number(column)
    bad = values.is_missing | ~np.isfinite(values.entries)
    if bad.any():
        row = first_rows(bad)[0]
        raise DataError(
            f"{source}: column {column.name!r} has {bad.sum()} rows that are not finite numbers, "
            f"first {column[row - 1]!r} in row {row + first_row}"
        )
    return values.entries


def values_of_kinds(
    column: Column, kinds: Mapping[str, float], source: str, *, first_row: int = 0
) -> npt.NDArray[np.float32]:
    """Return the value of each kind of feedback; raises where a kind has none."""
    text = as_text(column)
    of_word = [kinds.get(word.strip()) for word in text.words]
    found = np.array([0.0 if value is None else value for value in of_word], dtype=np.float32)
    values, unknown = _of_words(text, found, np.array([value is None for value in of_word], dtype=np.bool_))
    if unknown.any():
        row = first_rows(unknown)[0]
        raise DataError(
            f"{source}: column {column.name!r} has {unknown.sum()} rows of a kind without a value, first "
            f"{column[row - 1]!r} in row {row + first_row}; known kinds are {', '.join(kinds)}, add it to kinds="
        )
    return values.astype(np.float32, copy=False)


def checked_times(column: Column, source: str) -> npt.NDArray[np.int64] | None:
    """Return the times, `MISSING_TIME` where there is none; None where no row has one; raise where one is wrong."""
    if column.n_missing == len(column):
        return None
    times = seconds(column)
    refuse_unread_times(column, times, source)
    filled = times.filled(MISSING_TIME)
    return filled.copy() if filled is column.entries else filled  # a caller's array is never changed


def refuse_unread_times(column: Column, times: Column, source: str, offset: int = 0) -> None:
    """Raise where a row says something and no time was read from it; `offset` rows of the source come before."""
    bad = times.is_missing & ~column.is_missing
    if bad.any():
        row = first_rows(bad)[0]
        raise DataError(
            f"{source}: column {column.name!r} has {bad.sum()} rows that are neither numbers nor dates, "
            f"first {column[row - 1]!r} in row {row + offset}"
        )
