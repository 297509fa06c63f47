"""The interaction log in memory: string ids on the outside, matrix rows on the inside."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from igcf.arrays import BoolArray, Float32Array, IntArray
from igcf.attributes import Attributes
from igcf.errors import DataError
from igcf.item import Item
from igcf.tables import html_card

if TYPE_CHECKING:
    from igcf.data.findings import Defect
    from igcf.data.layout import LogLayout
    from igcf.data.users import ContextColumns, UserTable

MISSING_TIME = np.iinfo(np.int64).min
"""Timestamp of a reaction without a time in a log where others have one; it sorts before all of them."""


@dataclass(frozen=True, eq=False, repr=False)
class Interactions:
    """Log of reactions: user, item, value and, if known, time; at most one row per user and item.

    Build it with `from_frame`, `from_arrays`, `from_csv`, `from_parquet` or `igcf.load_dataset`: they check the values,
    map the ids to rows and resolve duplicates. The rows keep the order of the source.

    Example:
        >>> import igcf
        >>> data = igcf.Interactions.from_arrays(["ann", "bob", "ann"], ["tea", "tea", "coffee"], [5.0, 2.0, 4.0])
        >>> data
        <Interactions log: 3 reactions, 2 users, 2 items>
        >>> data.item_ids
        ('coffee', 'tea')
    """

    user_ids: tuple[str, ...]
    item_ids: tuple[str, ...]
    user_idx: IntArray
    """Row of `user_ids` of each reaction (int32)."""
    item_idx: IntArray
    """Row of `item_ids` of each reaction (int32)."""
    values: Float32Array
    """Reactions in the units of the log: stars, watch ratio, 0/1; NaN: without an opinion."""
    timestamps: IntArray | None = None
    """Seconds or any other number that grows with time (int64); `MISSING_TIME` where it is unknown."""
    titles: tuple[str, ...] | None = None
    """Title of each item."""
    categories: tuple[tuple[str, ...], ...] | None = None
    """Genres or tags of each item."""
    attributes: Attributes | None = None
    """What else is known of the items: numbers, tags, texts, when they may be shown."""
    name: str = "log"
    n_duplicates: int = field(default=0, compare=False)
    """Number of rows of the source that were replaced by a later reaction of the same user to the same item."""
    source_size: tuple[int, int, int] | None = field(default=None, compare=False)
    """Numbers of rows, users and items of the source, before duplicates and thresholds; None: as here."""
    kinds: Mapping[str, float] = field(default_factory=dict)
    """Value of each kind of feedback (view, like, purchase ...), where there are several."""
    layout: "LogLayout | None" = field(default=None, compare=False)
    """Columns of the table that the log was read from; None for arrays and for data sets known by name."""
    defects: "tuple[Defect, ...]" = field(default=(), compare=False)
    """What was noticed while the log was read, as `igcf data validate` reports it."""
    notes: tuple[str, ...] = field(default=(), compare=False)
    """Sentences about the table of items, and about what thresholds left."""
    rare_items: tuple[Item, ...] = field(default=(), compare=False)
    """Items with fewer reactions than `at_least` asked for; a model knows them through their content only."""
    users: "UserTable | None" = field(default=None, compare=False)
    """Attributes of users by id, where there are any."""
    context: "ContextColumns | None" = field(default=None, compare=False)
    """Features of the moments of the reactions, where there are any."""

    def __repr__(self) -> str:
        """Name the log and its size; the arrays themselves would fill screens."""
        return f"<Interactions {self.name}: {len(self):,} reactions, {self.n_users:,} users, {self.n_items:,} items>"

    def _repr_html_(self) -> str:
        """Show the size and the first reactions in a notebook."""
        first = zip(self.user_idx[:5], self.item_idx[:5], self.values[:5].tolist(), strict=True)
        rows = [(self.user_ids[user], self.item_ids[item], value) for user, item, value in first]
        return html_card(repr(self)[1:-1], ("user", "item", "value"), rows, len(self) - len(rows))

    @property
    def n_users(self) -> int:
        """Number of users, including those without a reaction in this part of the log."""
        return len(self.user_ids)

    @property
    def n_items(self) -> int:
        """Number of items, including those without a reaction in this part of the log."""
        return len(self.item_ids)

    def __len__(self) -> int:
        return len(self.values)

    @cached_property
    def item_row(self) -> dict[str, int]:
        """Row of each item id."""
        return {item_id: row for row, item_id in enumerate(self.item_ids)}

    @cached_property
    def is_implicit(self) -> bool:
        """Whether all reactions have the same value: each counts as a success."""
        return len(self.values) > 0 and bool(np.nanmin(self.values) == np.nanmax(self.values))

    @classmethod
    def from_arrays(
        cls,
        users: Sequence[object] | npt.NDArray[np.generic],
        items: Sequence[object] | npt.NDArray[np.generic],
        values: Sequence[float] | npt.NDArray[np.generic] | None = None,
        timestamps: Sequence[int] | npt.NDArray[np.generic] | None = None,
        *,
        name: str = "log",
    ) -> "Interactions":
        """Build a log from parallel sequences; ids may be strings or numbers and become strings.

        Of several reactions of one user to one item the latest counts: the largest timestamp, or the last row if
        there are no times or the times are equal.

        Args:
            users: id of the user of each reaction.
            items: id of its item.
            values: its value; None: every reaction counts as 1 (implicit feedback).
            timestamps: its time, in seconds since 1970 or any other unit that increases; None: unknown.
            name: what messages call the log.
        """
        from igcf.data.log_files import as_polars
        from igcf.data.reading import read_table

        values = np.ones(len(users), dtype=np.float32) if values is None else values
        parts = {"user": users, "item": items, "value": values, "timestamp": timestamps}
        columns = {name: part for name, part in parts.items() if part is not None}
        lengths = {name: len(part) for name, part in columns.items()}
        if len(set(lengths.values())) > 1:
            raise DataError(f"the columns differ in length: {lengths}; they must have one entry per reaction")
        return read_table(as_polars(columns), name=name)

    @classmethod
    def from_frame(cls, frame: object, *, name: str = "log", **columns: Any) -> "Interactions":
        """Build a log from a pandas or polars frame, one row per reaction; arguments as in `from_csv`."""
        from igcf.data.columns import Columns
        from igcf.data.reading import read_frame

        return read_frame(frame, Columns.of(columns), name=name)

    @classmethod
    def from_csv(cls, path: str | Path, **columns: Any) -> "Interactions":
        """Read a text file, compressed or not; columns that are not named are detected (docs/data.md), see `layout`.

        Args:
            path: The file.
            **columns: How to read it.
                `user`, `item`, `value`, `timestamp`: names of the columns; without a column of values every reaction
                counts as 1. In a file without header columns are called 1, 2, 3 ...
                `kind`: name of the column of the kinds of feedback, which `kinds` gives values, for instance
                `{"view": 1, "like": 4, "purchase": 5}`.
                `implicit`: count every reaction as 1, whatever its value.
                `unrated`: the value that stands for no opinion, for instance 0.
                `separator`: a comma, a tab, a semicolon, `|` or `::`. `encoding`: for instance `cp1252`.
                `has_header`: whether the first row holds the names of the columns.
        """
        return cls.from_parquet(path, **columns)

    @classmethod
    def from_parquet(cls, path: str | Path, **columns: Any) -> "Interactions":
        """Read a Parquet file, or a folder of them; arguments as in `from_csv`."""
        from igcf.data.columns import Columns
        from igcf.data.reading import read_files

        return read_files(Path(path), Columns.of(columns))

    def with_items(self, items: "str | Path | object") -> "Interactions":
        """Return the same log with the attributes of its items, from a file or frame (docs/data.md)."""
        from igcf.data.items import read_items

        return read_items(items, id_name="item" if self.layout is None else self.layout.item).describe(self)

    def with_users(self, users: "str | Path | object", without: Sequence[str] = ()) -> "Interactions":
        """Return the same log with the attributes of its users: a file or frame, one row per user (docs/data.md).

        Args:
            users: a column `user`, or named as in the log, then one column per attribute.
            without: columns to leave out.
        """
        from igcf.data.users import read_users

        table = read_users(users, without, "user" if self.layout is None else self.layout.user)
        n_known = sum(user_id in table.row_of for user_id in self.user_ids)
        if not n_known:
            raise DataError(
                f"no user of the log is in the table of users; the log has {self.user_ids[0]!r}, the table "
                f"{next(iter(table.row_of), None)!r}: expected the same ids in both"
            )
        known = f"{n_known:,} of {self.n_users:,} users of the log are in the table of users"
        return replace(self, users=table, notes=(*self.notes, table.sentence, known))

    def with_context(self, names: Sequence[str], table: "str | Path | object" = None) -> "Interactions":
        """Return the same log with features of the moments of its reactions (docs/data.md).

        Args:
            names: columns of `table`; `hour` is derived from the times of the log if no column has that name.
            table: the file or frame that the log was read from.
        """
        from igcf.data.users import read_context

        context = read_context(self, names, table)
        return replace(self, context=context, notes=(*self.notes, context.sentence))

    def at_least(self, item_reactions: int = 1, user_reactions: int = 1) -> "Interactions":
        """Return the reactions to items with enough of them, by users with enough of these.

        The other items become `rare_items`, which a model knows through their content; the other users are left out.
        """
        if max(item_reactions, user_reactions) <= 1:
            return self
        is_frequent = np.bincount(self.item_idx, minlength=self.n_items) >= item_reactions
        is_kept = is_frequent[self.item_idx]
        is_active = np.bincount(self.user_idx[is_kept], minlength=self.n_users) >= max(user_reactions, 1)
        is_kept &= is_active[self.user_idx]
        if not is_kept.any():
            raise DataError(
                f"no reaction of {self.name} is left with min_item_reactions= {item_reactions} and "
                f"min_user_reactions= {user_reactions}; choose smaller ones"
            )
        rows, user_rows = np.flatnonzero(is_frequent).tolist(), np.flatnonzero(is_active)
        new_item = np.cumsum(is_frequent, dtype=np.int32) - np.int32(1)
        kept = self.subset(is_kept).only_users(user_rows)
        note = (
            f"kept: {len(rows):,} of {self.n_items:,} items with at least {item_reactions} reactions, "
            f"{len(user_rows):,} of {self.n_users:,} users with at least {user_reactions}, {len(kept):,} of "
            f"{len(self):,} reactions; the other items enter through their content"
        )
        return replace(
            kept,
            source_size=self.source_size or (len(self) + self.n_duplicates, self.n_users, self.n_items),
            item_ids=tuple(self.item_ids[row] for row in rows),
            item_idx=new_item[kept.item_idx],
            titles=self.titles and tuple(self.titles[row] for row in rows),
            categories=self.categories and tuple(self.categories[row] for row in rows),
            attributes=self.attributes and self.attributes.taken(rows),
            rare_items=(*self.rare_items, *map(self.item, np.flatnonzero(~is_frequent).tolist())),
            notes=(*self.notes, note),
        )

    def item(self, row: int) -> Item:
        """Return an item with its attributes."""
        return Item(
            self.item_ids[row],
            title=None if self.titles is None else self.titles[row],
            categories=() if self.categories is None else self.categories[row],
            **({} if self.attributes is None else self.attributes.of(row)),
        )

    def described(self, known: Mapping[str, Item]) -> "Interactions":
        """Return the same log with what is known of its items by id; each keeps what is not said anew."""

        def now(item: Item) -> Item:
            found = known.get(item.id, item)
            return replace(item, **{each.name: value for each in fields(Item) if (value := getattr(found, each.name))})

        rows = [now(self.item(row)) for row in range(self.n_items)]
        attributes = Attributes.from_items(rows)
        return replace(
            self,
            titles=tuple(item.title or item.id for item in rows) if any(item.title for item in rows) else self.titles,
            categories=tuple(item.categories for item in rows)
            if any(item.categories for item in rows)
            else self.categories,
            attributes=None if attributes.is_empty else attributes,
            rare_items=tuple(map(now, self.rare_items)),
        )

    def subset(self, rows: BoolArray | IntArray) -> "Interactions":
        """Return the reactions at `rows`; users and items keep their row numbers, also those without any left."""
        return replace(
            self,
            user_idx=self.user_idx[rows],
            item_idx=self.item_idx[rows],
            values=self.values[rows],
            timestamps=None if self.timestamps is None else self.timestamps[rows],
            context=self.context and self.context.taken(rows),
        )

    def only_users(self, rows: IntArray) -> "Interactions":
        """Return the reactions of the users at `rows`, who become users 0, 1, ... in that order; items keep theirs."""
        new_row = np.full(self.n_users, -1, dtype=np.int32)
        new_row[rows] = np.arange(len(rows), dtype=np.int32)
        part = self.subset(new_row[self.user_idx] >= 0)
        return replace(part, user_ids=tuple(self.user_ids[row] for row in rows), user_idx=new_row[part.user_idx])

    def with_users_of(self, other: "Interactions") -> "Interactions":
        """Return this log followed by the reactions of other users to the same items; times only if both have them."""
        if other.item_ids != self.item_ids:
            raise DataError(
                f"the log {other.name!r} has {other.n_items} items, {self.name!r} {self.n_items}; "
                "both must have the same items in the same order"
            )
        if again := set(self.user_ids).intersection(other.user_ids):
            raise DataError(f"user {min(again)!r} is in both logs ({len(again)} such users); expected different users")
        times = [log.timestamps for log in (self, other) if log.timestamps is not None]
        return replace(
            self,
            user_ids=self.user_ids + other.user_ids,
            user_idx=np.concatenate([self.user_idx, other.user_idx + np.int32(self.n_users)]),
            item_idx=np.concatenate([self.item_idx, other.item_idx]),
            values=np.concatenate([self.values, other.values]),
            timestamps=np.concatenate(times) if len(times) == 2 else None,
            context=None,
        )

    def matrix(self, values: npt.NDArray[np.generic] | None = None) -> sp.csr_array:
        """Return users x items in CSR form; `values` replaces the log's values, one per reaction."""
        data = self.values if values is None else values
        return sp.csr_array((data, (self.user_idx, self.item_idx)), shape=(self.n_users, self.n_items))

    def first_appearances(self) -> IntArray | None:
        """Return the time of each item's first reaction, (items,); `MISSING_TIME` where unknown; None: no times."""
        if self.timestamps is None:
            return None
        first = np.full(self.n_items, np.iinfo(np.int64).max)
        np.minimum.at(first, self.item_idx, self.timestamps)
        return np.where(first == np.iinfo(np.int64).max, MISSING_TIME, first)

    def dense(self) -> Float32Array:
        """Return users x items with NaN where there is no reaction; for the few hundred users of an experiment."""
        table = np.full((self.n_users, self.n_items), np.nan, dtype=np.float32)
        table[self.user_idx, self.item_idx] = self.values
        return table

    def fingerprint(self) -> str:
        """Return a short hash of ids, values and times, equal for logs with the same reactions in the same order."""
        digest = hashlib.sha256()
        for ids in (self.user_ids, self.item_ids):
            digest.update("\0".join(ids).encode())
        for column in (self.user_idx, self.item_idx, self.values, self.timestamps):
            digest.update(b"-" if column is None else np.ascontiguousarray(column).tobytes())
        if self.users is not None and not self.users.is_of_dataset:
            digest.update(repr(self.users.columns).encode())
        return digest.hexdigest()[:16]
