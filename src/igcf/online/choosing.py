"""The best available items and what is told about them: compiled or in NumPy, as in `igcf.online.kernels`."""

from collections.abc import Callable

import numpy as np

from igcf.arrays import AnyFloatArray, BoolArray, FloatArray, IntArray
from igcf.online.kernels import MOST_CHANNELS, compiled

MOST_CHOSEN = 64
"""Items that the compiled choice keeps in order at a time."""
LEAST = float(np.finfo(np.float32).min)
"""Any score is at least this; what is not available has less."""
Lots = Callable[[], np.random.Generator]
"""Gives a generator of random numbers; making one takes as long as a product over thousands of items."""
Columns = tuple[list[int], list[float], list[float], list[float], list[int]]
"""Rows, scores, means, standard deviations and ranks by the mean."""


def choose(
    means: AnyFloatArray,
    variances: AnyFloatArray | None,
    available: BoolArray,
    nu: float,
    k: int,
    *,
    lots: Lots,
) -> tuple[IntArray, AnyFloatArray]:
    """The `k` best available items of each user by mean + nu sqrt(variance) (eq:UCB2), best first, and their scores.

    Equal scores are ordered by lot. Every user must have at least `k` available items.

    Args:
        means: (users, items).
        variances: (users, items); None: the means alone decide.
        available: (users, items).
        nu: how much uncertainty is worth.
        k: how many.
        lots: where they come from, asked only where scores are equal.
    """
    n_users, tied = len(available), None
    rows: IntArray = np.empty((n_users, k), dtype=np.int64)
    scores: AnyFloatArray = np.empty((n_users, k), dtype=means.dtype)
    if compiled is not None and k <= MOST_CHOSEN and means.dtype == np.float32:
        is_tied = np.empty(n_users, dtype=np.bool_)
        means = np.ascontiguousarray(means)
        variances = None if variances is None else np.ascontiguousarray(variances)
        if not compiled.choose(means, variances, np.ascontiguousarray(available), nu, k, rows, scores, is_tied):
            return rows, scores
        tied = is_tied.nonzero()[0]
    for user in range(n_users) if tied is None else tied:
        masked = means[user] if variances is None else means[user] + nu * np.sqrt(variances[user])
        masked = np.where(available[user], masked, -np.inf)
        rows[user] = _best_of_one(masked, k, lots)
        scores[user] = masked[rows[user]]
    return rows, scores


def _best_of_one(masked: AnyFloatArray, k: int, lots: Lots) -> IntArray:
    parted = masked.copy()
    parted.partition(len(masked) - k)
    rows = (masked >= max(parted.item(len(masked) - k), LEAST)).nonzero()[0]
    scores = masked[rows]
    order: AnyFloatArray | IntArray = rows
    if len(np.unique(scores)) < len(rows):  # no draws without need, as compiled
        order = lots().random(len(rows))
    return rows[np.lexsort((order, -scores))[:k]]


def answer(
    means: AnyFloatArray,
    variances: AnyFloatArray,
    available: BoolArray,
    nu: float,
    k: int,
    *,
    scores: AnyFloatArray | None = None,
    lots: Lots,
) -> Columns:
    """`choose` for one user, with all that is told about what was chosen; arrays are (1, items).

    `scores` decide instead of mean + nu sqrt(variance), where they are given.
    """
    is_single = means.dtype == np.float32 and (scores is None or scores.dtype == np.float32)
    if compiled is not None and is_single and k <= MOST_CHOSEN:
        columns: Columns | None = compiled.answer(scores, means, variances, available, nu, k)
        if columns is not None:
            return columns
    if scores is None:
        rows, best = choose(means, variances if nu > 0 else None, available, nu, k, lots=lots)
    else:
        rows, best = choose(scores, None, available, 0.0, k, lots=lots)
    return columns_of(rows[0], best[0], variances[0, rows[0]], means[0], available[0])


def columns_of(
    rows: IntArray, scores: AnyFloatArray, variances: AnyFloatArray, all_means: AnyFloatArray, available: BoolArray
) -> Columns:
    """What is told about the items at `rows`, whose scores and variances are given; the rest is (items,)."""
    means = all_means[rows]
    ranks = ranks_among(all_means, available, means)
    return rows.tolist(), scores.tolist(), means.tolist(), np.sqrt(variances).tolist(), ranks


def choose_by_bounds(
    mixture: tuple[FloatArray, BoolArray, BoolArray, IntArray],
    items: tuple[AnyFloatArray, ...],
    covs: tuple[AnyFloatArray, ...],
    z: tuple[AnyFloatArray, ...],
    bounds: tuple[AnyFloatArray, ...],
    means: AnyFloatArray,
    available: BoolArray,
    nu: float,
    k: int,
) -> tuple[IntArray, AnyFloatArray, AnyFloatArray] | None:
    """`choose` for one user whose variances are not known, and the variances of what was chosen; compiled only.

    An item whose bound, its mean plus `nu` times the root of what its variance is at most, is below the scores of `k`
    others cannot be among the best, and its variance is not computed.

    Args:
        mixture: `igcf.online.combining.Mixture.parts`.
        items: of each scored channel, (items, d).
        covs: of the user's vector in each channel's block, (d, d).
        z: of each channel, (items,).
        bounds: of the variances of z, (items,).
        means: expected rewards, (items,).
        available: (items,).
        nu: how much uncertainty is worth.
        k: how many.
    """
    if compiled is None or k > MOST_CHOSEN or len(items) > MOST_CHANNELS or means.dtype != np.float32:
        return None
    rows: IntArray = np.empty(k, dtype=np.int64)
    scores, variances = np.empty(k, dtype=np.float32), np.empty(k, dtype=np.float32)
    outputs = rows, scores, variances
    is_tied = compiled.choose_by_bounds(mixture, items, covs, z, bounds, means, available, nu, k, *outputs)
    return None if is_tied else outputs


def ranks_among(means: AnyFloatArray, available: BoolArray, of: AnyFloatArray) -> list[int]:
    """1 + how many available items have a mean above each of `of`; all but `of` are (items,)."""
    if compiled is not None and means.dtype == np.float32:
        ranks: list[int] = compiled.ranks(means, available, of)
    else:
        above = np.sort(means[available & (means > of.min())])
        ranks = (len(above) + 1 - above.searchsorted(of, side="right")).tolist()
    return ranks
