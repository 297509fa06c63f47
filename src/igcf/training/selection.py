"""Validation users: who they are, and how a model is scored on them."""

import numpy as np

from igcf.arrays import Float32Array, IntArray
from igcf.data.interactions import Interactions
from igcf.errors import DataError
from igcf.model import Model
from igcf.online import Greedy, ModelLearner, replay

MOST_USERS = 200
"""Largest number of validation users: more would take longer and decide little."""
MOST_DRAWN = 300
"""Largest number of validation users that are drawn."""
LEAST_REACTIONS = 60
"""Smallest number of reactions of a user who is drawn, not chosen for being active."""
FEWEST_USERS = 5
"""Smallest number of users that are worth holding out."""


def held_out_users(data: Interactions, share: float) -> IntArray:
    """Return the most active users, `share` of those who reacted and at most 200; nobody if that is fewer than five."""
    return most_active(np.bincount(data.user_idx, minlength=data.n_users), share)


def most_active(counts: IntArray, share: float) -> IntArray:
    """Return the users with the most reactions, ascending, from the number of reactions of each (`held_out_users`)."""
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
    if len(users) == 0:
        raise DataError("the validation log holds no reaction; give at least one user or leave it out")
    return validation.only_users(users).dense()


def interactive_precision(model: Model, truth: Float32Array, rounds: int) -> float:
    """Return the mean number of successes when every user of `truth` is played as a new user, greedily.

    At most a quarter of the catalogue is shown: once everything has been shown, all models are equal.
    """
    rounds = min(rounds, max(model.n_items // 4, 1))
    shown = replay(ModelLearner(model, Greedy()), truth, rounds=rounds, rng=np.random.default_rng(0))
    return float(model.reward.is_satisfied(shown.values).sum(axis=(1, 2)).mean())
