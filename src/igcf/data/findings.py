"""What is noticed while a log is read: each defect with its count and first rows, and the report of them all."""

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
import polars as pl

from igcf.arrays import BoolArray, IntArray
from igcf.data.layout import LogLayout
from igcf.errors import DataError, quoted

if TYPE_CHECKING:
    from igcf.data.columns import Columns
    from igcf.data.interactions import Interactions
    from igcf.data.success import Success

SHOWN_ROWS = 5
WHOLE_NUMBER = r"^(0|-?[1-9]\d*)$"
CONTROL = r"[\x00-\x1f\x7f-\x9f]"
INVISIBLE = "[\u00ad\u200b-\u200f\u2060\ufeff]"
MISSING = ("null", "nan", "none", "na", "n/a", "\\n")
Level = Literal["error", "warning"]
ERRORS = (
    "unreadable", "missing-column", "empty", "null-id", "row-numbers", "fraction-in-id", "control-in-id", "null-value",
    "not-a-number", "nan", "infinite", "bad-time", "unknown-kind", "no-success",
)  # fmt: skip
WARNINGS = (
    "unread-files", "guessed-header", "guessed-column", "perhaps-column", "escaped-quotes", "stray-quotes",
    "several-lines", "short-row", "blank-in-id", "similar-ids", "mixed-ids", "perhaps-missing-id", "unrated",
    "few-successes", "constant-value", "no-times", "missing-time", "negative-time", "ambiguous-dates",
    "times-not-sorted", "constant-time", "duplicate-pair", "single-reaction-user", "single-reaction-item",
    "items-without-title", "unknown-items", "item-without-id", "duplicate-item",
)  # fmt: skip
LEVELS: dict[str, Level] = dict.fromkeys(ERRORS, "error") | dict.fromkeys(WARNINGS, "warning")  # type: ignore[assignment]
"""Every kind of defect. An error keeps the log from being read; a warning does not, but is worth a look."""


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

    @property
    def sentence(self) -> str:
        """One line for people."""
        where = f" (first in row {', '.join(f'{row:,}' for row in self.rows)})" if self.rows else ""
        return f"{self.level}: {self.kind}: {self.count:,}: {self.message}{where}"


class Piece(NamedTuple):
    """Some rows of a log."""

    frame: pl.DataFrame
    source: str
    """File that they come from; error messages begin with it."""
    first_row: int = 0
    """Number of rows of the file before these."""
    before: int = 0
    """Number of rows of the log before these."""


@dataclass
class Findings:
    """Defects of a log, collected while it is read; an error is raised at once where `is_strict`."""

    is_strict: bool = True
    encodings: set[str] = field(default_factory=set)
    """Encodings of the text files that were read."""
    layout: LogLayout | None = None
    """Columns that were taken, where they were found."""
    _found: dict[tuple[str, str], Defect] = field(default_factory=dict)

    def rows(self, kind: str, message: str, mask: pl.Series | BoolArray, piece: Piece, *, found: Any = None) -> None:
        """Note a defect of the rows of a piece where `mask` holds; an error shows the first entry `found` there."""
        places = np.flatnonzero(mask.to_numpy() if isinstance(mask, pl.Series) else mask)
        if len(places):
            example = "" if found is None else f"{quoted(found[int(places[0])])} "
            self.refuse(kind, message, len(places), example, piece.source, places[:SHOWN_ROWS] + piece.first_row + 1)
            self.add(kind, message, len(places), (places[:SHOWN_ROWS] + piece.before + 1).tolist())

    def refuse(self, kind: str, message: str, count: int, example: str, source: str, rows: IntArray) -> None:
        """Raise an error about rows of a file where `is_strict`."""
        if self.is_strict and LEVELS[kind] == "error":
            what, sign, remedy = message.partition("; ")
            where = f"in row {rows[0]}" if len(rows) else ""
            found = f"{source}: {what} in {count:,} row{'s' if count > 1 else ''}, first {example}{where}".rstrip()
            raise DataError(found + sign + remedy, kind=kind, rows=rows.tolist())

    def add(self, kind: str, message: str, count: int, rows: Sequence[int] = ()) -> None:
        """Note a defect, together with earlier ones of the same kind and message."""
        old = self._found.get((kind, message), Defect(kind, message, 0))
        self._found[kind, message] = Defect(kind, message, old.count + count, (*old.rows, *rows)[:SHOWN_ROWS])

    @property
    def defects(self) -> tuple[Defect, ...]:
        """All defects, errors first, otherwise in the order of `LEVELS`."""
        return tuple(sorted(self._found.values(), key=lambda defect: list(LEVELS).index(defect.kind)))


def check_ids(
    column: str, ids: Sequence[str], rows: IntArray, findings: Findings, source: str, *, is_exact: bool = True
) -> None:
    """Note what is suspicious about ids, `rows` has one per row of the log, all of them where `is_exact`."""
    unique = pl.Series(ids, dtype=pl.String)
    is_number = unique.str.contains(WHOLE_NUMBER)
    if is_number.all():
        return
    looks = unique.str.normalize("NFKC").str.replace_all(INVISIBLE, "").str.strip_chars().str.to_lowercase()
    is_fewer = is_number if is_number.sum() * 2 < len(unique) else ~is_number
    alike = "differs from another id only in case, in blanks around it, or in signs that look alike"
    for kind, message, is_suspect in (
        ("control-in-id", "holds a control character; an id is plain text on one line", unique.str.contains(CONTROL)),
        ("blank-in-id", "begins or ends with a blank", unique.str.contains(r"^\s|\s$")),
        ("similar-ids", alike, looks.is_duplicated()),
        ("mixed-ids", "mixes whole numbers and text; these are the fewer", is_fewer),
        ("perhaps-missing-id", "is a word that often stands for a missing id", looks.is_in(MISSING)),
    ):
        if is_suspect.any():
            places = np.flatnonzero(is_suspect.to_numpy()[rows])
            first, message = places[: SHOWN_ROWS if is_exact else 0] + 1, f"{column!r} {message}"
            findings.refuse(kind, message, len(places), f"{quoted(ids[rows[places[0]]])} ", source, first)
            findings.add(kind, message, len(places), first.tolist())


@dataclass(frozen=True)
class Report:
    """How a log was understood and what is wrong with it: what `validate`, `pretrain` and `evaluate` say."""

    name: str
    n_rows: int
    n_users: int
    n_items: int
    defects: tuple[Defect, ...] = ()
    layout: LogLayout | None = None
    """Columns that were taken; None where none could be, and for data sets known by name."""
    success: "Success | None" = None
    """What counts as a success; None where the values do not say."""
    notes: tuple[str, ...] = ()
    """What was taken from a table of items, and what thresholds on the number of reactions left."""

    @property
    def is_usable(self) -> bool:
        """Whether the log can be read: it has no errors."""
        return not any(defect.level == "error" for defect in self.defects)

    def lines(self) -> Iterator[str]:
        """Yield the report for people, line by line."""
        yield f"{self.name}: {self.n_rows:,} rows, {self.n_users:,} users, {self.n_items:,} items"
        yield from () if self.layout is None else (self.layout.sentence,)
        yield from self.notes
        yield from () if self.success is None else (self.success.sentence,)
        yield from (defect.sentence for defect in self.defects)

    def as_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON and the metadata of a model."""
        return {
            "path": self.name,
            "usable": self.is_usable,
            "rows": self.n_rows,
            "users": self.n_users,
            "items": self.n_items,
            "columns": self.layout and self.layout.as_dict(),
            "notes": list(self.notes),
            "success": self.success and self.success.as_dict(),
            "defects": [{**asdict(each), "level": each.level, "rows": list(each.rows)} for each in self.defects],
        }


def validate(
    path: str | Path,
    columns: "Columns | None" = None,
    *,
    satisfied: float | None = None,
    items: str | Path | None = None,
    users: str | Path | None = None,
) -> Report:
    """Read a log and report every defect with the numbers of its first rows, counted from 1 after the header.

    Args:
        path: a text file (`.csv`, `.tsv`, `.dat`, `.txt`, also compressed), a Parquet file, or a folder of those.
        columns: how the log is read; what is left out is found.
        satisfied: smallest value of a success; None: chosen from the values (`success_in`).
        items: a table of the items, to be checked beside the log.
        users: a table of the users, likewise.
    """
    from igcf.data.reading import read_files
    from igcf.data.success import success_in

    findings = Findings(is_strict=False)
    try:
        log = read_files(Path(path), columns, findings)
        log = log if items is None else log.with_items(items)
        log = log if users is None else log.with_users(users)
    except DataError as error:
        defects = (Defect(error.kind, str(error), 1, error.rows), *findings.defects)
        return Report(str(path), 0, 0, 0, defects, findings.layout)
    try:
        success = success_in(log, satisfied)
    except DataError as error:
        findings.add(error.kind, str(error), len(log))
        success = None
    return report_of(log, success, str(path), findings=findings)


def report_of(log: "Interactions", success: "Success | None", name: str, *, findings: Findings | None = None) -> Report:
    """Report how a log was understood: the same for `validate` and for whatever else reads it."""
    collected = Findings(is_strict=False)
    for defect in dict.fromkeys((*log.defects, *(findings.defects if findings else ()))):
        collected.add(defect.kind, defect.message, defect.count, defect.rows)
    for kind, message in () if log.layout is None else _guessed_columns(log.layout):
        collected.add(kind, message, 1)
    if success is not None and success.warning:
        collected.add("few-successes", success.warning, success.n_successes)
    size = log.source_size or (len(log) + log.n_duplicates, log.n_users, log.n_items)
    return Report(name, *size, collected.defects, log.layout, success, log.notes)


def _guessed_columns(layout: LogLayout) -> Iterator[tuple[str, str]]:
    for name, role in ((layout.user, "user"), (layout.item, "item")):
        if name in layout.guessed:
            message = f"{name!r} was taken for the {role}s by its place alone; if that is wrong, say which with {role}="
            yield "guessed-column", message
    for role, column in (("value", layout.perhaps_value), ("timestamp", layout.perhaps_timestamp)):
        if column is not None:
            say = f"{role}= {shlex.quote(column)}"
            yield "perhaps-column", f"{column!r} is not used and looks like {role}s; if it holds them, say {say}"
