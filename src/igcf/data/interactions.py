"""The interaction log in memory: string ids on the outside, matrix rows on the inside."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from igcf.arrays import BoolArray, Float32Array, IntArray
from igcf.attributes import Attributes
from igcf.errors import DataError
from igcf.notebooks import html_card

if TYPE_CHECKING:
    from igcf.data.layout import LogLayout

MISSING_TIME = np.iinfo(np.int64).min
"""Timestamp of a reaction whose time is unknown, in a log where others have one: it sorts before all of them."""


@dataclass(frozen=True, eq=False, repr=False)
class Interactions:
    """Log of who reacted to what, how and, where known, when: one row per reaction, at most one per user and item.

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
    """Reactions in the units of the log: stars, watch ratio, 0/1."""
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
    kinds: Mapping[str, float] = field(default_factory=dict)
    """Value of each kind of feedback (view, like, purchase ...), where there are several."""
    layout: "LogLayout | None" = field(default=None, compare=False)
    """Columns of the table that the log was read from; None for arrays and for data sets known by name."""

    def __repr__(self) -> str:
        """Name the log and its size; the arrays themselves would fill screens."""
        return f"<Interactions {self.name}: {len(self):,} reactions, {self.n_users:,} users, {self.n_items:,} items>"

    def _repr_html_(self) -> str:
        """Show the size and the first reactions in a notebook."""
        rows = [
            (self.user_ids[self.user_idx[n]], self.item_ids[self.item_idx[n]], float(self.values[n]))
            for n in range(min(len(self), 5))
        ]
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
        return len(self.values) > 0 and bool(self.values.min() == self.values.max())

    @classmethod
    def from_arrays(
        cls,
        users: Sequence[object] | npt.NDArray[np.generic],
        items: Sequence[object] | npt.NDArray[np.generic],
        values: Sequence[float] | npt.NDArray[np.generic] | None = None,
        timestamps: Sequence[int] | npt.NDArray[np.generic] | None = None,
        *,
        titles: Mapping[str, str] | None = None,
        name: str = "log",
    ) -> "Interactions":
        """Build a log from parallel sequences; ids may be strings or numbers and become strings.

        Of several reactions of one user to one item the latest counts: the largest timestamp, or the last row where
        there is no time or the times are equal. Without `values` every reaction counts as 1 (implicit feedback).
        `titles` maps item ids to titles.
        """
        from igcf.data.frames import interactions_from_frame, log_frame

        values = np.ones(len(users), dtype=np.float32) if values is None else values
        frame = log_frame(users, items, values, timestamps)
        return interactions_from_frame(frame, name=name).with_titles(titles)

    @classmethod
    def from_frame(  # noqa: PLR0913  (one parameter per column)
        cls,
        frame: object,
        *,
        user: str | None = None,
        item: str | None = None,
        value: str | None = None,
        timestamp: str | None = None,
        kind: str | None = None,
        kinds: Mapping[str, float] | None = None,
        implicit: bool = False,
        titles: Mapping[str, str] | None = None,
        name: str = "log",
    ) -> "Interactions":
        """Build a log from a pandas or polars frame, one row per reaction; arguments as in `from_csv`."""
        from igcf.data.columns import Columns
        from igcf.data.frames import read_frame

        columns = Columns(user, item, value, timestamp, kind, implicit, dict(kinds or {}))
        return read_frame(frame, columns, name=name).with_titles(titles)

    @classmethod
    def from_csv(  # noqa: PLR0913  (one parameter per column)
        cls,
        path: str | Path,
        *,
        user: str | None = None,
        item: str | None = None,
        value: str | None = None,
        timestamp: str | None = None,
        kind: str | None = None,
        kinds: Mapping[str, float] | None = None,
        implicit: bool = False,
        separator: str | None = None,
        titles: Mapping[str, str] | None = None,
    ) -> "Interactions":
        """Read a text file (also gzipped) of columns; what is left out is found (docs/data.md), `layout` says what.

        Args:
            path: The file.
            user: Name of the column of the user ids; in a file without header columns are called 1, 2, 3 ...
            item: Name of the column of the item ids.
            value: Name of the column of the values; where there is none, every reaction counts as 1.
            timestamp: Name of the column of the times.
            kind: Name of the column of the kinds of feedback, which `kinds` gives values.
            kinds: Value of each kind of feedback, for instance `{"view": 1, "like": 4, "purchase": 5}`.
            implicit: Count every reaction as 1, whatever its value.
            separator: Between the columns: a comma, a tab, a semicolon, `|` or `::`.
            titles: Titles of items, by id.
        """
        from igcf.data.columns import Columns
        from igcf.data.frames import read_csv

        columns = Columns(user, item, value, timestamp, kind, implicit, dict(kinds or {}))
        return read_csv(Path(path), columns, separator=separator).with_titles(titles)

    @classmethod
    def from_parquet(  # noqa: PLR0913  (one parameter per column)
        cls,
        path: str | Path,
        *,
        user: str | None = None,
        item: str | None = None,
        value: str | None = None,
        timestamp: str | None = None,
        kind: str | None = None,
        kinds: Mapping[str, float] | None = None,
        implicit: bool = False,
        titles: Mapping[str, str] | None = None,
    ) -> "Interactions":
        """Read a Parquet file, or a folder of them; arguments as in `from_csv`."""
        from igcf.data.columns import Columns
        from igcf.data.frames import read_parquet

        columns = Columns(user, item, value, timestamp, kind, implicit, dict(kinds or {}))
        return read_parquet(Path(path), columns).with_titles(titles)

    def with_titles(self, titles: Mapping[str, str] | None) -> "Interactions":
        """Return the same log with titles by item id; an item without one keeps its id. None changes nothing."""
        if titles is None:
            return self
        known = {str(item_id): str(title) for item_id, title in titles.items()}
        return replace(self, titles=tuple(known.get(item_id, item_id) for item_id in self.item_ids))

    def with_items(self, items: "str | Path | object") -> "Interactions":
        """Return the same log with what a table of items, a file or a frame, says of them (docs/data.md)."""
        from igcf.data.items import read_items

        return read_items(items).describe(self)

    def as_implicit(self) -> "Interactions":
        """Return the same log in which every reaction counts as 1."""
        return replace(self, values=np.ones_like(self.values))

    def with_catalogue(
        self,
        titles: tuple[str, ...] | None,
        categories: tuple[tuple[str, ...], ...] | None,
        attributes: Attributes | None = None,
    ) -> "Interactions":
        """The same log with item titles, categories and further attributes, one entry per item."""
        for what, column in (("titles", titles), ("categories", categories)):
            if column is not None and len(column) != self.n_items:
                raise DataError(f"{what} has {len(column)} entries, the log has {self.n_items} items")
        if attributes is not None and attributes.n_items != self.n_items:
            raise DataError(f"attributes has {attributes.n_items} entries, the log has {self.n_items} items")
        return replace(self, titles=titles, categories=categories, attributes=attributes)

    def subset(self, rows: BoolArray | IntArray) -> "Interactions":
        """Return the reactions at `rows`; users and items keep their row numbers, also those without any left."""
        return replace(
            self,
            user_idx=self.user_idx[rows],
            item_idx=self.item_idx[rows],
            values=self.values[rows],
            timestamps=None if self.timestamps is None else self.timestamps[rows],
        )

    def only_users(self, rows: IntArray) -> "Interactions":
        """Return the reactions of the users at `rows`, who become users 0, 1, ... in that order; items keep theirs."""
        new_row = np.full(self.n_users, -1, dtype=np.int32)
        new_row[rows] = np.arange(len(rows), dtype=np.int32)
        part = self.subset(new_row[self.user_idx] >= 0)
        return replace(part, user_ids=tuple(self.user_ids[row] for row in rows), user_idx=new_row[part.user_idx])

    def with_users_of(self, other: "Interactions") -> "Interactions":
        """Return this log followed by the reactions of other users to the same items; times only where both have."""
        if other.item_ids != self.item_ids:
            raise DataError(
                f"the log {other.name!r} has {other.n_items} items, {self.name!r} {self.n_items}; "
                "both must have the same items in the same order"
            )
        again = set(self.user_ids).intersection(other.user_ids)
        if again:
            raise DataError(f"user {min(again)!r} is in both logs ({len(again)} such users); expected different users")
        times = [log.timestamps for log in (self, other) if log.timestamps is not None]
        return replace(
            self,
            user_ids=self.user_ids + other.user_ids,
            user_idx=np.concatenate([self.user_idx, other.user_idx + np.int32(self.n_users)]),
            item_idx=np.concatenate([self.item_idx, other.item_idx]),
            values=np.concatenate([self.values, other.values]),
            timestamps=np.concatenate(times) if len(times) == 2 else None,
        )

    def matrix(self, values: npt.NDArray[np.generic] | None = None) -> sp.csr_array:
        """Return users x items in CSR form; `values` replaces the log's values, one per reaction."""
        data = self.values if values is None else values
        shape = (self.n_users, self.n_items)
        return sp.csr_array((data, (self.user_idx, self.item_idx)), shape=shape)

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
        return digest.hexdigest()[:16]
