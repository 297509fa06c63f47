"""From trained vectors to what the online phase starts with: population prior, noise, the link of binary feedback."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from igcf.arrays import Float32Array, FloatArray
from igcf.config import GraphConfig
from igcf.graph import sampled_products
from igcf.training.variational.objective import curvature
from igcf.training.variational.pairs import Pairs

SMALLEST_NOISE = 1e-4  # floor of the estimated noise variance; a model that fits its log perfectly is still not certain
SHRINKAGE = 10.0  # reactions that the mean noise counts for when an item's own noise is estimated
FLOOR_SHARE = 0.25  # lower bound of an item's noise, as a share of the mean noise
ROW_BLOCK = 1 << 16  # number of user vectors in memory in double precision at a time


@dataclass(frozen=True, eq=False)
class OnlineSettings:
    """Settings of the online phase that follow from training."""

    noise_var: float | FloatArray  # noise variance, one for all items or one for each
    gamma: float  # number added to the diagonal of the population covariance
    xi: float | None = None  # point at which the logistic likelihood of binary feedback is expanded


@dataclass(frozen=True, eq=False)
class UserSums:
    """Sums over the users that the online phase needs."""

    n_users: float
    vectors: FloatArray  # sum of the users' vectors, shape (d,)
    products: FloatArray  # sum of the outer products of the users' vectors, shape (d, d)
    counts: FloatArray  # number of reactions to each item, shape (items,)
    errors: FloatArray  # sum of squared errors at the reactions to each item, shape (items,)
    scores: FloatArray  # sum of squared predictions at the reactions to each item, shape (items,)


@dataclass(frozen=True, eq=False)
class Vectors:
    """Propagated posterior means (eq:pos_i) and, where they were asked for, variances."""

    items: Float32Array  # item vectors, shape (items, d)
    users: UserSums
    item_variances: Float32Array | None = None


def user_sums(users: Float32Array, items: Float32Array, pairs: Pairs) -> UserSums:
    """Return the sums over `users` with the reactions `pairs`."""
    d = users.shape[1]
    vectors, products = np.zeros(d), np.zeros((d, d))
    for start in range(0, len(users), ROW_BLOCK):
        block = users[start : start + ROW_BLOCK].astype(np.float64)
        vectors += block.sum(axis=0)
        products += block.T @ block
    scores = sampled_products(pairs.indptr, pairs.items, users, items)
    return UserSums(
        n_users=len(users),
        vectors=vectors,
        products=products,
        counts=np.bincount(pairs.items, minlength=pairs.n_items).astype(np.float64),
        errors=_sum_by_item(pairs, (pairs.targets - scores) ** 2),
        scores=_sum_by_item(pairs, scores**2),
    )


def meta_distribution(users: UserSums, *, gamma: float) -> tuple[FloatArray, FloatArray]:
    """Return mean and covariance of the users' vectors (divisor M - 1), plus gamma on the diagonal."""
    mean = users.vectors / users.n_users
    cov = (users.products - users.n_users * np.outer(mean, mean)) / max(users.n_users - 1, 1)
    cov += gamma * np.eye(len(mean))
    return mean, (cov + cov.T) / 2


def residual_variances(vectors: Vectors, *, counts_missing: bool) -> FloatArray:
    """Return the noise variance of each item: the mean squared error of its predictions, (items,).

    With `counts_missing` every user without a reaction counts as a zero, and the variance is over all users; otherwise
    it is over the item's reactions, drawn toward the mean of all items where there are few. A share of the mean is
    added everywhere: an item that almost nobody knows fits its zeros well, but is not certain.
    """
    users, counts = vectors.users, vectors.users.counts
    if counts_missing:
        all_users = np.einsum("nd,nd->n", vectors.items @ users.products, vectors.items)
        variances = (users.errors + all_users - users.scores) / users.n_users
    else:
        variances = (users.errors + SHRINKAGE * users.errors.sum() / counts.sum()) / (counts + SHRINKAGE)
    mean = float(np.average(np.maximum(variances, 0.0), weights=counts))
    return np.asarray(np.maximum(variances, 0.0) + max(FLOOR_SHARE * mean, SMALLEST_NOISE))


def _sum_by_item(pairs: Pairs, values: Float32Array) -> FloatArray:
    return np.bincount(pairs.items, weights=values, minlength=pairs.n_items).astype(np.float64)


def root_mean_square(users: UserSums) -> float:
    """Return the root mean square of the predictions at the reactions: the best common xi of the logistic bound."""
    n = float(users.counts.sum())
    return math.sqrt(float(users.scores.sum()) / n) if n else 0.0


def logits_as_rewards(
    vectors: Vectors, mean: FloatArray, cov: FloatArray, xi: float
) -> tuple[Vectors, FloatArray, FloatArray]:
    """Rewrite vectors and prior of logits x, from binary feedback, so that predictions are rewards.

    The quadratic bound of the logistic likelihood around xi makes a reaction r in {0, 1} a Gaussian observation
    (r - 1/2) / (2 lambda) of x with variance 1 / (2 lambda), lambda = tanh(xi / 2) / (4 xi); equivalently r is one of
    1/2 + 2 lambda x with variance 2 lambda. The constant 1/2 becomes one more coordinate that is known exactly.
    """
    slope = 2 * curvature(xi)
    items = np.column_stack([slope * vectors.items, np.full(len(vectors.items), 0.5)]).astype(np.float32)
    variances = vectors.item_variances
    if variances is not None:
        variances = np.column_stack([slope**2 * variances, np.zeros(len(variances))]).astype(np.float32)
    return replace(vectors, items=items, item_variances=variances), np.append(mean, 1.0), np.pad(cov, (0, 1))


NOISE_FACTORS = (0.25, 0.5, 2.0)  # candidates for the noise variance, as multiples of the estimate
GAMMA_FACTORS = (0.1, 10.0, 100.0)  # candidates for gamma, as multiples of the setting


def tuned_online_settings(
    start: OnlineSettings, score: Callable[[OnlineSettings], float], config: GraphConfig
) -> tuple[OnlineSettings, float]:
    """Search the noise variance first, then gamma; return the settings with the largest score, and that score."""
    best, best_score = start, score(start)
    noises = [start.noise_var * factor for factor in (NOISE_FACTORS if config.online_noise_var is None else ())]
    gammas = [(start.gamma or 1e-3) * factor for factor in GAMMA_FACTORS]
    changes: list[dict[str, Any]] = [{"noise_var": each} for each in noises] + [{"gamma": each} for each in gammas]
    for change in changes:
        candidate = replace(best, **change)
        if (candidate_score := score(candidate)) > best_score:
            best, best_score = candidate, candidate_score
    return best, best_score
