"""The inner loops of the online phase: compiled where the installation found a C compiler, otherwise in NumPy.

Both do the same up to rounding (`tests/online/test_kernels.py`); `IGCF_COMPILED=0` in the environment asks for NumPy.
"""

import os
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from types import ModuleType

import numpy as np

from igcf.arrays import AnyFloatArray, BoolArray, FloatArray, IntArray
from igcf.model.channel import sigmoid

compiled: ModuleType | None = None
"""The module made of `compiled/`; None where there was no compiler."""
if os.environ.get("IGCF_COMPILED") != "0":
    with suppress(ImportError):
        compiled = import_module("igcf.online._compiled")
NEWTON_STEPS = 8
"""Steps to the mode of a logistic update; four are enough unless the prior is very wide. Compiled: the same number."""
MOST_CHANNELS = 8
"""Scored channels that the compiled loops have room for."""
MOST_CHOSEN = 64
"""Items that the compiled choice keeps in order at a time."""
LEAST = float(np.finfo(np.float32).min)
"""Any score is at least this; what is not available has less."""
CHUNK = 1_024
"""Items per block when all variances are computed: the product stays in the cache."""
Lots = Callable[[], np.random.Generator]
"""Gives a generator of random numbers; making one takes as long as a product over thousands of items."""
Columns = tuple[list[int], list[float], list[float], list[float], list[int]]
"""Rows, scores, means, standard deviations and ranks by the mean."""
USERS = 16
"""Users per block of large arrays: what is computed on the way stays in the cache."""


def absorb(
    means: FloatArray,
    covs: FloatArray,
    start: int,
    x: FloatArray,
    rewards: FloatArray,
    noise: FloatArray,
    is_logit: BoolArray,
) -> tuple[FloatArray, FloatArray]:
    """Update beliefs in place; eq:update_dis, or a Laplace step where `is_logit`.

    Args:
        means: (users, D).
        covs: (users, D, D).
        start: where the block of the users' vectors begins that the reactions speak of.
        x: item vectors, (reactions, d): one per user, or any number of one user, learned one after the other.
        rewards: (reactions,); NaN reveals nothing.
        noise: (reactions,), variance of a reward, or what a log likelihood is divided by.
        is_logit: (reactions,).

    Returns:
        w = cov x of each reaction, scaled so that the covariance loses w w', and how far the mean moved in units of it.
    """
    if compiled is not None:
        w, steps = np.empty(x.shape), np.empty(len(rewards))
        compiled.absorb(means, covs, len(means), start, x, rewards, noise, is_logit, w, steps)
        return w, steps
    span = slice(start, start + x.shape[1])
    own_means, own_covs = means[:, span], covs[:, span, span]
    if len(means) > 1 or len(rewards) == 1:
        return _absorb_each(own_means, own_covs, x, rewards, noise, is_logit)
    each = [slice(number, number + 1) for number in range(len(rewards))]
    parts = [_absorb_each(own_means, own_covs, x[i], rewards[i], noise[i], is_logit[i]) for i in each]
    return np.concatenate([w for w, _ in parts]), np.concatenate([step for _, step in parts])


def _absorb_each(
    means: FloatArray, covs: FloatArray, x: FloatArray, rewards: FloatArray, noise: FloatArray, is_logit: BoolArray
) -> tuple[FloatArray, FloatArray]:
    w = np.matmul(covs, x[:, :, None])[:, :, 0]
    z, q = np.einsum("bd,bd->b", x, means), np.einsum("bd,bd->b", x, w)
    shift, shrink = gaussian_step(z, q, rewards, noise)
    if is_logit.any():
        shift, shrink = np.where(is_logit, logistic_step(z, q, rewards, noise), (shift, shrink))
    means += shift[:, None] * w
    root = np.sqrt(shrink)
    w *= root[:, None]  # its square is then what the covariance loses
    for first in range(0, len(w), USERS):
        part = w[first : first + USERS]
        covs[first : first + USERS] -= part[:, :, None] * part[:, None, :]
    return w, np.divide(shift, root, out=np.zeros_like(shift), where=root > 0)


def gaussian_step(
    z: FloatArray, q: FloatArray, reward: FloatArray, noise_var: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """How far a reward moves the belief along w = cov x, and how much of w w' it removes from the covariance.

    `z` = x . mean and `q` = x' cov x describe the belief before; a NaN reward reveals nothing.
    """
    is_known = ~np.isnan(reward)
    shrink = is_known / (noise_var + q)
    return shrink * (np.where(is_known, reward, 0.0) - z), shrink


def logistic_step(
    z: FloatArray, q: FloatArray, reward: FloatArray, noise_var: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """The same for a success (1) or failure (0) whose log likelihood counts 1 / noise_var.

    Along w the log posterior of a = x . user is -(a - z)^2 / (2 q) + log likelihood(a): Newton finds its mode, the
    curvature there replaces that of a Gaussian reward.
    """
    is_known = ~np.isnan(reward)
    weight = is_known / noise_var
    target = np.where(is_known, reward, 0.0)
    q = np.maximum(q, 1e-12)
    # from zero, or from z on the far side of it, Newton comes nearer with every step and never overshoots
    a = np.where((2.0 * target - 1.0) * z > 0, z, 0.0)
    for _ in range(NEWTON_STEPS):
        p = sigmoid(a)
        a = a - ((a - z) / q - weight * (target - p)) / (1.0 / q + weight * p * (1.0 - p))
    p = sigmoid(a)
    curvature = weight * p * (1.0 - p)
    return (a - z) / q, curvature / (1.0 + curvature * q)


def learn(
    mean: FloatArray,
    cov: FloatArray,
    start: int,
    row: int,
    rewards: tuple[float, ...],
    vectors: tuple[AnyFloatArray, ...],
    noise: tuple[FloatArray, ...],
    is_logit: BoolArray,
    items: tuple[AnyFloatArray, ...],
    z: tuple[AnyFloatArray, ...],
    variances: tuple[AnyFloatArray, ...],
) -> None:
    """`absorb` what one user's reaction to an item reveals, and carry it over to all items, in place.

    With w of each channel: c = items w, z += step c, variances -= c c; what rounding leaves below zero becomes zero.

    Args:
        mean: of the user's vector, (D,).
        cov: (D, D).
        start: where the block begins that the channels speak of.
        row: of the item.
        rewards: of each channel; NaN reveals nothing.
        vectors: of each channel, (items, d).
        noise: of each channel, (items,).
        is_logit: (channels,).
        items: as `vectors`, of each channel that is scored by this block.
        z: their means, (items,).
        variances: and variances, (items,).
    """
    n = len(rewards)
    if compiled is not None and n <= MOST_CHANNELS and all(each.dtype == np.float32 for each in (*vectors, *items)):
        compiled.learn(mean, cov, start, row, rewards, vectors, noise, is_logit, items, z, variances)
        return
    x, own_noise = np.array([each[row] for each in vectors], dtype=np.float64), np.array([each[row] for each in noise])
    w, steps = absorb(mean[None], cov[None], start, x, np.array(rewards), own_noise, is_logit)
    for own_items, own_z, own_variances in zip(items, z, variances, strict=True):
        for each, step in zip(w.astype(own_z.dtype), steps.astype(own_z.dtype), strict=True):
            c = own_items @ each
            own_z += c * step
            c *= c
            own_variances -= c
        np.maximum(own_variances, 0.0, out=own_variances)


def carry_over_to_many(products: AnyFloatArray, steps: FloatArray, z: AnyFloatArray, variances: AnyFloatArray) -> None:
    """Carry one update of each of many users over to all items; all but `steps` (users, items), `products` = w items'.

    Spoils `products`.
    """
    if compiled is not None and products.dtype == np.float32:
        compiled.carry_products(products, steps, z, variances)
        return
    own_steps = steps[:, None].astype(z.dtype)
    for first in range(0, len(products), USERS):
        block = slice(first, first + USERS)
        c = products[block]
        z[block] += c * own_steps[block]
        c *= c
        variances[block] -= c
        np.maximum(variances[block], 0.0, out=variances[block])


def variances_of(items: AnyFloatArray, cov: FloatArray, rows: IntArray | None = None) -> AnyFloatArray:
    """The variance x' cov x of all items, or of those at `rows`, in the precision of the items (items, d)."""
    own_cov = cov.astype(items.dtype)
    variances = np.empty(len(items) if rows is None else len(rows), dtype=items.dtype)
    for start in range(0, len(variances), CHUNK):
        part = items[start : start + CHUNK] if rows is None else items[rows[start : start + CHUNK]]
        np.einsum("nd,nd->n", part @ own_cov, part, out=variances[start : start + CHUNK])
    return np.maximum(variances, 0.0, out=variances)


def choose(
    means: AnyFloatArray,
    variances: AnyFloatArray | None,
    available: BoolArray,
    nu: float,
    k: int,
    *,
    lots: Lots | None = None,
) -> tuple[IntArray, AnyFloatArray]:
    """The `k` best available items of each user by mean + nu sqrt(variance) (eq:UCB2), best first, and their scores.

    Equal scores are ordered by lot. Every user must have at least `k` available items.

    Args:
        means: (users, items).
        variances: (users, items); None: the means alone decide.
        available: (users, items).
        nu: how much uncertainty is worth.
        k: how many.
        lots: where they come from, asked only where scores are equal; None: the first item comes first.
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


def _best_of_one(masked: AnyFloatArray, k: int, lots: Lots | None) -> IntArray:
    parted = masked.copy()
    parted.partition(len(masked) - k)
    rows = (masked >= max(parted.item(len(masked) - k), LEAST)).nonzero()[0]
    scores = masked[rows]
    order: AnyFloatArray | IntArray = rows
    if lots is not None and len(np.unique(scores)) < len(rows):  # no draws without need, as compiled
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
    arrays = [means, variances] if scores is None else [means, variances, scores]
    if compiled is not None and k <= MOST_CHOSEN and all(array.dtype == np.float32 for array in arrays):
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
