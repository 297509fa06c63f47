"""The inner loops of the online phase in C (the folder `native`); NumPy does what they have no room for.

Importing this module fails where nothing was compiled. The native loops take single precision, up to `MOST_CHANNELS`
channels and up to `MOST_SELECTED` items.
"""

from functools import partial

import numpy as np

from igcf.arrays import AnyFloatArray, BoolArray, FloatArray, IntArray
from igcf.online.backend import _native  # type: ignore[attr-defined]
from igcf.online.backend import numpy_backend as plain
from igcf.online.backend.numpy_backend import describe, variances_of
from igcf.online.backend.types import Arrays, Block, Bounds, Evidence, MakeRng, Mixture, Moments, Query, Selection

__all__ = [
    "NAME",
    "describe",
    "expected_rewards",
    "observe_and_rescore",
    "rescore_users",
    "reward_variances",
    "select_bounded",
    "select_tracked",
    "select_users",
    "update_belief",
    "update_beliefs",
    "variances_of",
]

NAME = "native"
MOST_CHANNELS = 8
"""Channels that the native loops have room for."""
MOST_SELECTED = 64
"""Items that the native loops keep in order at a time."""
_selection = partial(tuple.__new__, Selection)  # `Selection._make` without a Python call


def update_beliefs(
    means: FloatArray, covs: FloatArray, start: int, evidence: Evidence
) -> tuple[FloatArray, FloatArray]:
    """See `igcf.online.backend.numpy_beliefs.update_beliefs`."""
    w, steps = np.empty(evidence.x.shape), np.empty(len(evidence.rewards))
    _native.update_beliefs(means, covs, len(means), start, *evidence, w, steps)
    return w, steps


def update_belief(mean: FloatArray, cov: FloatArray, start: int, evidence: Evidence) -> None:
    """See `igcf.online.backend.numpy_beliefs.update_belief`."""
    update_beliefs(mean[None], cov[None], start, evidence)


def observe_and_rescore(
    mean: FloatArray, cov: FloatArray, block: Block, row: int, rewards: tuple[float, ...], moments: Moments
) -> None:
    """See `igcf.online.backend.numpy_items.observe_and_rescore`."""
    start, vectors, noise, is_logit, items = block
    z, variances = moments
    if len(rewards) > MOST_CHANNELS or (z and z[0].dtype != np.float32):
        plain.observe_and_rescore(mean, cov, block, row, rewards, moments)
        return
    own_items = items if z else ()
    _native.observe_and_rescore(mean, cov, start, row, rewards, vectors, noise, is_logit, own_items, z, variances)


def rescore_users(products: AnyFloatArray, steps: FloatArray, z: AnyFloatArray, variances: AnyFloatArray) -> None:
    """See `igcf.online.backend.numpy_items.rescore_users`."""
    rescore = _native.rescore_users if products.dtype == np.float32 else plain.rescore_users
    rescore(products, steps, z, variances)


def expected_rewards(mixture: Mixture, z: Arrays) -> AnyFloatArray:
    """See `igcf.online.backend.numpy_items.expected_rewards`."""
    return _combined(mixture, z, None) if _fits(z) else plain.expected_rewards(mixture, z)


def reward_variances(mixture: Mixture, z: Arrays, variances: Arrays) -> AnyFloatArray:
    """See `igcf.online.backend.numpy_items.reward_variances`."""
    return _combined(mixture, z, variances) if _fits(z) else plain.reward_variances(mixture, z, variances)


def _fits(z: Arrays) -> bool:
    return len(z) <= MOST_CHANNELS and z[0].dtype == np.float32


def _combined(mixture: Mixture, z: Arrays, variances: Arrays | None) -> AnyFloatArray:
    result: AnyFloatArray = np.empty(z[0].shape, dtype=np.float32)
    own_variances = None if variances is None else tuple(map(np.ascontiguousarray, variances))
    _native.combine(mixture.parts, tuple(map(np.ascontiguousarray, z)), own_variances, result)
    return result


def select_users(
    means: AnyFloatArray, variances: AnyFloatArray | None, available: BoolArray, nu: float, k: int, make_rng: MakeRng
) -> tuple[IntArray, AnyFloatArray]:
    """See `igcf.online.backend.numpy_selection.select_users`."""
    if k > MOST_SELECTED or means.dtype != np.float32:
        return plain.select_users(means, variances, available, nu, k, make_rng)
    n_users = len(available)
    rows: IntArray = np.empty((n_users, k), dtype=np.int64)
    scores: AnyFloatArray = np.empty((n_users, k), dtype=np.float32)
    is_tied = np.empty(n_users, dtype=np.bool_)
    means = np.ascontiguousarray(means)
    variances = None if variances is None else np.ascontiguousarray(variances)
    if _native.select_users(means, variances, np.ascontiguousarray(available), nu, k, rows, scores, is_tied):
        own_variances = None if variances is None else variances[is_tied]
        tied = plain.select_users(means[is_tied], own_variances, available[is_tied], nu, k, make_rng)
        rows[is_tied], scores[is_tied] = tied
    return rows, scores


def select_tracked(mixture: Mixture, moments: Moments, query: Query) -> tuple[Selection, AnyFloatArray]:
    """See `igcf.online.backend.numpy_selection.select_tracked`."""
    z, variances = moments
    available, k, nu, _ = query
    if k > MOST_SELECTED or not _fits(z):
        return plain.select_tracked(mixture, moments, query)
    if mixture.model.is_linear:
        means = z[0]
        columns = _native.select(means, variances[0], available, nu, k)
    else:
        means = np.empty(len(available), dtype=np.float32)
        columns = _native.select_mixed(mixture.parts, z, variances, available, nu, k, means)
    if columns is None:  # equal scores
        return plain.select_tracked(mixture, moments, query)
    return _selection(columns), means


def select_bounded(mixture: Mixture, user: Bounds, query: Query) -> Selection:
    """See `igcf.online.backend.numpy_selection.select_bounded`."""
    items, covs, z, variances, means = user
    available, k, nu, _ = query
    columns = None
    if k <= MOST_SELECTED and _fits(z):
        own_covs = tuple(cov.astype(np.float32, order="C") for cov in covs)
        columns = _native.select_bounded(mixture.parts, items, own_covs, z, variances, means, available, nu, k)
    return plain.select_bounded(mixture, user, query) if columns is None else _selection(columns)
