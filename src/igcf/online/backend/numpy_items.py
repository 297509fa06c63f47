"""Means and variances of all items in NumPy: after an update, from a covariance, from several channels."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from igcf.arrays import AnyFloatArray, FloatArray, IntArray
from igcf.model import Model
from igcf.model.channel import activations, expectation, gradients
from igcf.online.backend.numpy_beliefs import USERS, update_in_turn
from igcf.online.backend.types import Arrays, Block, BlockRewards, Evidence, Mixture, Moments

CHUNK = 1_024
"""Items per block when all variances are computed: the product stays in the cache."""


def observe_and_rescore(
    mean: FloatArray,
    cov: FloatArray,
    row: int,
    blocks: tuple[Block, ...],
    rewards: BlockRewards,
    moments: Moments,
) -> None:
    """Update one user's belief by a reaction to an item, and carry it over to all items, in place.

    With w and step of each channel: c = items w, z += step c, variances -= c c; what rounding leaves below zero
    becomes zero.

    Args:
        mean: of the user's vector, shape (D,).
        cov: of the user's vector, shape (D, D).
        row: of the item.
        blocks: the parts of the vector that the reaction reveals something about.
        rewards: one per block and channel of it; NaN reveals nothing.
        moments: of all scored channels, arrays of shape (items,); none where they are not kept.
    """
    for block, own_rewards in zip(blocks, rewards, strict=True):
        x = np.array([vectors[row] for vectors in block.vectors], dtype=np.float64)
        noise = np.array([each[row] for each in block.noise])
        span = slice(block.start, block.start + x.shape[1])
        evidence = Evidence(x, np.array(own_rewards), noise, block.is_logit)
        w, steps = update_in_turn(mean[span], cov[span, span], evidence)
        for place, items in zip(block.places, block.items, strict=True) if moments.z else ():
            z, variances = moments.z[place], moments.variances[place]
            products = items @ w.T.astype(items.dtype)  # (items, channels)
            z += products @ steps.astype(items.dtype)
            variances -= np.einsum("nc,nc->n", products, products)
            np.maximum(variances, 0.0, out=variances)


def rescore_users(products: AnyFloatArray, steps: FloatArray, z: AnyFloatArray, variances: AnyFloatArray) -> None:
    """Carry one update of each of many users over to all items, in place; `products` = w items' is overwritten.

    All but `steps` (users,) are of shape (users, items).
    """
    own_steps = steps[:, None].astype(z.dtype)
    for first in range(0, len(products), USERS):
        part = slice(first, first + USERS)
        c = products[part]
        z[part] += c * own_steps[part]
        c *= c
        variances[part] -= c
        np.maximum(variances[part], 0.0, out=variances[part])


def variances_of(items: AnyFloatArray, cov: FloatArray, rows: IntArray | None = None) -> AnyFloatArray:
    """The variance x' cov x of all items, or of those at `rows`, in the precision of the items (items, d)."""
    own_cov = cov.astype(items.dtype)
    variances = np.empty(len(items) if rows is None else len(rows), dtype=items.dtype)
    for start in range(0, len(variances), CHUNK):
        part = items[start : start + CHUNK] if rows is None else items[rows[start : start + CHUNK]]
        np.einsum("nd,nd->n", part @ own_cov, part, out=variances[start : start + CHUNK])
    return np.maximum(variances, 0.0, out=variances)


def moments_at(
    vectors: AnyFloatArray, rows: IntArray, mean: FloatArray, cov: FloatArray
) -> tuple[AnyFloatArray, AnyFloatArray]:
    """Mean x . mean and variance x' cov x of the items at `rows`, in the precision of the vectors (items, d)."""
    x = vectors[rows]
    return x @ mean.astype(x.dtype), variances_of(x, cov)


def multiply(items: AnyFloatArray, user: AnyFloatArray) -> AnyFloatArray:
    """The products of all item vectors (items, d) with a user's vector (d,), in their precision."""
    return np.asarray(items @ user)


def add_information(
    vectors: AnyFloatArray, noise: FloatArray, rows: IntArray, rewards: FloatArray, sums: FloatArray
) -> None:
    """Add reward x / noise of the items at `rows` to `sums` (d,), in place."""
    sums += (rewards / noise[rows]) @ vectors.take(rows, axis=0)


def expected_rewards(mixture: Mixture, z: Arrays) -> AnyFloatArray:
    """The expected reward from the z of all scored channels, arrays of one shape."""
    return _by_users(partial(_expected, mixture.model), *z)


def reward_variances(mixture: Mixture, z: Arrays, variances: Arrays) -> AnyFloatArray:
    """The variance of the expected reward to first order, from the means and variances of the channels' z.

    Channels that share a block of the user's vector are taken as moving together, which never understates.
    """
    return _by_users(partial(_variance, mixture.model), *z, *variances)


def _by_users(compute: Callable[..., AnyFloatArray], *arrays: AnyFloatArray) -> AnyFloatArray:
    """`compute` of arrays (users, items), some users at a time so that what is in between stays in the cache."""
    if arrays[0].ndim == 1 or len(arrays[0]) <= USERS:
        return compute(*arrays)
    result: AnyFloatArray = np.empty(arrays[0].shape, dtype=arrays[0].dtype)
    for start in range(0, len(result), USERS):
        part = slice(start, start + USERS)
        result[part] = compute(*(each[part] for each in arrays))
    return result


def _expected(model: Model, *z: Any) -> AnyFloatArray:
    return expectation(model.terms, activations(model.channels, dict(zip(model.scored, z, strict=True))))


def _variance(model: Model, *parts: Any) -> AnyFloatArray:
    n = len(model.scored)
    expected = activations(model.channels, dict(zip(model.scored, parts[:n], strict=True)))
    slopes = gradients(model.channels, model.terms, expected)
    deviations: dict[int, AnyFloatArray] = {}
    for number, variances in zip(model.scored, parts[n:], strict=True):
        part = np.sqrt(variances) * np.abs(slopes[number])
        start = model.channels[number].start
        deviations[start] = deviations[start] + part if start in deviations else part
    return np.asarray(sum(part * part for part in deviations.values()))
