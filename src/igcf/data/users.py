"""Attributes of users, and features of the moments of their reactions: columns of tables with their kinds."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from igcf.arrays import BoolArray, IntArray
from igcf.data.columns import cast_or_null, id_text, numbers_of
from igcf.data.items import LIST_SIGNS
from igcf.data.layout import NAMES, named, plain
from igcf.data.log_files import read_whole
from igcf.encoding import MOST_COLUMNS, MOST_LEVELS, Encoder, Kind
from igcf.errors import DataError, quoted

if TYPE_CHECKING:
    from igcf.data.interactions import Interactions

FEW_NUMBERS = 12
"""Different whole numbers up to which a column of them counts as categories: age groups, codes."""
USER_NAMES = (*NAMES["user"], "id")
DATE = r"^\d{4}-\d{2}-\d{2}"
OF_TIME = ("time", "hour")
"""Names of a context that is made from the times of the log, where no column has that name."""


@dataclass(frozen=True, eq=False)
class UserTable:
    """Attributes of users by id."""

    row_of: Mapping[str, int]
    """Row of each user id."""
    kinds: Mapping[str, Kind]
    """How each column is understood."""
    columns: Mapping[str, list[Any]]
    """Parsed values of every attribute: tuples of texts, numbers, times; None where unknown."""
    sentence: str
    """One line for people: `users: id = user; categories: country; numbers: income`."""
    is_of_dataset: bool = False
    """Whether it comes with a data set known by name and leaves its fingerprint unchanged."""

    def values_of(self, name: str, user_ids: Iterable[str]) -> list[Any]:
        """Return one attribute of some users; None where it is unknown."""
        column, rows = self.columns[name], self.row_of
        return [None if (row := rows.get(each)) is None else column[row] for each in user_ids]

    def given(self, user_id: str) -> dict[str, Any]:
        """Return the known attributes of one user, as `session(attributes=...)` takes them."""
        found = {name: self.values_of(name, [user_id])[0] for name in self.kinds}
        return {
            name: list(value) if isinstance(value, tuple) else value
            for name, value in found.items()
            if value is not None
        }

    def encoder(self, user_ids: Sequence[str]) -> Encoder:
        """Learn from some users how each attribute becomes numbers."""
        levels = max(min(MOST_LEVELS, MOST_COLUMNS // max(len(self.kinds), 1)), 4)
        return Encoder.fit(self.kinds, {name: self.values_of(name, user_ids) for name in self.kinds}, levels)


def read_users(users: "str | Path | object", without: Sequence[str] = (), id_name: str = "user") -> UserTable:
    """Read a table of users from a text or Parquet file, or a frame: a column `user`, then one per attribute.

    Texts are categories, several of them with `|` or `;` in between or as a list; numbers are numbers, except a few
    different whole ones, which are categories; dates and times become hour of day and weekday.

    Args:
        users: The table.
        without: Columns to leave out.
        id_name: Name of the column of ids in the log; the table may have the same.
    """
    id_names = (plain(id_name), *USER_NAMES)
    frame, source, *_ = read_whole(users, "the table of users", id_names)
    id_column = named(frame.columns, id_names)
    if id_column is None:
        names = ", ".join(frame.columns)
        raise DataError(f"{source} has the columns {names}; expected one called {id_name}, with the ids of the log")
    others = [name for name in frame.columns if name != id_column]
    unknown = [name for name in without if name not in frame.columns]
    if unknown:
        raise DataError(f"{source} has no column {unknown[0]!r} to leave out; it has {', '.join(others)}")
    frame = frame.with_columns(id_text(frame[id_column])).filter(pl.col(id_column).is_not_null())
    ids, kinds, columns = frame[id_column], dict[str, Kind](), dict[str, list[Any]]()
    for name in others:
        if name not in (*without, "user") and (found := parsed_column(frame[name], source)) is not None:
            kinds[name], columns[name] = found
    if not kinds:
        raise DataError(f"{source} has no column of attributes beside {id_column!r}; add one, for instance country")
    if (again := ids.filter(ids.is_duplicated())).len():
        raise DataError(f"{source} has user {quoted(again[0])} more than once; expected one row per user")
    parts = {f"users: id = {id_column}": ()} | {
        f"{plural}: ": [name for name, each in kinds.items() if each == kind]
        for kind, plural in (("category", "categories"), ("number", "numbers"), ("time", "times"))
    }
    parts["not used: "] = [name for name in others if name not in kinds]
    sentence = "; ".join(
        f"{what}{', '.join(names)}" for what, names in parts.items() if names or not what.endswith(" ")
    )
    return UserTable({user_id: row for row, user_id in enumerate(ids)}, kinds, columns, sentence)


def parsed_column(column: pl.Series, source: str) -> tuple[Kind, list[Any]] | None:
    """Return the kind of a column and its parsed values, None for unknown ones; None where it cannot be used."""
    kind = column.dtype
    if isinstance(kind, pl.List):
        return None if kind.inner.is_nested() else ("category", _texts(column.cast(pl.List(pl.String))))
    if kind in (pl.Date, pl.Datetime):
        return "time", cast_or_null(column, pl.Datetime()).to_list()
    if kind == pl.Boolean:
        return "category", _texts(cast_or_null(column, pl.String()))
    if kind.is_nested() or column.null_count() == len(column):
        return None
    if (numbers := numbers_of(column, source)) is not None:
        is_whole = bool((numbers.drop_nulls() == numbers.drop_nulls().round()).all())
        if not is_whole or numbers.n_unique() > FEW_NUMBERS:
            return "number", numbers.to_list()
        return "category", _texts(numbers.cast(pl.Int64).cast(pl.String))
    texts = cast_or_null(column, pl.String())
    if texts.drop_nulls().str.contains(DATE).all():
        times = texts.str.slice(0, 19).str.replace(" ", "T").str.to_datetime(strict=False)
        if times.null_count() == texts.null_count():
            return "time", times.to_list()
    sign = next((sign for sign in LIST_SIGNS[:2] if texts.str.contains(sign, literal=True).any()), None)
    return "category", _texts(texts.str.split(sign) if sign else texts)


def _texts(column: pl.Series) -> list[tuple[str, ...] | None]:
    """Return texts, or lists of them, as tuples without the empty ones; None where nothing is left."""
    entries = column.to_list() if isinstance(column.dtype, pl.List) else [[each] for each in column.to_list()]
    found = (tuple(text.strip() for text in entry or () if text and text.strip()) for entry in entries)
    return [texts or None for texts in found]


@dataclass(frozen=True, eq=False)
class ContextColumns:
    """Features of the moment of each reaction."""

    kinds: dict[str, Kind]
    columns: dict[str, list[Any]]
    """Parsed values by name, in the order of the reactions; None where unknown."""
    sentence: str
    """One line for people: `context: categories: device; times: hour`."""

    def taken(self, rows: BoolArray | IntArray) -> "ContextColumns":
        """Return the columns of the reactions at `rows`."""
        places = np.arange(len(next(iter(self.columns.values()))))[rows].tolist()
        columns = {name: [column[place] for place in places] for name, column in self.columns.items()}
        return ContextColumns(self.kinds, columns, self.sentence)

    def encoder(self) -> Encoder:
        """Learn from all reactions how each feature becomes numbers."""
        levels = max(min(MOST_LEVELS, MOST_COLUMNS // (5 * len(self.kinds))), 4)
        return Encoder.fit(self.kinds, self.columns, levels, "context")


def read_context(data: "Interactions", names: Sequence[str], table: object = None) -> ContextColumns:
    """Read columns of the table that a log came from; of several rows of a user and an item the last counts."""
    frame = None if table is None else read_whole(table, "the log", NAMES["user"]).frame
    kinds: dict[str, Kind] = {}
    columns: dict[str, list[Any]] = {}
    for name in names:
        if frame is not None and name in frame.columns:
            found = parsed_column(_aligned(data, frame, name), "the log")
            if found is None:
                raise DataError(f"the column {name!r} cannot be a context; expected texts, numbers or times")
            kinds[name], columns[name] = found
        elif name in OF_TIME and data.timestamps is not None:
            kinds[name] = "time"
            columns[name] = [_moment(each) for each in data.timestamps.tolist()]
        else:
            known = [] if frame is None else frame.columns
            raise DataError(f"the log has no column {name!r} for a context; it has {', '.join(known) or 'none'}")
    listed = ", ".join(f"{name} ({kind})" for name, kind in kinds.items())
    return ContextColumns(kinds, columns, f"context: {listed}")


def _aligned(data: "Interactions", frame: pl.DataFrame, name: str) -> pl.Series:
    """Return a column in the order of the reactions."""
    layout = data.layout
    user, item = (
        (layout.user, layout.item)
        if layout is not None
        else (named(frame.columns, NAMES["user"]), named(frame.columns, NAMES["item"]))
    )
    if user is None or item is None:
        raise DataError(f"the columns {', '.join(frame.columns)} name no user and item to find a context by")
    ids = {"user": id_text(frame[user]), "item": id_text(frame[item])}
    right = pl.DataFrame({**ids, "found": frame[name]}).unique(["user", "item"], keep="last", maintain_order=True)
    users, items = (pl.Series(each, dtype=pl.String) for each in (data.user_ids, data.item_ids))
    left = pl.DataFrame({"user": users.gather(data.user_idx), "item": items.gather(data.item_idx)})
    return left.join(right, on=["user", "item"], how="left", maintain_order="left")["found"].alias(name)


def _moment(when: int) -> datetime | None:
    """Return a time of the log; None where it is unknown."""
    unit = 1e6 if abs(when) > 1e14 else 1e3 if abs(when) > 1e11 else 1.0
    try:
        return datetime.fromtimestamp(when / unit, UTC)
    except (OverflowError, ValueError, OSError):
        return None
