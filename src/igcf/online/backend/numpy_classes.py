"""As which class a reaction counts, so that learning is monotone, in NumPy (docs/maths.md, Monotone learning)."""

import numpy as np

from igcf.arrays import FloatArray, IntArray
from igcf.model.channel import sigmoid
from igcf.online.backend.numpy_beliefs import gaussian_step, logistic_step
from igcf.online.backend.types import Classes

TOLERANCE = 1e-12
"""Differences below this are rounding. Native: the same number."""
EXPOSURE_FLOOR = 0.2
"""Added to an expected exposure, times the population's ratio to successes, before one is divided by the other.

Native: the same number.
"""


def counted_classes(rules: Classes, means: FloatArray, covs: FloatArray, rows: IntArray, classes: IntArray) -> IntArray:
    """As which class the reaction of each of many users counts, shape (users,).

    The whole update is carried out in the space of the item's own channels: z = X mean and Q = X cov X'.

    Args:
        rules: what the model can tell apart.
        means: of the users' vectors, shape (users, D).
        covs: of the users' vectors, shape (users, D, D).
        rows: the item of each user.
        classes: the class of each reaction; the number of classes stands for no reaction.
    """
    n_classes, n_users = len(rules.is_failure), len(rows)
    z, Q = _own_moments(rules, means, covs, rows)
    before = _view(rules, z, Q, rows)
    current, counted = before.copy(), np.full(n_users, n_classes + 1)
    is_none = classes == n_classes
    last = np.where(is_none, 0, classes)
    for number in range(int(last.max()) + 1):
        after = _view(rules, *_after(rules, z, Q, rows, rules.rewards[number]), rows)
        is_better = (after >= current - TOLERANCE).all(axis=1)
        is_good = last >= number
        if rules.is_full and rules.is_failure[number]:
            is_good &= (after <= before + TOLERANCE).all(axis=1)
        is_good &= is_better | ((counted == n_classes + 1) & (not rules.is_full or number == 0))
        current[is_good], counted[is_good] = after[is_good], number
    if is_none.any():
        after = _view(rules, *_after(rules, z, Q, rows, rules.rewards[n_classes]), rows)
        is_learned = (after >= current - TOLERANCE).all(axis=1) | (not rules.is_full)
        counted[is_none] = np.where(is_learned, n_classes, n_classes + 1)[is_none]
    return counted


def counted_class(rules: Classes, mean: FloatArray, cov: FloatArray, row: int, number: int) -> int:
    """As which class the reaction of one user counts."""
    return int(counted_classes(rules, mean[None], cov[None], np.array([row]), np.array([number]))[0])


def _own_moments(rules: Classes, means: FloatArray, covs: FloatArray, rows: IntArray) -> tuple[FloatArray, FloatArray]:
    """Means (users, channels) and covariances of z of the items' own channels; blocks are not correlated."""
    n_channels = len(rules.starts)
    z, Q = np.zeros((len(rows), n_channels)), np.zeros((len(rows), n_channels, n_channels))
    for start in np.unique(rules.starts):
        own = np.flatnonzero(rules.starts == start)
        X = np.stack([rules.vectors[number][rows] for number in own], axis=1).astype(np.float64)
        span = slice(start, start + X.shape[2])
        z[:, own] = np.einsum("ucd,ud->uc", X, means[:, span])
        Q[:, own[:, None], own] = X @ covs[:, span, span] @ X.transpose(0, 2, 1)
    return z, Q


def _after(
    rules: Classes, z: FloatArray, Q: FloatArray, rows: IntArray, rewards: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return the moments after a reaction with these rewards, channel after channel as the belief learns them."""
    z, Q = z.copy(), Q.copy()
    for number in np.flatnonzero(~np.isnan(rewards)):
        step = logistic_step if rules.is_logit[number] else gaussian_step
        own = np.full(len(z), rewards[number])
        shift, shrink = step(z[:, number], Q[:, number, number], own, rules.noise[number][rows])
        w = Q[:, :, number].copy()
        z += shift[:, None] * w
        Q -= shrink[:, None, None] * w[:, :, None] * w[:, None, :]
    return z, Q


def _view(rules: Classes, z: FloatArray, Q: FloatArray, rows: IntArray) -> FloatArray:
    """Expected reward and chance of the items, shape (users, 2); the reward twice where the chance follows from it."""
    expected = np.where(rules.is_logit, sigmoid(z), z)
    products = np.where(rules.is_member, expected[:, None, :], 1.0).prod(axis=2)
    reward = products @ rules.weights
    first, second = rules.chance.tolist()
    slope, shift, spread = rules.calibration.tolist()
    if first < 0:
        return np.stack([reward, reward], axis=1)
    if second >= 0:
        success = np.maximum(z[:, first], 0.0) + EXPOSURE_FLOOR * rules.prior_ratio[rows]
        chance = success / (np.maximum(z[:, second], 0.0) + EXPOSURE_FLOOR)
    else:
        variance = np.maximum(Q[:, first, first], 0.0)
        scale = np.sqrt(1.0 + np.pi / 8.0 * (slope * spread) ** 2 * variance)
        chance = sigmoid((slope * z[:, first] + shift) / scale)
    return np.stack([reward, chance], axis=1)
