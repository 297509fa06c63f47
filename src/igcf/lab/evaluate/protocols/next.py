"""`next`: known users across time: what will they like after a moment, given everything before it?"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from igcf.arrays import BoolArray
from igcf.data import Interactions
from igcf.data.splits import has_all_times
from igcf.errors import ConfigError, DataError
from igcf.lab.baselines import Task
from igcf.lab.evaluate.protocols.base import Case, Session, Setup, Users
from igcf.lab.evaluate.protocols.ranking import FIT_ROUNDS, LEAST_USERS, Ranking


@dataclass(frozen=True)
class Next(Ranking):
    """Users with a past and a future: all that happened before a moment is the log, what they like later is hidden.

    Everything before the moment may be learned from, the past of the test users included. Settings are tuned at an
    earlier moment: the same share of the log again.
    """

    name: ClassVar[str] = "next"
    methods: ClassVar[tuple[str, ...]] = ("pop", "pop-recent", "item-knn", "ease", "als", "graph-filter", "igcf")
    tuned_under: ClassVar[tuple[str, ...]] = ()
    n_users: ClassVar[int] = 2000
    moment: float = 0.8
    """Share of the reactions that happened before the moment."""

    def __post_init__(self) -> None:
        """Refuse a moment outside the log."""
        if not 0 < self.moment < 1:
            raise ConfigError(f"the moment must lie between 0 and 1, got {self.moment}")

    def prepare(self, data: Interactions, setup: Setup, seed: int, users: Users) -> Case:
        """Split the log at the moment; for tuning, split what comes before it once more."""
        if users == "validation":
            data = data.subset(before(data, self.moment))
        is_past = before(data, self.moment)
        log, later = data.subset(is_past), data.subset(~is_past & (data.values >= setup.satisfied))
        in_log = np.bincount(log.item_idx, minlength=data.n_items) > 0
        later = later.subset(in_log[later.item_idx])
        n_past, n_later = (np.bincount(part.user_idx, minlength=data.n_users) for part in (log, later))
        rng = np.random.default_rng(seed)
        able = rng.permutation(np.flatnonzero((n_past >= setup.min_reactions) & (n_later > 0)))
        if len(able) < LEAST_USERS:
            raise DataError(
                f"{len(able)} users of {data.name} have {setup.min_reactions} reactions before the moment and a "
                f"success after it; this protocol needs {LEAST_USERS}; lower --min-reactions or change --moment"
            )
        tested = np.sort(able[: setup.n_users])
        enough = rng.permutation(np.flatnonzero(n_past >= setup.min_reactions))
        validation = np.sort(enough[: min(setup.n_validation, len(enough) // 5)])
        train = log.only_users(np.setdiff1d(np.flatnonzero(n_past), validation))
        task = Task(train, setup.satisfied, FIT_ROUNDS, 1, (log.only_users(validation),), setup.reward)
        hidden = later.only_users(tested)
        return Case(task, (hidden.dense(),), hidden.user_ids, log.only_users(tested))

    def sentence(self, setup: Setup) -> str:
        """Describe the moment and the users."""
        return (
            f"{setup.sessions[0].slate} items ranked once, after {self.moment:.0%} of the reactions, for at most "
            f"{setup.n_users} users with {setup.min_reactions} reactions before that moment and a success after it"
        )

    def shape(self, session: Session) -> str:
        """Say where the moment lies."""
        return f"after {self.moment:.0%} of the reactions"


def before(data: Interactions, share: float) -> BoolArray:
    """Tell which reactions happened before the moment at which this share of them had; equal times fall together."""
    if data.timestamps is None or not has_all_times(data):
        raise DataError(f"{data.name} has reactions without a time; this protocol needs all of them")
    moment = np.sort(data.timestamps)[int(share * len(data))]
    return np.asarray(data.timestamps < moment)
