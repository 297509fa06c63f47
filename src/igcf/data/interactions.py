"""The interaction log in memory: string ids on the outside, matrix rows on the inside."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from igcf.arrays import BoolArray, Float32Array, IntArray
from igcf.errors import DataError

MISSING_TIME = np.iinfo(np.int64).min
"""Timestamp of a reaction whose time is unknown, in a log where others have one: it sorts before all of them."""


@dataclass(frozen=True, eq=False)
class Interactions:
    """Log of who reacted to what, how and, where known, when: one row per reaction, at most one per user and item.

    Build it with `from_arrays`, `from_csv`, `from_parquet` or `igcf.load_dataset`: they check the values, map the ids
    to rows and resolve duplicates. The rows keep the order of the source.
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
    name: str = "log"
    n_duplicates: int = field(default=0, compare=False)
    """Number of rows of the source that were replaced by a later reaction of the same user to the same item."""

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

    @classmethod
    def from_arrays(
        cls,
        users: Sequence[object] | npt.NDArray[np.generic],
        items: Sequence[object] | npt.NDArray[np.generic],
        values: Sequence[float] | npt.NDArray[np.generic],
        timestamps: Sequence[int] | npt.NDArray[np.generic] | None = None,
        *,
        name: str = "log",
    ) -> "Interactions":
        """Build a log from parallel sequences; ids may be strings or numbers and become strings.

        Of several reactions of one user to one item the latest counts: the largest timestamp, or the last row where
        there is no time or the times are equal.
        """
        from igcf.data.frames import interactions_from_frame, log_frame

        return interactions_from_frame(log_frame(users, items, values, timestamps), name=name)

    @classmethod
    def from_csv(
        cls,
        path: str | Path,
        *,
        user: str = "user",
        item: str = "item",
        value: str = "value",
        timestamp: str | None = None,
        separator: str = ",",
    ) -> "Interactions":
        """Read a CSV file (also gzipped) with a header.

        `timestamp` names the column of times; without it a column called `timestamp` is used when there is one.
        """
        from igcf.data.columns import Columns
        from igcf.data.frames import read_csv

        return read_csv(Path(path), Columns(user, item, value, timestamp), separator=separator)

    @classmethod
    def from_parquet(
        cls,
        path: str | Path,
        *,
        user: str = "user",
        item: str = "item",
        value: str = "value",
        timestamp: str | None = None,
    ) -> "Interactions":
        """Read a Parquet file, or a folder of them, with named columns; `timestamp` as in `from_csv`."""
        from igcf.data.columns import Columns
        from igcf.data.frames import read_parquet

        return read_parquet(Path(path), Columns(user, item, value, timestamp))

    def with_catalogue(
        self, titles: tuple[str, ...] | None, categories: tuple[tuple[str, ...], ...] | None
    ) -> "Interactions":
        """The same log with item titles and categories, one entry per item."""
        for what, column in (("titles", titles), ("categories", categories)):
            if column is not None and len(column) != self.n_items:
                raise DataError(f"{what} has {len(column)} entries, the log has {self.n_items} items")
        return replace(self, titles=titles, categories=categories)

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
