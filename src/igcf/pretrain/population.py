"""From trained vectors to what the online phase starts with: population prior, noise, the link of binary feedback."""

import math
from dataclasses import dataclass

import numpy as np

from igcf.arrays import AnyFloatArray, Float32Array, FloatArray
from igcf.graph import Propagation, sampled_products
from igcf.pretrain.objective import curvature
from igcf.pretrain.pairs import Pairs

SMALLEST_NOISE = 1e-4
"""Floor of the estimated noise variance; a model that fits its log perfectly is still not certain."""


SHRINKAGE = 10.0
"""Reactions that the mean noise counts for when an item's own noise is estimated."""
FLOOR_SHARE = 0.25
"""Share of the mean noise below which no item lies."""


@dataclass(frozen=True, eq=False)
class OnlineSettings:
    """What the online phase takes beside the vectors."""

    noise_var: float | FloatArray
    """One for all items, or one for each."""
    gamma: float
    xi: float | None = None
    """Where the logistic likelihood of binary feedback is expanded."""


@dataclass(frozen=True, eq=False)
class Vectors:
    """Propagated posterior means (eq:pos_i) and, where they were asked for, variances."""

    users: Float32Array
    """(users, d)"""
    items: Float32Array
    """(items, d)"""
    user_variances: Float32Array | None = None
    item_variances: Float32Array | None = None


def propagated(
    mean: Float32Array, n_users: int, propagation: Propagation, *, std: Float32Array | None = None
) -> Vectors:
    """Propagate the means of all nodes and, with `std`, their variances."""
    nodes = propagation.apply(mean)
    if std is None:
        return Vectors(nodes[:n_users], nodes[n_users:])
    variances = propagation.variances(std**2, rng=np.random.default_rng(0))
    return Vectors(nodes[:n_users], nodes[n_users:], variances[:n_users], variances[n_users:])


def meta_distribution(
    users: Float32Array, *, gamma: float, user_variances: Float32Array | None = None
) -> tuple[FloatArray, FloatArray]:
    """Mean and covariance of the users' vectors (divisor M - 1), plus gamma on the diagonal.

    With `user_variances` their mean is added too: by the law of total variance the spread of the posterior means
    alone is too small.
    """
    vectors = users.astype(np.float64)
    mean = vectors.mean(axis=0)
    centred = vectors - mean
    cov = centred.T @ centred / max(len(vectors) - 1, 1)
    if user_variances is not None:
        cov += np.diag(user_variances.mean(axis=0, dtype=np.float64))
    cov += gamma * np.eye(len(mean))
    return mean, (cov + cov.T) / 2


def residual_variances(vectors: Vectors, pairs: Pairs, *, counts_missing: bool) -> FloatArray:
    """The noise variance of each item: how far reactions to it lie from the predictions, (items,).

    With `counts_missing` every user without a reaction counts as a zero, and the variance is over all users; otherwise
    it is over the item's reactions, drawn toward the mean of all items where there are few. A share of the mean is
    added everywhere: an item that almost nobody knows fits its zeros well, but is not certain.
    """
    scores = sampled_products(pairs.indptr, pairs.items, vectors.users, vectors.items)
    counts = np.bincount(pairs.items, minlength=pairs.n_items)
    squares = _sum_by_item(pairs, (pairs.targets - scores) ** 2)
    if counts_missing:
        gram = vectors.users.T @ vectors.users
        all_users = np.einsum("nd,nd->n", vectors.items @ gram, vectors.items, dtype=np.float64)
        variances = (squares + all_users - _sum_by_item(pairs, scores**2)) / pairs.n_users
    else:
        variances = (squares + SHRINKAGE * squares.sum() / counts.sum()) / (counts + SHRINKAGE)
    mean = float(np.average(np.maximum(variances, 0.0), weights=counts))
    return np.asarray(np.maximum(variances, 0.0) + max(FLOOR_SHARE * mean, SMALLEST_NOISE))


def _sum_by_item(pairs: Pairs, values: Float32Array) -> FloatArray:
    return np.bincount(pairs.items, weights=values, minlength=pairs.n_items).astype(np.float64)


@dataclass(frozen=True, eq=False)
class Linear:
    """A linear-Gaussian view of a model in reward units."""

    item_vectors: Float32Array
    item_variances: Float32Array | None
    prior_mean: FloatArray
    prior_cov: FloatArray


def logits_as_rewards(linear: Linear, xi: float) -> Linear:
    """Binary feedback: rewrite a model of logits x so that its predictions are rewards.

    The quadratic bound of the logistic likelihood around xi makes a reaction r in {0, 1} a Gaussian observation
    (r - 1/2) / (2 lambda) of x with variance 1 / (2 lambda), lambda = tanh(xi / 2) / (4 xi); equivalently r is one of
    1/2 + 2 lambda x with variance 2 lambda. The constant 1/2 becomes one more coordinate that is known exactly.
    """
    slope = 2 * curvature(xi)
    items = np.column_stack([slope * linear.item_vectors, np.full(len(linear.item_vectors), 0.5)]).astype(np.float32)
    variances = linear.item_variances
    if variances is not None:
        variances = np.column_stack([slope**2 * variances, np.zeros(len(variances))]).astype(np.float32)
    d = len(linear.prior_mean)
    cov = np.zeros((d + 1, d + 1))
    cov[:d, :d] = linear.prior_cov
    return Linear(items, variances, np.append(linear.prior_mean, 1.0), cov)


def root_mean_square(scores: AnyFloatArray) -> float:
    """The best common xi of the bound for these logits."""
    return math.sqrt(float(np.mean(scores.astype(np.float64) ** 2))) if len(scores) else 0.0
