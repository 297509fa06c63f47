"""Columns of a table become ids, values and times; what cannot is refused with its row."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from igcf.errors import ConfigError, DataError


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
    unrated: float | None = None
    """Value that stands for no opinion: the user saw the item and did not judge it."""
    separator: str | None = None
    """Between the columns of a text file; None: found from its first rows."""
    encoding: str | None = None
    """Encoding of a text file; None: by its byte order mark, otherwise UTF-8 or else cp1252."""
    has_header: bool | None = None
    """Whether the first row of a text file holds the names of the columns; None: found."""
    min_item_reactions: int = 1
    """Items with fewer reactions are not learned as such; they enter a model through their content."""
    min_user_reactions: int = 1
    """Users with fewer reactions are left out."""

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> "Columns":
        """Return the columns that keyword arguments name; one that does not exist is refused."""
        known = [each.name for each in fields(cls)]
        unknown = next((name for name in given if name not in known), None)
        if unknown is not None:
            raise DataError(f"{unknown!r} says nothing about a log; expected one of {', '.join(known)}")
        return cls(**{name: value for name, value in given.items() if value is not None})


def parse_kinds(text: str | None) -> dict[str, float]:
    """Return the values of the kinds of feedback from `view=1,like=4` or from a file of such lines, or of JSON."""
    if text is None:
        return {}
    if Path(text).is_file():
        try:
            content = Path(text).read_text(encoding="utf-8")
            pairs = json.loads(content).items() if content.lstrip().startswith("{") else _lines(content)
            return {str(kind).strip(): float(value) for kind, value in pairs}
        except (OSError, ValueError, TypeError, OverflowError, RecursionError) as error:
            raise ConfigError(f"--kinds {text}: expected lines such as like=4, or a JSON object ({error})") from error
    try:
        return {kind.strip(): float(value) for kind, value in _lines(text.replace(",", "\n"))}
    except ValueError as error:
        raise ConfigError(f"--kinds {text}: expected view=1,like=4,... or a file of such lines") from error


def _lines(content: str) -> Iterator[tuple[str, str]]:
    for line in content.splitlines():
        if line.strip():
            kind, _, value = line.replace("=", ",").replace("\t", ",").rpartition(",")
            yield kind, value


def id_text(column: pl.Series) -> pl.Series:
    """Return ids as text: whole floats lose their `.0`, empty text becomes null."""
    return cast_or_null(_without_fraction(column), pl.String()).replace("", None)


class Numbers:
    """Reads a column of numbers piece by piece, and finds its decimal sign and its thousands separator."""

    def __init__(self) -> None:
        self.decimal: str | None = None
        """Sign before the fraction, `.` or `,`; None while no number had one."""
        self.group = ""
        """Sign between groups of three digits."""

    def __call__(self, column: pl.Series) -> pl.Series:
        """Return values as float32; null where the text is not a number."""
        column = _categories_as_text(column)
        if column.dtype != pl.String:
            return cast_or_null(column, pl.Float32())
        if self.decimal != "," and not self.group:
            values = column.cast(pl.Float32, strict=False)
            if values.null_count() > column.null_count():  # perhaps only blanks around them
                values = column.str.strip_chars().cast(pl.Float32, strict=False)
            if values.null_count() == column.null_count():
                if self.decimal is None and column.str.contains(".", literal=True).any():
                    self.decimal = "."
                return values
        return self._grouped(column.str.strip_chars())

    def _grouped(self, column: pl.Series) -> pl.Series:
        formats = [each for each in FORMATS if self.decimal in (None, each[0]) and self.group in ("", each[1])]
        fits = [int(column.str.contains(pattern).sum()) for _, _, pattern in formats]
        if not any(fits):
            return column.str.to_lowercase().replace_strict(TRUTHS, default=None, return_dtype=pl.Float32)
        self.decimal, self.group, _ = formats[int(np.argmax(fits))]
        for sign in filter(None, (self.group, "\u00a0", "\u202f")):
            column = column.str.replace_all(sign, "", literal=True)
        if self.decimal == ",":
            column = column.str.replace_all(",", ".", literal=True)
        return column.cast(pl.Float32, strict=False)

    @property
    def sentence(self) -> str:
        """What was found besides plain numbers: `decimal comma, thousands separator .`."""
        parts = ["decimal comma"] if self.decimal == "," else []
        return ", ".join(parts + ([f"thousands separator {self.group!r}"] if self.group else []))


def _pattern(decimal: str, group: str) -> str:
    signs = "[ \u00a0\u202f]" if group == " " else re.escape(group)
    digits = rf"([1-9]\d{{0,2}}({signs}\d{{3}})+|\d+)" if group else r"\d+"
    return rf"^[+-]?{digits}({re.escape(decimal)}\d+)?$"


FORMATS = [
    (".", "", r"^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$"),
    *((*signs, _pattern(*signs)) for signs in (*product(".", ",' "), *product(",", ("", *".' ")))),
]
"""Decimal sign, thousands separator and pattern of the ways to write a number, the likeliest first."""
TRUTHS = {"true": 1.0, "false": 0.0}
"""Values that a column of type bool has as text."""


class Times:
    """Reads a column of times piece by piece: numbers as they are, dates as seconds since 1970.

    The formats of dates are found in the rows and kept, so that all pieces are read alike.
    """

    def __init__(self) -> None:
        self.formats: list[str] = []
        """Formats of the dates found so far."""
        self.is_ambiguous = False
        """Whether dates are ambiguous: day and month could be swapped."""
        self._are_days: bool | None = None

    def __call__(self, column: pl.Series) -> tuple[pl.Series, bool]:
        """Return times as integers, null where missing, and whether fractions made them microseconds."""
        column = _categories_as_text(column)
        if column.dtype == pl.String:
            whole = column.cast(pl.Int64, strict=False)
            is_plain = not self.formats and whole.null_count() == column.null_count()
            column = whole if is_plain else self._from_text(column.str.strip_chars().replace("", None))
        if column.dtype.is_temporal():
            column = cast_or_null(column, pl.Datetime("us")).cast(pl.Int64)
            return (column, True) if (column % 1_000_000 != 0).any() else (column // 1_000_000, False)
        whole = _without_fraction(column)
        if whole.dtype.is_float():
            return (whole * 1e6).round().cast(pl.Int64, strict=False), True
        return self._days(cast_or_null(whole, pl.Int64())), False

    def _days(self, times: pl.Series) -> pl.Series:
        """Return whole numbers, those like 20240501 as the seconds of that day."""
        if self._are_days is False or times.null_count() == len(times):
            return times
        dates = times.cast(pl.String).str.to_datetime("%Y%m%d", strict=False, time_unit="us").cast(pl.Int64)
        if self._are_days is None:
            is_near = times.is_between(FIRST_DAY, LAST_DAY).all()
            self._are_days = is_near and dates.null_count() == times.null_count()
        return dates // 1_000_000 if self._are_days else times

    def _from_text(self, text: pl.Series) -> pl.Series:
        if not self.formats:
            whole = text.cast(pl.Int64, strict=False)
            if whole.null_count() == text.null_count():
                return whole
            numbers = text.cast(pl.Float64, strict=False)
            if numbers.null_count() - text.null_count() < (len(text) - text.null_count()) / 2:
                return numbers
        text = text.str.replace("(Z| ?UTC)$", "+0000").str.replace(r"([+-]\d\d):(\d\d)$", "$1$2")
        dates = _nulls(text, pl.Datetime("us"))
        for form in self.formats:
            dates = dates.fill_null(_parsed_dates(text, form)) if dates.null_count() else dates
        while (missing := text.filter(dates.is_null() & text.is_not_null())).len():
            if (best := self._best_format(missing)) is None:
                break
            self.formats.append(best)
            dates = dates.fill_null(_parsed_dates(text, best))
        return dates

    def _best_format(self, text: pl.Series) -> str | None:
        """Return the format that fits the most of some dates; None where none fits."""
        is_day_first = next((form.index("%d") < form.index("%m") for form in self.formats if form in SWAPPED), None)
        sample, fits = text.head(1000), dict[str, int]()
        for form in DATE_FORMATS:
            if form in self.formats or (form in SWAPPED and is_day_first not in (None, SWAPPED[form])):
                continue
            if n := sample.len() - _parsed_dates(sample, form).null_count():
                fits[form] = n
        likely = [form for form, n in fits.items() if n == max(fits.values())]
        if len(likely) > 1:
            counts = [text.len() - _parsed_dates(text, form).null_count() for form in likely]
            likely = [form for form, n in zip(likely, counts, strict=True) if n == max(counts)]
            self.is_ambiguous |= len([form for form in likely if form in SWAPPED]) > 1
        return likely[0] if likely else None


FIRST_DAY, LAST_DAY = 19_000_101, 21_001_231
CLOCKS = ("", " %H:%M:%S%.f", "T%H:%M:%S%.f", " %H:%M", "T%H:%M", " %I:%M:%S %p", " %I:%M %p")
DAYS = (
    "%Y-%m-%d", "%Y/%m/%d", "%Y.%m.%d", "%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y", "%d-%m-%Y", "%m-%d-%Y", "%d.%m.%y",
    "%d/%m/%y", "%m/%d/%y", "%d %b %Y", "%d %B %Y", "%b %d, %Y", "%B %d, %Y", "%m %d, %Y", "%d-%b-%Y", "%d-%b-%y",
    "%Y%m%d", "%a %b %d %Y",
)  # fmt: skip
DATE_FORMATS = tuple(
    f"{day}{clock}{zone}" for day in DAYS for clock in CLOCKS for zone in ("", "%z", " %z")[: 1 if not clock else 3]
)
"""Formats of dates, the likeliest first."""
SWAPPED = {form: form[1] == "d" for form in DATE_FORMATS if form[:5] in ("%d/%m", "%m/%d", "%d-%m", "%m-%d")}
"""Ambiguous formats of dates, and whether the day is first."""


def _parsed_dates(text: pl.Series, form: str) -> pl.Series:
    if "%y" in form:  # %Y would take 96 for the year 96, and %y the first digits of 1996
        text = pl.select(pl.when(text.str.contains(r"^\d{1,2}\D\w{1,3}\D\d{2}(\D|$)")).then(text)).to_series()
    elif "%d" in form and not form.startswith("%Y"):
        text = pl.select(pl.when(text.str.contains(r"\d{4}")).then(text)).to_series()
    dates = text.str.to_datetime(form, strict=False, time_unit="us", exact=True)
    return dates.dt.replace_time_zone(None) if "%z" in form else dates


def time_column(frame: pl.DataFrame, name: str | None) -> pl.Series | None:
    """Return the column of times with NaN as null; None if the log has no times."""
    if name is None or name not in frame.columns:
        return None
    return frame[name].fill_nan(None) if frame[name].dtype.is_float() else frame[name]


def _without_fraction(column: pl.Series) -> pl.Series:
    """Return whole floats as integers and NaN as null; anything else as it is."""
    if not column.dtype.is_float():
        return column
    column = column.fill_nan(None)
    return column if (column % 1 != 0).any() else column.cast(pl.Int64, strict=False)


def cast_or_null(column: pl.Series, dtype: pl.DataType) -> pl.Series:
    """Return a column as another type, null where an entry (a list, a time of day) cannot be converted."""
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


def numbers_of(column: pl.Series, source: str) -> pl.Series | None:
    """Return a column as numbers, empty entries as null; None if an entry is not a number, or all are empty."""
    if not (column.dtype.is_numeric() or column.dtype == pl.String) or column.null_count() == len(column):
        return None
    numbers = column.cast(pl.Float64, strict=False)
    if numbers.null_count() > column.null_count():
        return None
    if numbers.is_infinite().any():
        raise DataError(f"{source}: the column {column.name!r} has an infinite number; expected finite ones")
    return numbers.fill_nan(None)


def refuse_nested(frame: pl.DataFrame, names: Iterable[str], source: str) -> None:
    """Raise where one of these columns holds lists or structures, which are neither ids nor values nor times."""
    for name in names:
        if name in frame.columns and frame[name].dtype.is_nested():
            raise DataError(
                f"{source}: column {name!r} is of type {frame[name].dtype}; expected text, numbers or times; "
                "name another column with user=, item=, value=, timestamp="
            )


def whole_numbers(column: pl.Series) -> pl.Series | None:
    """Return the ids as integers if every one is written as `str` would write it: `007` and `7` are different ids."""
    column = _without_fraction(column)
    if not column.dtype.is_integer() and column.dtype != pl.String:
        return None
    numbers = column.cast(pl.Int64, strict=False)
    is_other = numbers.null_count() > column.null_count()
    is_padded = not is_other and column.dtype == pl.String and column.str.contains(r"^(0.|\+|-0)").any()
    return None if is_other or is_padded else numbers
