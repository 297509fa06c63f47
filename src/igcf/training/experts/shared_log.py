"""A log divided by users among workers, as the process that leads the training sees it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from igcf.arrays import Float32Array, IntArray
from igcf.data.interactions import MISSING_TIME, Interactions
from igcf.training.experts.executor import Executor, Worker

NOBODY = np.empty(0, dtype=np.int64)
NEVER = np.iinfo(np.int64).max


@dataclass(frozen=True, eq=False)
class Part:
    """Reactions of consecutive users of a log, in the order of users and items."""

    n_items: int
    indptr: IntArray  # where the reactions of each user begin, (users + 1,)
    items: IntArray
    values: Float32Array
    times: IntArray | None  # times of the reactions; None where the log has none

    @classmethod
    def of(cls, log: Interactions) -> "Part":
        """Return a whole log as one part."""
        shape = (log.n_users, log.n_items)
        numbered = sp.csr_array((np.arange(len(log)), (log.user_idx, log.item_idx)), shape=shape)
        numbered.sort_indices()
        order, times = numbered.data, None if log.timestamps is None else log.timestamps[numbered.data]
        return cls(log.n_items, numbered.indptr, numbered.indices, log.values[order], times)

    @classmethod
    def load(cls, folder: Path) -> "Part":
        """Open a part that `save` wrote; its columns stay on disk until they are read."""
        columns = {file.stem: np.lib.format.open_memmap(file, mode="r") for file in folder.glob("*.npy")}
        n_items = int(columns["n_items"])
        return cls(n_items, *(columns.get(name) for name in ("indptr", "items", "values", "times")))  # type: ignore[arg-type]

    def save(self, folder: Path) -> None:
        """Write one file per column."""
        folder.mkdir(parents=True, exist_ok=True)
        for name in ("n_items", "indptr", "items", "values", "times"):
            if (column := getattr(self, name)) is not None:
                np.save(folder / f"{name}.npy", np.asarray(column), allow_pickle=False)

    def users(self, first: int, last: int) -> "Part":
        """Return the users of some consecutive rows."""
        rows = slice(int(self.indptr[first]), int(self.indptr[last]))
        times = None if self.times is None else self.times[rows]
        indptr = self.indptr[first : last + 1] - self.indptr[first]
        return Part(self.n_items, indptr, self.items[rows], self.values[rows], times)

    @property
    def n_users(self) -> int:
        """Number of users, also those without a reaction."""
        return len(self.indptr) - 1

    def kept(self, without: IntArray) -> IntArray:
        """Return the users who reacted, except some."""
        reacted = np.flatnonzero(np.diff(self.indptr))
        return reacted[~np.isin(reacted, without)] if len(without) else reacted

    def table(self, users: IntArray, threshold: float) -> sp.csr_array:
        """Return (users, items) ones where a reaction has at least this value."""
        rows, indptr = self._rows(users)
        items = self.items[rows]
        is_in = (self.values[rows] >= threshold) | (threshold == -np.inf)  # NaN: a reaction without an opinion
        if not is_in.all():
            before = np.concatenate([[0], np.cumsum(is_in)])
            items, indptr = items[is_in], before[indptr]
        kind = np.int32 if len(items) < np.iinfo(np.int32).max else np.int64
        data = np.ones(len(items), dtype=np.float32)
        return sp.csr_array((data, items.astype(kind), indptr.astype(kind)), shape=(len(users), self.n_items))

    def _rows(self, users: IntArray) -> tuple[IntArray | slice, IntArray]:
        """Return which reactions are those of some users in ascending order, and where each of them begins."""
        counts = np.diff(self.indptr)
        indptr = np.concatenate([[0], np.cumsum(counts[users])])
        if indptr[-1] == self.indptr[-1]:
            return slice(None), indptr
        is_in = np.zeros(self.n_users, dtype=np.bool_)
        is_in[users] = True
        return np.flatnonzero(np.repeat(is_in, counts)), indptr


def levels(worker: Worker, without: IntArray) -> tuple[Float32Array, IntArray]:
    """Return the distinct values and their numbers; reactions without an opinion have none."""
    rows, _ = worker.part._rows(worker.part.kept(without))
    values = worker.part.values[rows]
    found, counts = np.unique(values[~np.isnan(values)], return_counts=True)
    return found, counts


def activities(worker: Worker) -> IntArray:
    """Return the number of reactions of each user."""
    return np.diff(worker.part.indptr)


def item_counts(worker: Worker, threshold: float, without: IntArray) -> IntArray:
    """Return the number of users with a reaction of at least this value to each item."""
    part = worker.part
    rows, _ = part._rows(part.kept(without))
    return np.bincount(part.items[rows][part.values[rows] >= threshold], minlength=part.n_items)


def reactions_of(worker: Worker, users: IntArray) -> tuple[IntArray, IntArray, Float32Array, IntArray | None]:
    """Return numbers of reactions, items, values and times of some users in ascending order."""
    part = worker.part
    rows, indptr = part._rows(users)
    times = None if part.times is None else np.asarray(part.times[rows])
    return np.diff(indptr), np.asarray(part.items[rows]), np.asarray(part.values[rows]), times


def table_of(worker: Worker, users: IntArray, threshold: float) -> tuple[IntArray, IntArray]:
    """Return numbers of reactions of at least this value and their items, of some users in ascending order."""
    table = worker.part.table(users, threshold)
    return np.diff(table.indptr), table.indices


def appearances(worker: Worker, without: IntArray) -> IntArray | None:
    """Return the smallest time of each item, (items,); `NEVER` without a reaction; None where the log has no times."""
    part = worker.part
    if part.times is None:
        return None
    times = np.full(part.n_items, NEVER)
    rows, _ = part._rows(part.kept(without))
    np.minimum.at(times, part.items[rows], part.times[rows])
    return times


def shares_of(users: IntArray, bounds: Sequence[int]) -> list[tuple[IntArray]]:
    """Divide user rows of a log, in ascending order, among its parts, with the rows that they have there."""
    places = np.searchsorted(users, bounds)
    return [
        (users[start:stop] - bound,) for start, stop, bound in zip(places[:-1], places[1:], bounds[:-1], strict=True)
    ]


@dataclass(frozen=True, eq=False)
class SharedLog:
    """A log without reactions in this process: it asks the workers, and adds up what they answer."""

    executor: Executor
    catalogue: Interactions  # the items, the name and the kinds of the log; without its reactions
    bounds: tuple[int, ...]  # row of the first user of each worker, and the number of users
    without: IntArray  # rows of users who are left out, ascending
    fingerprint: Callable[[], str]  # returns a short hash of the whole log
    items: IntArray | None = None  # rows of the only items to read, ascending; None: all

    @classmethod
    def of(cls, log: Interactions) -> "SharedLog":
        """Return a log in memory as one with a single worker, this process."""
        worker = Worker(Part.of(log))
        return cls(Executor(worker), catalogue_of(log), (0, log.n_users), NOBODY, log.fingerprint)

    def without_users(self, users: IntArray) -> "SharedLog":
        """Return the log without some of its users."""
        return replace(self, without=np.union1d(self.without, users))

    def only_items(self, items: IntArray | None) -> "SharedLog":
        """Return the log restricted to some items, given by ascending rows; None: the whole log."""
        if items is None:
            return self
        ids = self.catalogue.item_ids
        none = np.empty(0, dtype=np.int32)
        catalogue = Interactions(
            (), tuple(ids[row] for row in items), none, none, none.astype(np.float32), name=self.catalogue.name
        )
        return replace(self, catalogue=catalogue, items=items)

    @property
    def n_items(self) -> int:
        """Number of items."""
        return self.catalogue.n_items

    @property
    def n_users(self) -> int:
        """Number of users, also those who are left out or have no reaction."""
        return self.bounds[-1]

    @property
    def n_reactions(self) -> int:
        """Number of reactions."""
        return int(self.activities.sum())

    @cached_property
    def activities(self) -> IntArray:
        """Number of reactions of each user, 0 for those who are left out."""
        counts = np.concatenate(self.executor.call(activities))
        counts[self.without] = 0
        return counts

    @cached_property
    def users(self) -> IntArray:
        """Rows of the users who reacted and are not left out."""
        return np.flatnonzero(self.activities)

    @cached_property
    def levels(self) -> tuple[Float32Array, IntArray]:
        """Distinct values and their numbers."""
        found = self.executor.call(levels, each=self.left_out())
        values, places = np.unique(np.concatenate([levels for levels, _ in found]), return_inverse=True)
        counts = np.concatenate([counts for _, counts in found])
        return values, np.bincount(places, weights=counts).astype(np.int64)

    def item_counts(self, threshold: float = -np.inf) -> IntArray:
        """Return the number of users with a reaction of at least this value to each item."""
        counts = np.sum(self.executor.call(item_counts, threshold, each=self.left_out()), axis=0)
        return np.asarray(counts if self.items is None else counts[self.items])

    def left_out(self) -> list[tuple[IntArray]]:
        """Return the rows at each worker of the users who are left out."""
        return shares_of(self.without, self.bounds)

    def only_users(self, users: IntArray) -> Interactions:
        """Return the reactions of some users, who become users 0, 1, ...; rows must ascend."""
        found = self.executor.call(reactions_of, each=shares_of(users, self.bounds))
        counts, items, values = (np.concatenate([each[place] for each in found]) for place in range(3))
        times = None if found[0][3] is None else np.concatenate([each[3] for each in found])
        rows = np.repeat(np.arange(len(users), dtype=np.int32), counts)
        if self.items is not None:
            place = np.searchsorted(self.items, items)
            is_in = self.items[np.minimum(place, len(self.items) - 1)] == items
            rows, items, values = rows[is_in], place[is_in].astype(np.int32), values[is_in]
            times = None if times is None else times[is_in]
        ids = tuple(map(str, users.tolist()))
        return replace(self.catalogue, user_ids=ids, user_idx=rows, item_idx=items, values=values, timestamps=times)

    def table(self, users: IntArray, threshold: float) -> sp.csr_array:
        """Return ones where a reaction of one of some users, who ascend, has at least this value, (users, items)."""
        each = [(*own, threshold) for own in shares_of(users, self.bounds)]
        found = self.executor.call(table_of, each=each)
        counts, items = (np.concatenate([each[place] for each in found]) for place in range(2))
        indptr = np.concatenate([[0], np.cumsum(counts)])
        data = np.ones(len(items), dtype=np.float32)
        n_items = self.n_items if self.items is None else int(max(self.items[-1], items.max(initial=0))) + 1
        table = sp.csr_array((data, items, indptr), shape=(len(users), n_items))
        return table if self.items is None else sp.csr_array(table[:, self.items])

    def first_appearances(self) -> IntArray | None:
        """Return the time of each item's first reaction, (items,); `MISSING_TIME` where unknown; None: no times."""
        found = self.executor.call(appearances, each=self.left_out())
        if found[0] is None:
            return None
        first = np.min(found, axis=0)
        first = first if self.items is None else first[self.items]
        return np.where(first == NEVER, MISSING_TIME, first)


def catalogue_of(log: Interactions) -> Interactions:
    """Return a log without its users and reactions."""
    return replace(log.subset(np.empty(0, dtype=np.int64)), user_ids=(), timestamps=None)
