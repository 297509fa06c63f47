"""The Gaussian belief about one user, in closed form (docs/maths.md, section Online)."""

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from igcf.arrays import FloatArray
from igcf.errors import ConfigError
from igcf.model.channel import LOWEST, Link, sigmoid

NEWTON_STEPS = 8
"""Steps to the mode of a logistic update; four are enough unless the prior is very wide."""


@dataclass(frozen=True, eq=False)
class Belief:
    """N(mean, cov) over a user's vector. Immutable: an update returns a new belief."""

    mean: FloatArray
    """(d,)"""
    cov: FloatArray
    """(d, d); may be singular, as when one direction is known for certain"""

    def __post_init__(self) -> None:
        """Refuse shapes that would broadcast silently."""
        if self.cov.shape != (self.mean.size, self.mean.size) or self.mean.ndim != 1:
            raise ConfigError(f"mean has shape {self.mean.shape}, cov {self.cov.shape}; expected (d,) and (d, d)")

    def updated(self, x: npt.ArrayLike, reward: float, noise_var: float) -> "Belief":
        """The belief after `reward` for an item with vector `x`: rank-one form of eq:update_dis."""
        return self._moved(x, reward, noise_var, "identity")

    def updated_logistic(self, x: npt.ArrayLike, reward: float, noise_var: float) -> "Belief":
        """The belief after a success (1) or failure (0) with probability sigmoid(x . user): a Laplace step.

        The posterior differs from the prior along one line only: its mode is a search in one dimension.
        """
        return self._moved(x, reward, noise_var, "logit")

    def _moved(self, x: npt.ArrayLike, reward: float, noise_var: float, link: Link) -> "Belief":
        vector = np.asarray(x, dtype=np.float64)
        if vector.shape != self.mean.shape:
            raise ConfigError(f"x has shape {vector.shape}, this belief needs {self.mean.shape}")
        mean, cov = self.mean.copy(), self.cov.copy()
        absorb(mean, cov, vector, reward, noise_var, link)
        return Belief(mean, cov)

    def updated_block(self, X: FloatArray, rewards: FloatArray, noise_var: FloatArray | float) -> "Belief":
        """The belief after several rewards at once, rows of `X` (n, d): block form of eq:update_dis, eq:init:pre."""
        C = self.cov @ X.T  # (d, n)
        M = X @ C + np.diag(np.broadcast_to(noise_var, len(X)))
        G = np.linalg.solve(M, C.T).T  # (d, n)
        cov = self.cov - G @ C.T
        return Belief(self.mean + G @ (rewards - X @ self.mean), (cov + cov.T) / 2)

    @classmethod
    def posterior(
        cls, mean: FloatArray, root: FloatArray, X: FloatArray, rewards: FloatArray, noise_var: FloatArray
    ) -> "Belief":
        """The same from a prior N(mean, root root') in its information form, cheaper where there are many rewards.

        With A = X root / sqrt(noise) and L L' = I + A'A the covariance is T'T, T = L^-1 root', and the mean moves by
        cov X' (rewards - X mean) / noise.
        """
        A = (X / np.sqrt(noise_var)[:, None]) @ root
        precision = A.T @ A
        precision.ravel()[:: len(precision) + 1] += 1.0
        T = np.linalg.solve(np.linalg.cholesky(precision), root.T)
        cov = T.T @ T
        return cls(mean + cov @ (((rewards - X @ mean) / noise_var) @ X), cov)

    def moments(self, X: npt.NDArray[np.floating]) -> tuple[FloatArray, FloatArray]:
        """Mean and standard deviation of `X @ user`, one pair per row; observation noise is not added."""
        rows = np.asarray(X, dtype=np.float64)
        var = np.einsum("nd,nd->n", rows @ self.cov, rows)
        return rows @ self.mean, np.sqrt(np.maximum(var, 0.0))

    def decayed(self, prior: "Belief", keep: float) -> "Belief":
        """Forget: the evidence gathered since `prior` keeps the weight `keep`, the rest falls back to the prior.

        In natural parameters: precision -> keep * precision + (1 - keep) * prior precision, likewise the information.
        Written in the directions in which the prior is uncertain, so that the prior's covariance may be singular.
        """
        if keep == 1.0:
            return self
        return Belief(*decay(self.mean, self.cov, prior, keep))


def absorb(
    mean: FloatArray, cov: FloatArray, x: FloatArray, reward: float, noise_var: float, link: Link
) -> tuple[FloatArray, float]:
    """Update one user's `mean` and `cov` in place; eq:update_dis, or a Laplace step for the link `logit`.

    Returns w = cov x, scaled so that the covariance loses w w', and how far the mean moved in units of it.
    """
    w: FloatArray = cov.dot(x)
    z, q = float(x.dot(mean)), float(x.dot(w))
    if link == "identity":
        shrink = 1.0 / (noise_var + q)
        shift = shrink * (reward - z)
    else:
        shift, shrink = _logistic_step_of_one(z, q, reward, noise_var)
    mean += shift * w
    root = math.sqrt(shrink)
    w *= root
    cov -= w[:, None].dot(w[None])
    return w, shift / root if root > 0.0 else 0.0


def _logistic_step_of_one(z: float, q: float, reward: float, noise_var: float) -> tuple[float, float]:
    """`logistic_step` for one user in plain numbers, many times faster."""
    weight, q = 1.0 / noise_var, max(q, 1e-12)
    a = z if (2.0 * reward - 1.0) * z > 0 else 0.0
    for _ in range(NEWTON_STEPS):
        p = 1.0 / (1.0 + math.exp(-max(a, LOWEST)))
        a -= ((a - z) / q - weight * (reward - p)) / (1.0 / q + weight * p * (1.0 - p))
    p = 1.0 / (1.0 + math.exp(-max(a, LOWEST)))
    curvature = weight * p * (1.0 - p)
    return (a - z) / q, curvature / (1.0 + curvature * q)


def decay(means: FloatArray, covs: FloatArray, prior: Belief, keep: float) -> tuple[FloatArray, FloatArray]:
    """`Belief.decayed` of one belief or of many at once, means (..., d) and covariances (..., d, d)."""
    size, axes = np.linalg.eigh(prior.cov)
    live = size > size[-1] * 1e-12
    frame = axes[:, live] * np.sqrt(size[live])  # prior.cov = frame @ frame.T
    inverse = axes[:, live] / np.sqrt(size[live])  # inverse.T @ frame = I
    precision = np.linalg.inv(inverse.T @ covs @ inverse)
    information = precision @ ((means - prior.mean) @ inverse)[..., None]
    cov = np.linalg.inv(keep * precision + (1.0 - keep) * np.eye(int(live.sum())))
    spread = frame @ cov @ frame.T
    return prior.mean + (frame @ (cov @ (keep * information)))[..., 0], (spread + np.swapaxes(spread, -1, -2)) / 2


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
