"""Updates of beliefs in NumPy (docs/maths.md, section Online)."""

from math import exp, isnan, sqrt

import numpy as np

from igcf.arrays import FloatArray
from igcf.model.channel import LOWEST, sigmoid
from igcf.online.backend.types import NEWTON_STEPS, Evidence

USERS = 16
"""Users per block of large arrays: what is computed on the way stays in the cache."""


def update_beliefs(
    means: FloatArray, covs: FloatArray, start: int, evidence: Evidence
) -> tuple[FloatArray, FloatArray]:
    """Update the beliefs of many users by one reaction each, in place; eq:update_dis, or a Laplace step.

    Args:
        means: of the users' vectors, shape (users, D).
        covs: of the users' vectors, shape (users, D, D).
        start: first dimension of the block that the reactions reveal something about.
        evidence: one reaction per user.

    Returns:
        w = cov x of each user, scaled so that the covariance loses w w', and how far the mean moved in units of it.
    """
    x, rewards, noise, is_logit = evidence
    span = slice(start, start + x.shape[1])
    own_means, own_covs = means[:, span], covs[:, span, span]
    w = np.matmul(own_covs, x[:, :, None])[:, :, 0]
    z, q = np.einsum("bd,bd->b", x, own_means), np.einsum("bd,bd->b", x, w)
    shift, shrink = gaussian_step(z, q, rewards, noise)
    if is_logit.any():
        shift, shrink = np.where(is_logit, logistic_step(z, q, rewards, noise), (shift, shrink))
    own_means += shift[:, None] * w
    root = np.sqrt(shrink)
    w *= root[:, None]  # its square is then what the covariance loses
    for first in range(0, len(w), USERS):
        part = w[first : first + USERS]
        own_covs[first : first + USERS] -= part[:, :, None] * part[:, None, :]
    return w, np.divide(shift, root, out=np.zeros_like(shift), where=root > 0)


def update_belief(mean: FloatArray, cov: FloatArray, start: int, evidence: Evidence) -> None:
    """Update one user's belief, mean (D,) and covariance (D, D), by any number of reactions, in place.

    Linear rewards are learned at once, because their order does not matter: by the smaller of a system of equations
    between the reactions and one between the dimensions. With a logistic link among them, one after the other.
    """
    span = slice(start, start + evidence.x.shape[1])
    if evidence.is_logit.any():
        update_in_turn(mean[span], cov[span, span], evidence)
        return
    is_known = ~np.isnan(evidence.rewards)
    x, noise = evidence.x[is_known], evidence.noise[is_known]
    mean[span], cov[span, span] = block_update(mean[span], cov[span, span], x, evidence.rewards[is_known], noise)


def block_update(
    mean: FloatArray, cov: FloatArray, x: FloatArray, rewards: FloatArray, noise: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Posterior mean and covariance after linear rewards, rows of `x` (n, d): block form of eq:update_dis.

    The covariance S may be singular: S - S X' (X S X' + N)^-1 X S, or, the same, (I + S X' N^-1 X)^-1 S.
    """
    n, d = x.shape
    left: FloatArray
    surprise = rewards - x @ mean
    if n <= d:
        c = cov @ x.T  # (d, n)
        gain = np.linalg.solve(x @ c + np.diag(noise), c.T).T  # (d, n)
        left, shift = cov - gain @ c.T, gain @ surprise
    else:
        weighted = x / noise[:, None]
        left = np.asarray(np.linalg.solve(np.eye(d) + cov @ (weighted.T @ x), cov), dtype=np.float64)
        left = (left + left.T) / 2
        shift = left @ (surprise @ weighted)
    return mean + shift, (left + left.T) / 2


def update_in_turn(mean: FloatArray, cov: FloatArray, evidence: Evidence) -> tuple[FloatArray, FloatArray]:
    """Update one block of one user's belief, mean (d,) and covariance (d, d), by one reaction after the other.

    Returns w and steps of each reaction as `update_beliefs` does; where nothing was revealed they are zero.
    """
    w, steps = np.zeros(evidence.x.shape), np.zeros(len(evidence.x))
    loss = np.empty_like(cov)
    rest = zip(evidence.rewards.tolist(), evidence.noise.tolist(), evidence.is_logit.tolist(), strict=True)
    for number, (reward, noise, is_logit) in enumerate(rest):
        if isnan(reward):
            continue
        x, own = evidence.x[number], w[number]
        np.dot(cov, x, out=own)
        z, q = float(x.dot(mean)), float(x.dot(own))
        if is_logit:
            shift, shrink = _logistic_step_of_one(z, q, reward, noise)
        else:
            shrink = 1.0 / (noise + q)
            shift = shrink * (reward - z)
        root = sqrt(shrink)
        mean += shift * own
        own *= root
        np.multiply(own[:, None], own, out=loss)
        cov -= loss
        steps[number] = shift / root if root > 0.0 else 0.0
    return w, steps


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


def _logistic_step_of_one(z: float, q: float, reward: float, noise_var: float) -> tuple[float, float]:
    """`logistic_step` of one user whose reward is known, on plain numbers, which are faster than arrays of one."""
    q = max(q, 1e-12)
    weight, precision = 1.0 / noise_var, 1.0 / q
    a = z if (2.0 * reward - 1.0) * z > 0 else 0.0
    p = 1.0 / (1.0 + exp(-max(a, LOWEST)))
    for _ in range(NEWTON_STEPS):
        before = a
        a -= ((a - z) * precision - weight * (reward - p)) / (precision + weight * p * (1.0 - p))
        p = 1.0 / (1.0 + exp(-max(a, LOWEST)))
        if a == before:
            break
    curvature = weight * p * (1.0 - p)
    return (a - z) * precision, curvature / (1.0 + curvature * q)
