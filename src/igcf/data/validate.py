"""Check a log and say everything that is wrong with it at once: what, how often, in which rows."""

import re
import shlex
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from igcf.arrays import BoolArray, Float32Array, IntArray
from igcf.data.columns import WHOLE_NUMBER, Columns, first_rows, id_text, number, seconds, time_column
from igcf.data.layout import LogLayout, MissingColumnError
from igcf.data.partitions import parquet_frame
from igcf.data.success import Success, what_is_a_success
from igcf.data.table_files import csv_frame, is_parquet
from igcf.errors import DataError
from igcf.tabular.columns import Column, Table, as_text

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

BLANK_AROUND = re.compile(r"^\s|\s$")
CONTROL = re.compile(r"[\x00-\x1f\x7f]")


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

    is_missing: BoolArray
    unique: Sequence[str]
    codes: IntArray
    """Row of `unique` of each entry; without meaning where the id is missing."""

    @classmethod
    def from_column(cls, column: Column) -> "Ids":
        """Number the ids of a column."""
        text = id_text(column)
        counts = np.bincount(text.entries[~text.is_missing], minlength=len(text.words))
        unique = [word for word, n in zip(text.words, counts.tolist(), strict=True) if n]
        return cls(text.is_missing, unique, (np.cumsum(counts > 0) - 1)[text.entries] if unique else text.entries)

    def where(self, is_suspect: BoolArray) -> BoolArray:
        """Return the rows whose id is marked in `is_suspect`, one entry per id."""
        return is_suspect[self.codes] & ~self.is_missing

    def that(self, condition: Callable[[str], object]) -> BoolArray:
        """Return for which of the different ids a condition holds."""
        return np.fromiter((bool(condition(each)) for each in self.unique), dtype=np.bool_, count=len(self.unique))


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
    if not len(frame):
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


def _frame(path: Path, columns: Columns, separator: str | None) -> tuple[Table, LogLayout]:
    return parquet_frame(path, columns) if is_parquet(path) else csv_frame(path, columns, separator=separator)


def _values(frame: Table, layout: LogLayout, columns: Columns) -> tuple[Float32Array, list[Defect]]:
    """Return the finite values of a log, and what is wrong with the others."""
    if layout.kind is not None:
        text = as_text(frame[layout.kind])
        known = [columns.kinds.get(word.strip()) for word in text.words]
        is_known = np.array([value is not None for value in known] or [False], dtype=np.bool_)
        unknown = ~is_known[text.entries] | text.is_missing
        message = f"{layout.kind!r} is a kind without a value; known are {', '.join(columns.kinds)}, see kinds="
        of_word = np.array([np.nan if value is None else value for value in known] or [np.nan], dtype=np.float32)
        return of_word[text.entries[~unknown]], list(_row_defect("unknown-kind", message, unknown))
    if layout.value is None:
        return np.ones(len(frame), dtype=np.float32), []
    values = number(frame[layout.value])
    finite = values.entries[np.isfinite(values.entries) & ~values.is_missing]
    return finite, list(_value_defects(frame[layout.value], layout.value))


def _success(values: Float32Array, satisfied: float | None) -> tuple[Success | None, list[Defect]]:
    """Return what counts as a success, and what is to be said about it."""
    if not len(values):
        return None, []
    try:
        success = what_is_a_success(values, satisfied)
    except DataError as error:
        return None, [Defect("no-success", str(error), len(values))]
    return success, [Defect("few-successes", success.warning, success.n_successes)] if success.warning else []


def _row_defect(kind: str, message: str, mask: BoolArray) -> Iterator[Defect]:
    """Yield a defect where `mask` holds in some row; nothing otherwise."""
    if mask.any():
        yield Defect(kind, message, int(mask.sum()), tuple(first_rows(mask, SHOWN_ROWS)))


def _id_defects(ids: Ids, name: str) -> Iterator[Defect]:
    yield from _row_defect("null-id", f"{name!r} is empty", ids.is_missing)
    is_number = ids.that(WHOLE_NUMBER.fullmatch)
    plain = [each.strip().lower() for each in ids.unique]
    often = Counter(plain)
    is_twin = np.array([often[each] > 1 for each in plain], dtype=np.bool_)
    is_fewer = is_number if is_number.sum() * 2 < len(ids.unique) else ~is_number
    for kind, message, is_suspect in (
        ("blank-in-id", "begins or ends with a blank", ids.that(BLANK_AROUND.search)),
        ("control-in-id", "holds a control character", ids.that(CONTROL.search)),
        ("similar-ids", "differs from another id only in case or in blanks around it", is_twin),
        ("mixed-ids", "mixes whole numbers and text; these are the fewer", is_fewer),
    ):
        if is_suspect.any():
            yield from _row_defect(kind, f"{name!r} {message}", ids.where(is_suspect))


def _value_defects(column: Column, name: str) -> Iterator[Defect]:
    values = number(column)
    yield from _row_defect("null-value", f"{name!r} is empty", column.is_missing)
    yield from _row_defect("not-a-number", f"{name!r} is not a number", values.is_missing & ~column.is_missing)
    yield from _row_defect("nan", f"{name!r} is NaN", np.isnan(values.entries) & ~values.is_missing)
    infinite = np.isinf(values.entries) & ~values.is_missing
    yield from _row_defect("infinite", f"{name!r} is infinite or too large", infinite)
    finite = values.entries[np.isfinite(values.entries) & ~values.is_missing]
    if len(finite) > 1 and finite.min() == finite.max():
        message = f"{name!r} is {finite[0]:g} in every row: every reaction counts as a success"
        yield Defect("constant-value", message, len(finite))


def _time_defects(frame: Table, layout: LogLayout) -> Iterator[Defect]:
    column = time_column(frame, layout.timestamp)
    if column is None:
        yield Defect("no-times", "no column of times; splits in time and taste drift need one", len(frame))
        return
    name, times = column.name, seconds(column)
    is_known = ~times.is_missing
    yield from _row_defect("bad-time", f"{name!r} is neither a number nor a date", ~is_known & ~column.is_missing)
    yield from _row_defect("missing-time", f"{name!r} is empty", column.is_missing)
    yield from _row_defect("negative-time", f"{name!r} is negative", is_known & (times.entries < 0))
    rows, known = np.flatnonzero(is_known), times.entries[is_known]
    backwards = np.zeros(len(column), dtype=np.bool_)
    backwards[rows[1:]] = known[1:] < known[:-1]
    yield from _row_defect("times-not-sorted", f"{name!r} is earlier than in the row before", backwards)
    if len(known) > 1 and known.min() == known.max():
        yield Defect("constant-time", f"{name!r} is the same in every row", len(known))


def _pair_defects(users: Ids, items: Ids, layout: LogLayout) -> Iterator[Defect]:
    is_known = ~users.is_missing & ~items.is_missing
    pair = users.codes[is_known].astype(np.int64) * len(items.unique) + items.codes[is_known]
    is_first = np.zeros(len(is_known), dtype=np.bool_)
    is_first[np.flatnonzero(is_known)[np.unique(pair, return_index=True)[1]]] = True
    message = "the user has a reaction to the item in an earlier row; the latest one counts"
    yield from _row_defect("duplicate-pair", message, ~is_first & is_known)
    for name, ids, key in ((layout.user, users, "user"), (layout.item, items, "item")):
        is_lonely = np.bincount(ids.codes[is_first], minlength=len(ids.unique)) == 1
        if is_lonely.any():
            message = f"{is_lonely.sum()} of {len(ids.unique)} ids of {name!r} have one reaction only"
            rows = tuple(first_rows(ids.where(is_lonely), SHOWN_ROWS))
            yield Defect(f"single-reaction-{key}", message, int(is_lonely.sum()), rows)
