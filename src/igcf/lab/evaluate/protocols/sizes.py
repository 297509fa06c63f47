"""Experiments that fit a log of one's own: as many rounds and test users as its users' reactions allow."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from igcf.arrays import IntArray
from igcf.data import Interactions
from igcf.data.splits import has_all_times

LENGTHS = (120, 60, 40, 20, 10, 5, 2, 1)
"""Numbers of items that may be shown to a user, the longest first."""
MOST_USERS = 200
ENOUGH_USERS = 50
"""Number of test users from which on a longer experiment is preferred to more users."""
FEWEST_COLD_USERS = 20
"""Where a split in time leaves fewer new users than this, half of the users are drawn instead."""


@dataclass(frozen=True)
class Size:
    """Largest experiment that a log allows."""

    split: Literal["time", "users"]
    n_shown: int
    """Number of items that are shown to a user, and of reactions that a test user has at least."""
    n_users: int
    """Number of test users; about as many are left for validation."""


def fitting_size(data: Interactions, split: Literal["time", "users", "auto"] = "auto", longest: int = 120) -> Size:
    """Return the longest experiment for which enough users have as many reactions as items are shown."""
    reactions = np.bincount(data.user_idx, minlength=data.n_users)
    chosen: Literal["time", "users"] = "users"
    if split == "time" or (split == "auto" and has_all_times(data) and _n_new(data) >= FEWEST_COLD_USERS):
        chosen = "time"
    cold = reactions[_new_users(data)] if chosen == "time" else np.sort(reactions[reactions > 0])[::2]
    enough = min(ENOUGH_USERS, max(len(cold) // 4, 1))
    limit = min(longest, max(data.n_items // 2, 1))
    lengths: Sequence[int] = [length for length in LENGTHS if length <= limit]
    n_shown = next((length for length in lengths if (cold >= length).sum() >= enough), 1)
    qualified = int((cold >= n_shown).sum())
    return Size(chosen, n_shown, max(min(MOST_USERS, qualified, len(cold) // 2), 1))


def _new_users(data: Interactions) -> IntArray:
    """Return the users without a reaction in the earlier half of the log."""
    assert data.timestamps is not None  # noqa: S101
    early = np.argsort(data.timestamps, kind="stable")[: len(data) // 2]
    return np.setdiff1d(np.unique(data.user_idx), data.user_idx[early])


def _n_new(data: Interactions) -> int:
    return len(_new_users(data))
