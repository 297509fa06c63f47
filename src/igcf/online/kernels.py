"""The inner loops of the online phase: compiled where the installation found a C compiler, otherwise in NumPy.

Both do the same up to rounding (`tests/online/test_kernels.py`); `IGCF_COMPILED=0` in the environment asks for NumPy.
"""

import os
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
CHUNK = 1_024
"""Items per block when all variances are computed: the product stays in the cache."""
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
        vectors: of each channel, (items, d), float32.
        noise: of each channel, (items,).
        is_logit: (channels,).
        items: as `vectors`, of each channel that is scored by this block.
        z: their means, (items,).
        variances: and variances, (items,).
    """
    is_single = not items or items[0].dtype == np.float32
    if compiled is not None and is_single and len(rewards) <= MOST_CHANNELS:
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
