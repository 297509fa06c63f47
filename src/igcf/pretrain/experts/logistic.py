"""The logistic expert: what is seen, and what is liked once seen (docs/maths.md, section Experts).

    seen ~ Bernoulli(sigmoid(b_i + x_i . u))     for every pair
    liked ~ Bernoulli(sigmoid(c_i + y_i . u))    where there is a reaction,          u ~ N(0, I)

This is the paper's binary model (eq::model::cls) over all pairs. Its variational posterior is found by coordinate
ascent instead of gradients: with Polya-Gamma weights omega the likelihood is a Gaussian one, so every step is exact.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from igcf.arrays import Float32Array, FloatArray, IntArray
from igcf.pretrain.experts.linear import LinearExpert

BLOCK = 256
"""Users whose rows are dense at the same time."""
DENSE_CELLS = 40_000_000
FEWEST_USERS = 2_000
"""A log with more than `DENSE_CELLS` user-item pairs is learned from as many of its users, drawn by lot, as fit."""
BIAS_PENALTY = 1e-3
LARGEST_START = 3.0


@dataclass(frozen=True, eq=False)
class LogisticExpert:
    """Vectors whose last column is the constant; rows are items."""

    seen: FloatArray
    """(items, d + 1)"""
    liked: FloatArray
    """(items, d + 1)"""


@dataclass(eq=False)
class _State:
    """Items and users of one fit; columns are the exposures of all items, then their likings."""

    vectors: FloatArray
    """(2 items, d + 1), the last column is the constant"""
    moments: Float32Array | None
    """(users, (d + 1)(d + 2) / 2): upper triangles of E[u u'], u with a constant 1 as its last entry"""


def fit_logistic(
    successes: sp.csr_array,
    exposures: sp.csr_array,
    start: LinearExpert,
    *,
    dim: int = 32,
    iterations: int = 15,
    penalty: float = 5.0,
    seed: int = 0,
    progress: Callable[[int, int], None] | None = None,
) -> LogisticExpert:
    """Variational EM; `penalty` is the precision of the items' Gaussian prior, `start` gives the first directions."""
    users = _sampled_users(*exposures.shape, seed=seed)
    successes, exposures = successes[users], exposures[users]
    n_items = exposures.shape[1]
    anchors = _logits(successes, exposures)
    state = _State(_first_vectors(start, n_items, dim, anchors), None)
    rows, columns = np.triu_indices(state.vectors.shape[1])
    twice = np.where(rows == columns, 1.0, 2.0)
    for iteration in range(iterations):
        means, covs = _user_step(state, successes, exposures, rows, columns, twice)
        means, covs = _whiten(state, means, covs)
        state.moments = _second_moments(means, covs)[:, rows, columns].astype(np.float32)
        state.vectors = _item_step(state, means, successes, exposures, rows, columns, twice, anchors, penalty)
        if progress is not None:
            progress(iteration + 1, iterations)
    return LogisticExpert(state.vectors[:n_items], state.vectors[n_items:])


def _user_step(
    state: _State,
    successes: sp.csr_array,
    exposures: sp.csr_array,
    rows: IntArray,
    columns: IntArray,
    twice: FloatArray,
) -> tuple[FloatArray, FloatArray]:
    """Posterior of every user: precision I + sum omega x x', information sum (y - 1/2 - omega b) x."""
    d = state.vectors.shape[1] - 1
    products = (state.vectors[:, rows] * state.vectors[:, columns]).astype(np.float32)
    directions = state.vectors[:, :d].astype(np.float32)
    means, covs = np.empty((exposures.shape[0], d)), np.empty((exposures.shape[0], d, d))
    for block, targets, mask in _dense_blocks(successes, exposures):
        omega = _weights(state, block, products * twice.astype(np.float32), mask)
        gram = np.zeros((len(targets), d + 1, d + 1))
        gram[:, rows, columns] = omega @ products
        gram[:, columns, rows] = gram[:, rows, columns]
        information = (targets - 0.5 * mask) @ directions - gram[:, :d, d]
        covs[block] = np.linalg.inv(gram[:, :d, :d] + np.eye(d))
        means[block] = np.einsum("bij,bj->bi", covs[block], information)
    return means, covs


def _whiten(state: _State, means: FloatArray, covs: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Make the population of users N(0, I) again by moving its mean and covariance into the items' vectors."""
    d = means.shape[1]
    centre = means.mean(axis=0)
    deviations = means - centre
    root = np.linalg.cholesky(deviations.T @ deviations / len(means) + covs.mean(axis=0))
    inverse = np.linalg.inv(root)
    state.vectors[:, d] += state.vectors[:, :d] @ centre
    state.vectors[:, :d] = state.vectors[:, :d] @ root
    return deviations @ inverse.T, inverse @ covs @ inverse.T


def _item_step(
    state: _State,
    means: FloatArray,
    successes: sp.csr_array,
    exposures: sp.csr_array,
    rows: IntArray,
    columns: IntArray,
    twice: FloatArray,
    anchors: FloatArray,
    penalty: float,
) -> FloatArray:
    """Ridge regression of every item on the users' moments; constants are drawn to the logit of the item's share."""
    assert state.moments is not None  # noqa: S101
    n_columns, width = state.vectors.shape
    products = (state.vectors[:, rows] * state.vectors[:, columns] * twice).astype(np.float32)
    users = np.column_stack([means, np.ones(len(means))]).astype(np.float32)
    gram = np.zeros((n_columns, len(rows)), dtype=np.float32)
    information = np.zeros((n_columns, width))
    for block, targets, mask in _dense_blocks(successes, exposures):
        omega = _weights(state, block, products, mask)
        gram += omega.T @ state.moments[block]
        information += (targets - 0.5 * mask).T @ users[block]
    penalties = np.full(width, penalty)
    penalties[-1] = BIAS_PENALTY
    information[:, -1] += BIAS_PENALTY * anchors
    precision = np.zeros((n_columns, width, width))
    precision[:, rows, columns] = gram
    precision[:, columns, rows] = gram
    precision += np.diag(penalties)
    return np.asarray(np.linalg.solve(precision, information[:, :, None])[:, :, 0])


def _weights(state: _State, block: slice, products: Float32Array, mask: Float32Array) -> Float32Array:
    """Polya-Gamma means: omega = tanh(xi / 2) / (2 xi) with xi^2 = E[(x . u)^2]; 0 where there is nothing to learn."""
    if state.moments is None:
        return np.float32(0.2) * mask
    xi = state.moments[block] @ products.T
    np.maximum(xi, 1e-6, out=xi)
    np.sqrt(xi, out=xi)
    omega = np.tanh(xi * np.float32(0.5))
    omega /= xi
    omega *= np.float32(0.5)
    omega *= mask
    return np.asarray(omega)


def _dense_blocks(
    successes: sp.csr_array, exposures: sp.csr_array
) -> Iterator[tuple[slice, Float32Array, Float32Array]]:
    """Users block by block: targets [seen | liked] and which of them are known, as zeros and ones."""
    for start in range(0, exposures.shape[0], BLOCK):
        block = slice(start, min(start + BLOCK, exposures.shape[0]))
        seen = exposures[block].toarray().astype(np.float32)
        liked = successes[block].toarray().astype(np.float32)
        yield block, np.hstack([seen, liked]), np.hstack([np.ones_like(seen), seen])


def _second_moments(means: FloatArray, covs: FloatArray) -> FloatArray:
    """E[u u'] of users with a constant 1 as their last entry."""
    users = np.column_stack([means, np.ones(len(means))])
    moments = users[:, :, None] * users[:, None, :]
    moments[:, :-1, :-1] += covs
    return moments


def _logits(successes: sp.csr_array, exposures: sp.csr_array) -> FloatArray:
    """The logit of each item's share of exposures among users, and of likings among its exposures."""
    n_seen, n_liked = (np.asarray(table.sum(axis=0)).ravel() for table in (exposures, successes))
    share = n_liked.sum() / max(n_seen.sum(), 1.0)
    seen = (n_seen + 0.5) / (exposures.shape[0] + 1.0)
    liked = (n_liked + 2.0 * share + 1e-3) / (n_seen + 2.0 + 2e-3)
    p = np.clip(np.concatenate([seen, liked]), 1e-6, 1.0 - 1e-6)
    return np.asarray(np.log(p / (1.0 - p)))


def _first_vectors(start: LinearExpert, n_items: int, dim: int, anchors: FloatArray) -> FloatArray:
    """The linear expert's loadings as slopes of the logit, exposures first, capped so that nothing saturates."""
    loadings = np.zeros((2 * n_items, dim))
    known = min(dim, start.loadings.shape[1])
    loadings[:, :known] = np.roll(start.loadings, n_items, axis=0)[:, :known]
    share = np.roll(start.means, n_items)
    slopes = loadings / (share * (1.0 - share) + 0.01)[:, None]
    slopes *= min(1.0, LARGEST_START / max(float(np.abs(slopes).max()), 1e-12))
    return np.column_stack([slopes, anchors])


def _sampled_users(n_users: int, n_items: int, *, seed: int) -> IntArray:
    most = max(FEWEST_USERS, DENSE_CELLS // max(n_items, 1))
    if n_users <= most:
        return np.arange(n_users)
    return np.sort(np.random.default_rng(seed).choice(n_users, most, replace=False))
