"""The Gaussian belief about one user, in closed form (docs/maths.md, section Online)."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from igcf.arrays import FloatArray
from igcf.errors import ConfigError
from igcf.model.channel import Link
from igcf.online.kernels import absorb


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
        mean, cov = np.array(self.mean[None], order="C"), np.array(self.cov[None], order="C")
        absorb(
            mean,
            cov,
            0,
            np.ascontiguousarray(vector)[None],
            np.array([reward]),
            np.array([noise_var]),
            np.array([link == "logit"]),
        )
        return Belief(mean[0], cov[0])

    def updated_block(self, X: FloatArray, rewards: FloatArray, noise_var: FloatArray | float) -> "Belief":
        """The belief after several rewards at once, rows of `X` (n, d): block form of eq:update_dis, eq:init:pre."""
        C = self.cov @ X.T  # (d, n)
        M = X @ C + np.diag(np.broadcast_to(noise_var, len(X)))
        G = np.linalg.solve(M, C.T).T  # (d, n)
        cov = self.cov - G @ C.T
        return Belief(self.mean + G @ (rewards - X @ self.mean), (cov + cov.T) / 2)

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
