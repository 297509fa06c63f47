"""Validation users: who they are."""

import numpy as np

from igcf.arrays import Float32Array, IntArray
from igcf.data.interactions import Interactions
from igcf.errors import DataError

MOST_USERS = 200  # largest number of validation users: more would take longer and decide little
MOST_DRAWN = 300  # largest number of validation users that are drawn
LEAST_REACTIONS = 60  # smallest number of reactions of a user who is drawn, not chosen for being active
FEWEST_USERS = 5  # smallest number of users that are worth holding out


def most_active(counts: IntArray, share: float) -> IntArray:
    """Return the most active users, ascending, `share` of those who reacted and at most 200; nobody if under five.

    `counts` has the number of reactions of each user.
    """
    n = min(int(share * (counts > 0).sum()), MOST_USERS)
    return np.sort(np.argsort(-counts, kind="stable")[: n if n >= FEWEST_USERS else 0])


def drawn_of(counts: IntArray, seed: int) -> IntArray:
    """Return users drawn from those with 60 reactions, a quarter of them and at most 200; nobody if that is too few.

    Chances calibrated on the most active users would not hold for the others.
    """
    able = np.flatnonzero(counts >= LEAST_REACTIONS)
    n = min(len(able) // 4, MOST_USERS)
    return np.sort(np.random.default_rng(seed).permutation(able)[: n if n >= FEWEST_USERS else 0])


def validation_table(validation: Interactions, data: Interactions, *, drawn: int | None = None) -> Float32Array:
    """Return the reactions of some validation users, shape (users, items), NaN for unrated items.

    They are the 200 most active ones or, with `drawn`, the seed of a draw, 300 of all.
    """
    if validation.item_ids != data.item_ids:
        raise DataError(
            f"the validation log has {validation.n_items} items, the training log {data.n_items}; "
            "both must have the same items in the same order"
        )
    counts = np.bincount(validation.user_idx, minlength=validation.n_users)
    users = np.sort(np.argsort(-counts, kind="stable")[: min(MOST_USERS, int((counts > 0).sum()))])
    if drawn is not None:
        users = np.sort(np.random.default_rng(drawn).permutation(np.flatnonzero(counts))[:MOST_DRAWN])
    return validation.only_users(users).dense()
