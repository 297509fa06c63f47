"""Tables of users: one column per attribute, from a file or a frame."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import polars as pl

from igcf.data.columns import cast_or_null, id_text
from igcf.data.items import LIST_SIGNS
from igcf.data.layout import NAMES, named
from igcf.data.log_files import read_whole
from igcf.encoding import MOST_COLUMNS, MOST_LEVELS, Attribute, Encoder, Kind
from igcf.errors import DataError, quoted

FEW_NUMBERS = 12
"""Different whole numbers up to which a column of them counts as categories: age groups, codes."""
USER_NAMES = (*NAMES["user"], "id")
DATE = r"^\d{4}-\d{2}-\d{2}"


@dataclass(frozen=True, eq=False)
class UserTable:
    """Attributes of users by id."""

    frame: pl.DataFrame
    """One row per user; the first column is the id, `user`, the others are parsed attributes."""
    kinds: dict[str, Kind]
    """How each column is understood."""
    sentence: str
    """One line for people: `users: id = user; categories: country; numbers: income`."""
    is_of_dataset: bool = False
    """Whether it comes with a data set known by name, whose fingerprint it does not change."""

    @cached_property
    def row_of(self) -> dict[str, int]:
        """Row of each user id."""
        return {user_id: row for row, user_id in enumerate(self.frame["user"].to_list())}

    @cached_property
    def columns(self) -> dict[str, list[Any]]:
        """Parsed values of every attribute: tuples of texts, numbers, times; None where unknown."""
        found: dict[str, list[Any]] = {}
        for name, kind in self.kinds.items():
            entries = self.frame[name].to_list()
            found[name] = [tuple(each) if each else None for each in entries] if kind == "category" else entries
        return found

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
        fitted = (
            Attribute.fit(name, kind, self.values_of(name, user_ids), levels) for name, kind in self.kinds.items()
        )
        return Encoder(tuple(each for each in fitted if each is not None))


def read_users(users: "str | Path | object", without: Sequence[str] = ()) -> UserTable:
    """Read a table of users from a text or Parquet file, or a frame: a column `user`, then one per attribute.

    Texts are categories, several of them with `|` or `;` in between or as a list; numbers are numbers, except a few
    different whole ones, which are categories; dates and times become hour of day and weekday.

    Args:
        users: The table.
        without: Columns to leave out.
    """
    table = read_whole(users, "the table of users", USER_NAMES)
    return _user_table(table.frame, table.source, without)


def _id_column(names: Sequence[str], source: str) -> str:
    found = named(names, USER_NAMES)
    if found is None:
        raise DataError(
            f"{source} has the columns {', '.join(names)}; expected one called user, with the ids of the log"
        )
    return found


def _user_table(frame: pl.DataFrame, source: str, without: Sequence[str]) -> UserTable:
    id_column = _id_column(frame.columns, source)
    unknown = [name for name in without if name not in frame.columns]
    if unknown:
        others = ", ".join(name for name in frame.columns if name != id_column)
        raise DataError(f"{source} has no column {unknown[0]!r} to leave out; it has {others}")
    ids = id_text(frame[id_column])
    is_row = ids.is_not_null()
    parsed, kinds, unused = [ids.filter(is_row).alias("user")], {}, [name for name in without if name != id_column]
    for name in frame.columns:
        if name == id_column or name in without:
            continue
        found = None if name == "user" else parsed_column(frame[name].filter(is_row))
        if found is None:
            unused.append(name)
        else:
            kinds[name], column = found
            parsed.append(column.alias(name))
    if not kinds:
        raise DataError(f"{source} has no column of attributes beside {id_column!r}; add one, for instance country")
    table = pl.DataFrame(parsed)
    again = table.filter(table["user"].is_duplicated())["user"]
    if len(again):
        raise DataError(f"{source} has user {quoted(again[0])} more than once; expected one row per user")
    plurals = {"category": "categories", "number": "numbers", "time": "times"}
    parts = [f"users: id = {id_column}"]
    for kind, plural in plurals.items():
        own = [name for name, each in kinds.items() if each == kind]
        parts += [f"{plural}: {', '.join(own)}"] if own else []
    return UserTable(table, kinds, "; ".join([*parts, *([f"not used: {', '.join(unused)}"] if unused else [])]))


def parsed_column(column: pl.Series) -> tuple[Kind, pl.Series] | None:
    """Return the kind of a column and its parsed values; None where it cannot be used."""
    kind = column.dtype
    if isinstance(kind, pl.List):
        return None if kind.inner.is_nested() else ("category", column.cast(pl.List(pl.String)))
    if kind.is_temporal() and kind in (pl.Date, pl.Datetime):
        return "time", cast_or_null(column, pl.Datetime())
    if kind == pl.Boolean:
        return "category", _lists(cast_or_null(column, pl.String()))
    if kind.is_nested() or column.null_count() == len(column):
        return None
    numbers = column.cast(pl.Float64, strict=False) if kind.is_numeric() or kind == pl.String else None
    if numbers is not None and numbers.null_count() == column.null_count():
        numbers = numbers.fill_nan(None)
        if numbers.is_infinite().any():
            raise DataError(f"the column {column.name!r} of the users has an infinite number; expected finite ones")
        is_whole = bool((numbers.drop_nulls() == numbers.drop_nulls().round()).all())
        if not is_whole or numbers.n_unique() > FEW_NUMBERS:
            return "number", numbers
        return "category", _lists(numbers.cast(pl.Int64).cast(pl.String))
    texts = cast_or_null(column, pl.String())
    if texts.drop_nulls().str.contains(DATE).all():
        times = texts.str.slice(0, 19).str.replace(" ", "T").str.to_datetime(strict=False)
        if times.null_count() == texts.null_count():
            return "time", times
    return "category", _lists(
        texts, next((sign for sign in LIST_SIGNS[:2] if texts.str.contains(sign, literal=True).any()), None)
    )


def _lists(texts: pl.Series, sign: str | None = None) -> pl.Series:
    """Return a column of lists of texts; empty texts are unknown."""
    parts = texts.str.split(sign) if sign else texts.cast(pl.String).reshape((-1, 1)).arr.to_list()
    return parts.list.eval(pl.element().str.strip_chars().filter(pl.element().str.strip_chars() != ""))
