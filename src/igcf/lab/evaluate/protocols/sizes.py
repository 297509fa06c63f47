"""Experiments that fit a log of one's own: judged by ordinary users, for as many rounds as they have reactions."""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from igcf.arrays import IntArray
from igcf.data import Interactions
from igcf.data.splits import has_all_times

LENGTHS = (120, 60, 40, 20, 10, 5, 2, 1)
"""Numbers of items that may be shown to a user, the longest first."""
LEAST_REACTIONS = (5, 2, 1)
"""Least number of reactions of a test user, the first that enough users reach."""
MOST_USERS = 600
FEWEST_NEW_USERS = 100
"""Where a split in time leaves fewer new users than this, half of the users are drawn instead."""
FEWEST_COLD_USERS = 20
"""Users who must have the least number of reactions of a test user."""
FEWEST_ROUNDS = 10
"""Rounds that also users with fewer reactions are played, where the catalogue allows it."""
QUANTILES = (0.5, 0.9)
"""Shares of the users who can be tested up to which they are light and medium."""


@dataclass(frozen=True)
class ActivityClass:
    """Users with a similar number of reactions, and the share of all users of the log that they stand for."""

    name: str
    least: int
    most: int | None  # None: no limit
    share: float

    def __str__(self) -> str:
        """Describe the class in words."""
        return f"{self.name}: " + (f"{self.least} to {self.most}" if self.most else f"{self.least} or more")


@dataclass(frozen=True)
class Size:
    """Experiment that a log allows."""

    split: Literal["time", "users"]
    n_shown: int
    """Number of items that are shown to a user: at most ten, or as many as half of the test users have reactions."""
    n_users: int  # test users; about as many are left for validation
    least: int  # reactions of a test user


def fitting_size(data: Interactions, split: Literal["time", "users", "auto"] = "auto", longest: int = 120) -> Size:
    """Return the experiment that tests ordinary users: everybody with five reactions, for about as many rounds."""
    reactions = np.bincount(data.user_idx, minlength=data.n_users)
    chosen: Literal["time", "users"] = "users"
    if split == "time" or (split == "auto" and has_all_times(data) and len(_new_users(data)) >= FEWEST_NEW_USERS):
        chosen = "time"
    cold = reactions[_new_users(data)] if chosen == "time" else np.sort(reactions[reactions > 0])[::2]
    least = next((n for n in LEAST_REACTIONS if (cold >= n).sum() >= min(FEWEST_COLD_USERS, len(cold) / 4)), 1)
    able = cold[cold >= least]
    limit = min(longest, max(data.n_items // 2, 1), max(FEWEST_ROUNDS, float(np.median(able))) if len(able) else 1)
    n_shown = next((length for length in LENGTHS if length <= limit), 1)
    return Size(chosen, n_shown, max(min(MOST_USERS, len(able) // 2), 1), least)


def activity_classes(data: Interactions, least: int) -> tuple[ActivityClass, ...]:
    """Divide the users with at least `least` reactions into light (half of them), medium and heavy (a tenth)."""
    counts = np.bincount(data.user_idx, minlength=data.n_users)
    counts = counts[counts > 0]
    able = counts[counts >= least]
    if not len(able):
        return ()
    light, medium = (int(np.quantile(able, q, method="inverted_cdf")) for q in QUANTILES)
    found = []
    for name, low, high in (("light", least, light), ("medium", light + 1, medium), ("heavy", medium + 1, None)):
        share = float(((counts >= low) & (counts <= (high or counts.max()))).mean())
        if share > 0:
            found.append(ActivityClass(name, low, high, share))
    return tuple(found)


def _new_users(data: Interactions) -> IntArray:
    """Return the users without a reaction in the earlier half of the log."""
    assert data.timestamps is not None  # noqa: S101
    early = np.argsort(data.timestamps, kind="stable")[: len(data) // 2]
    return np.setdiff1d(np.unique(data.user_idx), data.user_idx[early])
