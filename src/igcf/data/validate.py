"""Check a log and say everything that is wrong with it at once: what, how often, in which rows."""

import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import polars as pl

from igcf.data.columns import Columns, first_rows, id_text, number, seconds, time_column
from igcf.data.layout import LogLayout, MissingColumnError
from igcf.data.partitions import parquet_frame
from igcf.data.success import Success, what_is_a_success
from igcf.data.table_files import check_ending, csv_frame, is_parquet
from igcf.errors import DataError

SHOWN_ROWS = 5
Level = Literal["error", "warning"]
LEVELS: dict[str, Level] = {
    "unreadable": "error",
    "missing-column": "error",
    "empty": "error",
    "null-id": "error",
    "null-value": "error",
    "not-a-number": "error",
    "nan": "error",
    "infinite": "error",
    "bad-time": "error",
    "guessed-column": "warning",
    "perhaps-column": "warning",
    "blank-in-id": "warning",
    "control-in-id": "warning",
    "similar-ids": "warning",
    "mixed-ids": "warning",
    "unknown-kind": "error",
    "no-success": "error",
    "few-successes": "warning",
    "constant-value": "warning",
    "no-times": "warning",
    "missing-time": "warning",
    "negative-time": "warning",
    "times-not-sorted": "warning",
    "constant-time": "warning",
    "duplicate-pair": "warning",
    "single-reaction-user": "warning",
    "single-reaction-item": "warning",
}
"""Every kind of defect. An error keeps the log from being read; a warning does not, but somebody should look."""

WHOLE_NUMBER = r"^(0|-?[1-9]\d*)$"


@dataclass(frozen=True)
class Defect:
    """Defect of one kind, and where it was found."""

    kind: str
    """Kind of the defect, one of `LEVELS`: short and stable, for programs."""
    message: str
    count: int
    """Number of rows, or of users or items where the message says so."""
    rows: tuple[int, ...] = ()
    """First rows with the defect, counted from 1 after the header."""

    @property
    def level(self) -> Level:
        """Level of the defect: an error keeps the log from being read."""
        return LEVELS[self.kind]


@dataclass(frozen=True)
class Report:
    """Report of what `validate` found in a log."""

    path: str
    n_rows: int
    n_users: int
    n_items: int
    defects: tuple[Defect, ...] = ()
    layout: LogLayout | None = None
    """Columns that were taken; None where none could be."""
    success: Success | None = None
    """What counts as a success; None where the values do not tell."""

    @property
    def is_usable(self) -> bool:
        """Whether the log can be read: it has no errors."""
        return not any(defect.level == "error" for defect in self.defects)

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for `--json`."""
        return {
            "path": self.path,
            "usable": self.is_usable,
            "rows": self.n_rows,
            "users": self.n_users,
            "items": self.n_items,
            "columns": None if self.layout is None else self.layout.as_dict(),
            "success": None if self.success is None else self.success.as_dict(),
            "defects": [
                {
                    "kind": defect.kind,
                    "level": defect.level,
                    "message": defect.message,
                    "count": defect.count,
                    "rows": list(defect.rows),
                }
                for defect in self.defects
            ],
        }


@dataclass(frozen=True)
class Ids:
    """Column of ids, numbered so that patterns are matched once per id instead of once per row."""

    text: pl.Series
    unique: pl.Series
    codes: pl.Series
    """Row of `unique` of each entry, null where the id is null."""

    @classmethod
    def from_column(cls, column: pl.Series) -> "Ids":
        """Number the ids of a column."""
        text = id_text(column)
        unique = text.unique().drop_nulls()
        return cls(text, unique, text.cast(pl.Enum(unique)).to_physical().cast(pl.Int64))

    def where(self, is_suspect: pl.Series) -> pl.Series:
        """Return the rows whose id is marked in `is_suspect`, one entry per id."""
        return is_suspect.gather(self.codes)


def validate(
    path: str | Path,
    columns: Columns | None = None,
    *,
    separator: str | None = None,
    satisfied: float | None = None,
) -> Report:
    """Check the columns of a CSV or Parquet log; a file that cannot be opened is an error of its own.

    Args:
        path: a text file (`.csv`, `.tsv`, `.dat`, `.txt`, also gzipped), a Parquet file, or a folder of those.
        columns: the columns to check; what is left out is found.
        separator: between the columns of a text file; None: found from its first rows.
        satisfied: smallest value of a success; None: chosen from the values (`what_is_a_success`).
    """
    path, columns = Path(path), columns or Columns()
    try:
        frame, layout = _frame(path, columns, separator)
    except MissingColumnError as error:
        messages = [f"no column {name!r}; {str(error).split('; ', 1)[1]}" for name in error.names] or [str(error)]
        return Report(str(path), 0, 0, 0, tuple(Defect("missing-column", message, 1) for message in messages))
    except DataError as error:
        return Report(str(path), 0, 0, 0, (Defect("unreadable", str(error), 1),))
    if frame.is_empty():
        return Report(str(path), 0, 0, 0, (Defect("empty", "there are no rows after the header", 0),), layout)
    users, items = Ids.from_column(frame[layout.user]), Ids.from_column(frame[layout.item])
    values, bad_values = _values(frame, layout, columns)
    success, bad_success = _success(values, satisfied)
    defects = [
        *_guessed_columns(layout),
        *_id_defects(users, layout.user),
        *_id_defects(items, layout.item),
        *bad_values,
        *bad_success,
        *_time_defects(frame, layout),
        *_pair_defects(users, items, layout),
    ]
    defects.sort(key=lambda defect: defect.level)  # errors first, otherwise in the order of the checks
    return Report(str(path), len(frame), len(users.unique), len(items.unique), tuple(defects), layout, success)


def _guessed_columns(layout: LogLayout) -> Iterator[Defect]:
    for name, role in ((layout.user, "user"), (layout.item, "item")):
        if name in layout.guessed:
            message = f"{name!r} was taken for the {role}s by its place alone; if that is wrong, say which with {role}="
            yield Defect("guessed-column", message, 1)
    perhaps = {"value": layout.perhaps_value, "timestamp": layout.perhaps_timestamp}
    for role, column in perhaps.items():
        if column is not None:
            message = (
                f"{column!r} is not used and looks like {role}s; if it holds them, say {role}= {shlex.quote(column)}"
            )
            yield Defect("perhaps-column", message, 1)


def _frame(path: Path, columns: Columns, separator: str | None) -> tuple[pl.DataFrame, LogLayout]:
    check_ending(path)
    return parquet_frame(path, columns) if is_parquet(path) else csv_frame(path, columns, separator=separator)


def _values(frame: pl.DataFrame, layout: LogLayout, columns: Columns) -> tuple[pl.Series, list[Defect]]:
    """Return the finite values of a log, and what is wrong with the others."""
    if layout.kind is not None:
        kinds = frame[layout.kind].cast(pl.String).str.strip_chars()
        unknown = ~kinds.is_in(list(columns.kinds)).fill_null(False)
        message = f"{layout.kind!r} is a kind without a value; known are {', '.join(columns.kinds)}, see kinds="
        values = pl.Series([columns.kinds[kind] for kind in kinds.filter(~unknown).to_list()], dtype=pl.Float32)
        return values, list(_row_defect("unknown-kind", message, unknown))
    if layout.value is None:
        return pl.Series(np.ones(len(frame), dtype=np.float32)), []
    values = number(frame[layout.value])
    return values.filter(values.is_finite().fill_null(False)), list(_value_defects(frame[layout.value], layout.value))


def _success(values: pl.Series, satisfied: float | None) -> tuple[Success | None, list[Defect]]:
    """Return what counts as a success, and what is to be said about it."""
    if values.is_empty():
        return None, []
    try:
        success = what_is_a_success(values.to_numpy(), satisfied)
    except DataError as error:
        return None, [Defect("no-success", str(error), len(values))]
    return success, [Defect("few-successes", success.warning, success.n_successes)] if success.warning else []


def _row_defect(kind: str, message: str, mask: pl.Series) -> Iterator[Defect]:
    """Yield a defect where `mask` holds in some row; nothing otherwise."""
    mask = mask.fill_null(False)
    if mask.any():
        yield Defect(kind, message, int(mask.sum()), tuple(first_rows(mask, SHOWN_ROWS)))


def _id_defects(ids: Ids, name: str) -> Iterator[Defect]:
    yield from _row_defect("null-id", f"{name!r} is empty", ids.text.is_null())
    unique = ids.unique
    is_number = unique.str.contains(WHOLE_NUMBER)
    is_twin = unique.str.strip_chars().str.to_lowercase().is_duplicated()
    is_fewer = is_number if is_number.sum() * 2 < len(unique) else ~is_number
    for kind, message, is_suspect in (
        ("blank-in-id", "begins or ends with a blank", unique.str.contains(r"^\s|\s$")),
        ("control-in-id", "holds a control character", unique.str.contains(r"[\x00-\x1f\x7f]")),
        ("similar-ids", "differs from another id only in case or in blanks around it", is_twin),
        ("mixed-ids", "mixes whole numbers and text; these are the fewer", is_fewer),
    ):
        if is_suspect.any():
            yield from _row_defect(kind, f"{name!r} {message}", ids.where(is_suspect))


def _value_defects(column: pl.Series, name: str) -> Iterator[Defect]:
    values = number(column)
    yield from _row_defect("null-value", f"{name!r} is empty", column.is_null())
    yield from _row_defect("not-a-number", f"{name!r} is not a number", values.is_null() & column.is_not_null())
    yield from _row_defect("nan", f"{name!r} is NaN", values.is_nan())
    yield from _row_defect("infinite", f"{name!r} is infinite or too large", values.is_infinite())
    finite = values.filter(values.is_finite().fill_null(False))
    if len(finite) > 1 and finite.min() == finite.max():
        message = f"{name!r} is {finite[0]:g} in every row: every reaction counts as a success"
        yield Defect("constant-value", message, len(finite))


def _time_defects(frame: pl.DataFrame, layout: LogLayout) -> Iterator[Defect]:
    column = time_column(frame, layout.timestamp)
    if column is None:
        yield Defect("no-times", "no column of times; splits in time and taste drift need one", len(frame))
        return
    name, times = column.name, seconds(column)
    unreadable = times.is_null() & column.is_not_null()
    yield from _row_defect("bad-time", f"{name!r} is neither a number nor a date", unreadable)
    yield from _row_defect("missing-time", f"{name!r} is empty", column.is_null())
    yield from _row_defect("negative-time", f"{name!r} is negative", times < 0)
    backwards = times < times.forward_fill().shift(1)
    yield from _row_defect("times-not-sorted", f"{name!r} is earlier than in the row before", backwards)
    known = times.drop_nulls()
    if len(known) > 1 and known.min() == known.max():
        yield Defect("constant-time", f"{name!r} is the same in every row", len(known))


def _pair_defects(users: Ids, items: Ids, layout: LogLayout) -> Iterator[Defect]:
    pair = users.codes * len(items.unique) + items.codes
    is_first = pair.is_first_distinct() & pair.is_not_null()
    message = "the user has a reaction to the item in an earlier row; the latest one counts"
    yield from _row_defect("duplicate-pair", message, ~is_first & pair.is_not_null())
    for name, ids, key in ((layout.user, users, "user"), (layout.item, items, "item")):
        counts = np.bincount(ids.codes.filter(is_first).to_numpy(), minlength=len(ids.unique))
        lonely = np.flatnonzero(counts == 1)
        if len(lonely):
            is_lonely = ids.codes.is_in(pl.Series(lonely).implode()).fill_null(False)
            message = f"{len(lonely)} of {len(ids.unique)} ids of {name!r} have one reaction only"
            rows = tuple(first_rows(is_lonely, SHOWN_ROWS))
            yield Defect(f"single-reaction-{key}", message, len(lonely), rows)
