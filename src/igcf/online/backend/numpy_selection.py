"""The best available items in NumPy: of many users, of one user, and of one whose variances are not known."""

import numpy as np

from igcf.arrays import AnyFloatArray, BoolArray, IntArray
from igcf.online.backend.numpy_items import expected_rewards, reward_variances, variances_of
from igcf.online.backend.types import (
    ABOVE_ROUNDING,
    Bounds,
    MakeRng,
    Mixture,
    Moments,
    NotSelectedError,
    Query,
    Selection,
)

LEAST = float(np.finfo(np.float32).min)
"""Any score is at least this; what is not available has less."""

FEW = 3
"""Items whose ranks are counted one by one, which needs no sorting of what is above them."""


def select_users(
    means: AnyFloatArray, variances: AnyFloatArray | None, available: BoolArray, nu: float, k: int, make_rng: MakeRng
) -> tuple[IntArray, AnyFloatArray]:
    """Select the `k` best available items of each user by mean + nu sqrt(variance) (eq:UCB2), best first.

    Ties are broken at random. Every user must have at least `k` available items.

    Args:
        means: or any scores, shape (users, items).
        variances: of shape (users, items); None: the means alone decide.
        available: of shape (users, items).
        nu: how much uncertainty is worth.
        k: how many.
        make_rng: asked only where scores are equal.

    Returns:
        Rows and scores of the selected items, both of shape (users, k).
    """
    rows: IntArray = np.empty((len(available), k), dtype=np.int64)
    scores: AnyFloatArray = np.empty((len(available), k), dtype=means.dtype)
    for user in range(len(available)):
        own = means[user] if variances is None else means[user] + nu * np.sqrt(variances[user])
        rows[user], scores[user] = best_of(own, available[user], k, make_rng)
    return rows, scores


def best_of(scores: AnyFloatArray, available: BoolArray, k: int, make_rng: MakeRng) -> tuple[IntArray, AnyFloatArray]:
    """Rows and scores of the `k` best available items of one user, best first; ties are broken at random."""
    masked = np.where(available, scores, -np.inf)
    parted = masked.copy()
    parted.partition(len(masked) - k)
    rows = (masked >= max(parted.item(len(masked) - k), LEAST)).nonzero()[0]
    best = masked[rows]
    order: AnyFloatArray | IntArray = rows
    if len(np.unique(best)) < len(rows):  # no draws without need
        order = make_rng().random(len(rows))
    chosen = rows[np.lexsort((order, -best))[:k]]
    return chosen, masked[chosen]


def select_tracked(mixture: Mixture, moments: Moments, query: Query) -> tuple[Selection, AnyFloatArray]:
    """Select the best items of one user, all of whose means and variances of z are known.

    Returns the selection and the expected rewards of all items, shape (items,).
    """
    is_linear = mixture.model.is_linear
    means = moments.z[0] if is_linear else expected_rewards(mixture, moments.z)
    variances = moments.variances[0] if is_linear else reward_variances(mixture, *moments)
    return select_scored(means, variances, query), means


def select_scored(means: AnyFloatArray, variances: AnyFloatArray, query: Query) -> Selection:
    """Select the best items of one user from the means and variances of all items, shape (items,)."""
    scores = boosted(means, query) + query.nu * np.sqrt(variances)
    rows, best = best_of(scores, query.available, query.k, query.make_rng)
    return describe(rows, best, variances[rows], means, query.available)


def boosted(means: AnyFloatArray, query: Query) -> AnyFloatArray:
    """Add what rules add to the scores of items, (items,); caps and pinned items are not for these loops."""
    if query.rules is None:
        return means
    if not query.rules.are_boosts:
        raise NotSelectedError
    return means if query.rules.boosts is None else means + query.rules.boosts


def select_bounded(mixture: Mixture, user: Bounds, query: Query) -> Selection:
    """Select the best items of one user whose variances are not known, and compute only those that can matter.

    An item whose bound, its mean plus `nu` times the root of what its variance is at most, is below the exact scores
    of `k` others cannot be among the best.
    """
    available, k, nu, make_rng, _ = query
    means = boosted(user.means, query)
    likely = np.argpartition(np.where(available, means, -np.inf), -k)[-k:]
    threshold = np.min(means[likely] + nu * np.sqrt(_variances_at(mixture, user, likely)))
    most = user.variances[0] if mixture.model.is_linear else reward_variances(mixture, user.z, user.variances)
    bounds = means + nu * ABOVE_ROUNDING * np.sqrt(most)
    rows = (available & (bounds >= threshold - (ABOVE_ROUNDING - 1.0) * abs(threshold))).nonzero()[0]
    rows = np.union1d(rows, likely)
    variances = _variances_at(mixture, user, rows)
    scores = means[rows] + nu * np.sqrt(variances)
    places, best = best_of(scores, np.ones(len(rows), dtype=np.bool_), k, make_rng)
    return describe(rows[places], best, variances[places], user.means, available)


def _variances_at(mixture: Mixture, user: Bounds, rows: IntArray) -> AnyFloatArray:
    own = tuple(variances_of(items, cov, rows) for items, cov in zip(user.items, user.covs, strict=True))
    return own[0] if mixture.model.is_linear else reward_variances(mixture, tuple(z[rows] for z in user.z), own)


def describe(
    rows: IntArray, scores: AnyFloatArray, variances: AnyFloatArray, means: AnyFloatArray, available: BoolArray
) -> Selection:
    """Tell what is believed of the items at `rows`, whose scores and variances are given; the rest is (items,)."""
    own = means[rows]
    if len(rows) <= FEW:
        ranks = np.array([1 + np.count_nonzero((means > mean) & available) for mean in own], dtype=np.int64)
    else:
        above = np.sort(means[available & (means > own.min())])
        ranks = len(above) + 1 - above.searchsorted(own, side="right")
    return Selection(rows.tolist(), scores.tolist(), own.tolist(), np.sqrt(variances).tolist(), ranks.tolist())
