"""A log whose users are divided among workers, as the process that leads the training sees it."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import scipy.sparse as sp

from igcf.arrays import Float32Array, IntArray
from igcf.data.interactions import MISSING_TIME, Interactions
from igcf.training.experts import part
from igcf.training.experts.executor import Executor, InProcess

NOBODY = np.empty(0, dtype=np.int64)


@dataclass(frozen=True, eq=False)
class SharedLog:
    """A log of which this process holds no reaction: it asks the workers, and adds up what they answer."""

    executor: Executor
    catalogue: Interactions
    """The items, the name and the kinds of the log; without its reactions."""
    bounds: tuple[int, ...]
    """Row of the first user of each worker, and the number of users."""
    without: IntArray
    """Rows of users who are left out, ascending."""
    fingerprint: Callable[[], str]
    """Returns a short hash of the whole log."""
    items: IntArray | None = None
    """Rows of the only items that are looked at, ascending; None: all."""

    @classmethod
    def of(cls, log: Interactions) -> "SharedLog":
        """Return a log in memory as one with a single worker, this process."""
        worker = part.Worker(part.Part.of(log))
        return cls(InProcess(worker), catalogue_of(log), (0, log.n_users), NOBODY, log.fingerprint)

    def without_users(self, users: IntArray) -> "SharedLog":
        """Return the log without some of its users."""
        return replace(self, without=np.union1d(self.without, users))

    def only_items(self, items: IntArray | None) -> "SharedLog":
        """Return the log as if only some items, whose rows ascend, were in it; None: as it is."""
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
        counts = np.concatenate(self.executor.call(part.activities))
        counts[self.without] = 0
        return counts

    @cached_property
    def users(self) -> IntArray:
        """Rows of the users who reacted and are not left out."""
        return np.flatnonzero(self.activities)

    @cached_property
    def levels(self) -> tuple[Float32Array, IntArray]:
        """Distinct values and their numbers."""
        found = self.executor.call(part.levels, each=self.left_out())
        values, places = np.unique(np.concatenate([levels for levels, _ in found]), return_inverse=True)
        counts = np.concatenate([counts for _, counts in found])
        return values, np.bincount(places, weights=counts).astype(np.int64)

    def item_counts(self, threshold: float = -np.inf) -> IntArray:
        """Return the number of users whose reaction to each item has at least this value."""
        counts = np.sum(self.executor.call(part.item_counts, threshold, each=self.left_out()), axis=0)
        return np.asarray(counts if self.items is None else counts[self.items])

    def left_out(self) -> list[tuple[IntArray]]:
        """Return the rows at each worker of the users who are left out."""
        return part.shares_of(self.without, self.bounds)

    def only_users(self, users: IntArray) -> Interactions:
        """Return the reactions of some users, who become users 0, 1, ..., without times; rows must ascend."""
        found = self.executor.call(part.reactions_of, each=part.shares_of(users, self.bounds))
        counts, items, values = (np.concatenate([each[place] for each in found]) for place in range(3))
        rows = np.repeat(np.arange(len(users), dtype=np.int32), counts)
        if self.items is not None:
            place = np.searchsorted(self.items, items)
            is_in = self.items[np.minimum(place, len(self.items) - 1)] == items
            rows, items, values = rows[is_in], place[is_in].astype(np.int32), values[is_in]
        ids = tuple(map(str, users.tolist()))
        return replace(self.catalogue, user_ids=ids, user_idx=rows, item_idx=items, values=values)

    def successes(self, threshold: float, users: IntArray) -> sp.csr_array:
        """Return ones where a reaction of one of some users, who ascend, has at least this value, (users, items)."""
        each = [(*own, threshold) for own in part.shares_of(users, self.bounds)]
        found = self.executor.call(part.successes_of, each=each)
        counts, items = (np.concatenate([each[place] for each in found]) for place in range(2))
        indptr = np.concatenate([[0], np.cumsum(counts)])
        data = np.ones(len(items), dtype=np.float32)
        n_items = self.n_items if self.items is None else int(max(self.items[-1], items.max(initial=0))) + 1
        table = sp.csr_array((data, items, indptr), shape=(len(users), n_items))
        return table if self.items is None else sp.csr_array(table[:, self.items])

    def first_appearances(self) -> IntArray | None:
        """Return the time of each item's first reaction, (items,); `MISSING_TIME` where unknown; None: no times."""
        found = self.executor.call(part.appearances, each=self.left_out())
        if found[0] is None:
            return None
        first = np.min(found, axis=0)
        first = first if self.items is None else first[self.items]
        return np.where(first == part.NEVER, MISSING_TIME, first)


def catalogue_of(log: Interactions) -> Interactions:
    """Return a log without its users and reactions."""
    return replace(log.subset(np.empty(0, dtype=np.int64)), user_ids=(), timestamps=None)
