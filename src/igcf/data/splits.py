"""Splits of a log into training users and cold users: the protocols of the experiments."""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from igcf.arrays import FloatArray, IntArray
from igcf.data.interactions import MISSING_TIME, Interactions
from igcf.errors import DataError

Split = Literal["time", "users", "auto"]


@dataclass(frozen=True, eq=False)
class ColdStart:
    """Three disjoint groups of users over the same items; each user's whole history is the truth about them."""

    train: Interactions
    validation: Interactions
    """Every choice of a setting, an epoch or a checkpoint is made on these users."""
    test: Interactions


@dataclass(frozen=True, eq=False)
class TasteDrift:
    """Training users, and the users with the largest change of genres between the two halves of their history.

    `test_before` and `test_after` have the same users in the same rows; so have the two of the validation users.
    """

    train: Interactions
    validation_before: Interactions
    validation_after: Interactions
    test_before: Interactions
    test_after: Interactions


def cold_start(
    data: Interactions,
    *,
    split: Split = "auto",
    n_test: int = 200,
    n_validation: int = 200,
    min_reactions: int = 120,
    by_activity: bool = True,
    rng: np.random.Generator,
) -> ColdStart:
    """Split the users into training users and cold ones.

    Args:
        data: the whole log.
        split: `time` trains on the first half of the rows in time, the cold users have no row in it; `users` trains
            on a random half of the users; `auto` takes `time` where every reaction has one.
        n_test: number of test users; fewer where fewer qualify.
        n_validation: number of validation users; fewer where fewer are left.
        min_reactions: the least number of reactions of a test user and, where they are drawn, of a validation user.
        by_activity: test users are the most active cold users and validation users the next; otherwise both are drawn.
        rng: draws the half of the users and, without `by_activity`, the test and validation users.
    """
    train, cold, activity = _halves(data, split, rng)
    order = cold[np.argsort(-activity[cold], kind="stable")] if by_activity else rng.permutation(cold)
    test = order[activity[order] >= min_reactions][:n_test]
    if not len(test):
        most = int(activity[cold].max()) if len(cold) else 0
        raise DataError(
            f"{data.name} has no test user: {len(cold)} users are not in the training half, the most active has "
            f"{most} reactions, min_reactions is {min_reactions}; pass a lower min_reactions= or another split="
        )
    others = order[~np.isin(order, test)]
    validation = (others if by_activity else others[activity[others] >= min_reactions])[:n_validation]
    return ColdStart(train, data.only_users(validation), data.only_users(test))


def taste_drift(
    data: Interactions, *, n_test: int = 200, n_validation: int = 200, min_reactions: int = 120
) -> TasteDrift:
    """Find the users with the largest change of taste and split their histories in two.

    A user's reactions with a known time are halved in time, the extra one of an odd number going to the second half.
    The fewer genres the halves share (cosine of their genre counts), the more the taste changed: the `n_test` users
    with the smallest cosine are tested, the next `n_validation` validate, and neither is in the training data, which
    is the first half of all rows in time.

    Args:
        data: a log with times and item categories.
        n_test: number of test users.
        n_validation: number of validation users.
        min_reactions: reactions with a known time that a user must have.
    """
    if data.categories is None:
        raise DataError(f"{data.name} has no item categories; taste drift compares the categories of two periods")
    timed = data.subset(_times(data) != MISSING_TIME)
    n_reactions = np.bincount(timed.user_idx, minlength=data.n_users)
    before, after = halved(timed)
    similarity = _cosine(_genre_counts(before), _genre_counts(after))
    qualified = np.flatnonzero(n_reactions >= min_reactions)
    if not len(qualified):
        raise DataError(
            f"{data.name} has no user with {min_reactions} reactions (the most active has {int(n_reactions.max())}); "
            "pass a lower min_reactions="
        )
    ranked = qualified[np.argsort(similarity[qualified], kind="stable")]
    test, validation = ranked[:n_test], ranked[n_test : n_test + n_validation]
    first_half = timed.subset(_first_half(timed))
    return TasteDrift(
        train=first_half.only_users(np.setdiff1d(np.unique(first_half.user_idx), ranked[: n_test + n_validation])),
        validation_before=before.only_users(validation),
        validation_after=after.only_users(validation),
        test_before=before.only_users(test),
        test_after=after.only_users(test),
    )


def halved(data: Interactions) -> tuple[Interactions, Interactions]:
    """Halve the history of every user in time; the extra reaction of an odd number goes to the second half."""
    order = np.lexsort((_times(data), data.user_idx))
    n_reactions = np.bincount(data.user_idx, minlength=data.n_users)
    starts = np.cumsum(n_reactions) - n_reactions
    place = np.empty(len(data), dtype=np.int64)
    place[order] = np.arange(len(data)) - starts[data.user_idx[order]]  # 0, 1, ... within each user, in time
    is_before = place < n_reactions[data.user_idx] // 2
    return data.subset(is_before), data.subset(~is_before)


def has_all_times(data: Interactions) -> bool:
    """Tell whether every reaction has a known time."""
    return data.timestamps is not None and bool((data.timestamps != MISSING_TIME).all())


def _times(data: Interactions) -> IntArray:
    if data.timestamps is None:
        raise DataError(f"{data.name} has no timestamps; a split in time needs them")
    return data.timestamps


def _first_half(data: Interactions) -> IntArray:
    """Return the earlier half of the rows, in the order of the log; equal times keep the order of the log."""
    return np.sort(np.argsort(_times(data), kind="stable")[: len(data) // 2])


def _halves(data: Interactions, split: Split, rng: np.random.Generator) -> tuple[Interactions, IntArray, IntArray]:
    """Return the reactions of the training half, the users who are not in it, and the activity of all users."""
    activity = np.bincount(data.user_idx, minlength=data.n_users)
    if split == "users" or (split == "auto" and not has_all_times(data)):
        users, half = rng.permutation(data.n_users), data.n_users // 2
        train, cold = (np.intersect1d(part, np.flatnonzero(activity)) for part in (users[:half], users[half:]))
        return data.only_users(train), cold, activity
    if not has_all_times(data):
        _times(data)
        raise DataError(f"{data.name} has reactions without a timestamp; take split='users'")
    first = data.subset(_first_half(data))
    known = np.unique(first.user_idx)
    return first.only_users(known), np.setdiff1d(np.flatnonzero(activity), known), activity


def _genre_counts(data: Interactions) -> FloatArray:
    """Count for users x categories how many of the user's items carry each."""
    names = sorted({each for own in data.categories or () for each in own})
    genres = np.array([[name in tags for name in names] for tags in data.categories or ()], dtype=float)
    return np.asarray(data.matrix(np.ones(len(data))) @ genres)


def _cosine(a: FloatArray, b: FloatArray) -> FloatArray:
    """Row by row; users without any category in one of the periods count as unchanged."""
    product = np.linalg.norm(a, axis=1) * np.linalg.norm(b, axis=1)
    similarity: FloatArray = np.divide((a * b).sum(axis=1), product, out=np.ones(len(a)), where=product > 0)
    return similarity


def observed_split(
    data: Interactions,
    *,
    split: Split = "auto",
    n_test: int = 400,
    n_validation: int = 300,
    min_reactions: int = 80,
    rng: np.random.Generator,
) -> ColdStart:
    """Split the users as `cold_start` does; test and validation users are drawn from the active ones, both alike.

    At most half of those with `min_reactions` are test users.
    """
    train, cold, activity = _halves(data, split, rng)
    able = rng.permutation(cold[activity[cold] >= min_reactions])
    n_test = min(n_test, len(able) // 2)
    if n_test == 0:
        raise DataError(
            f"{data.name} has {len(able)} users with {min_reactions} reactions outside of the training half; "
            "lower the rounds or choose another split"
        )
    test, validation = able[:n_test], able[n_test : n_test + n_validation]
    return ColdStart(train, data.only_users(validation), data.only_users(test))
