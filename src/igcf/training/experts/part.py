"""The reactions of some users, as one worker holds them, and what is asked of them."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp

from igcf.arrays import Float32Array, IntArray
from igcf.data.interactions import Interactions

if TYPE_CHECKING:
    from igcf.training.experts.linear import LinearRows
    from igcf.training.experts.logistic_steps import Sample
    from igcf.training.experts.neighbours import Counts

NEVER = np.iinfo(np.int64).max


@dataclass(frozen=True, eq=False)
class Part:
    """Reactions of consecutive users of a log, in the order of users and items."""

    n_items: int
    indptr: IntArray
    """Where the reactions of each user begin, (users + 1,)."""
    items: IntArray
    values: Float32Array
    times: IntArray | None
    """Times of the reactions; None where the log has none."""

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
        """Open a part that `save` wrote; its columns stay on disk until they are looked at."""
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
        is_in = (self.values[rows] >= threshold) | (threshold == -np.inf)  # NaN: met without an opinion
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


class Worker:
    """What one worker holds: its part of the log, and what the current stage of training needs."""

    def __init__(self, part: Part | None = None) -> None:
        self._part = part
        self.linear: LinearRows | None = None
        self.sample: Sample | None = None
        self.counts: Counts | None = None
        self.truth: Float32Array | None = None

    def hold(self, part: Part) -> None:
        """Take other users."""
        self._part, self.linear = part, None

    @property
    def part(self) -> Part:
        """The users of this worker."""
        assert self._part is not None, "this worker holds no users"  # noqa: S101
        return self._part


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
    """Return the number of users whose reaction to each item has at least this value."""
    part = worker.part
    rows, _ = part._rows(part.kept(without))
    return np.bincount(part.items[rows][part.values[rows] >= threshold], minlength=part.n_items)


def reactions_of(worker: Worker, users: IntArray) -> tuple[IntArray, IntArray, Float32Array]:
    """Return numbers of reactions, items and values of some users in ascending order."""
    rows, indptr = worker.part._rows(users)
    return np.diff(indptr), np.asarray(worker.part.items[rows]), np.asarray(worker.part.values[rows])


def successes_of(worker: Worker, users: IntArray, threshold: float) -> tuple[IntArray, IntArray]:
    """Return numbers of successes and their items of some users in ascending order."""
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
