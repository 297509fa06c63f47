"""The Gaussian belief about one user, in closed form (docs/maths.md, section Online)."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from igcf.arrays import FloatArray, uncertain_directions
from igcf.errors import ConfigError
from igcf.online import backend
from igcf.online.backend.types import Evidence


@dataclass(frozen=True, eq=False)
class Belief:
    """N(mean, cov) over a user's vector. Immutable: an update returns a new belief.

    >>> import igcf.online, numpy as np
    >>> belief = igcf.online.Belief(np.zeros(2), np.eye(2))
    >>> belief.updated(np.array([1.0, 0.0]), 1.0, 1.0).mean.tolist()
    [0.5, 0.0]
    """

    mean: FloatArray
    """Mean of the user's vector, shape (d,)."""
    cov: FloatArray
    """Covariance of the user's vector, shape (d, d); may be singular, as when one direction is known for certain."""

    def __post_init__(self) -> None:
        """Refuse shapes that would broadcast silently."""
        if self.cov.shape != (self.mean.size, self.mean.size) or self.mean.ndim != 1:
            raise ConfigError(f"mean has shape {self.mean.shape}, cov {self.cov.shape}; expected (d,) and (d, d)")

    def updated(self, x: npt.ArrayLike, reward: float, noise_var: float) -> "Belief":
        """Return the belief after `reward` for an item with vector `x`: rank-one form of eq:update_dis."""
        vector = np.asarray(x, dtype=np.float64)
        if vector.shape != self.mean.shape:
            raise ConfigError(f"x has shape {vector.shape}, this belief needs {self.mean.shape}")
        mean, cov = np.array(self.mean[None], order="C"), np.array(self.cov[None], order="C")
        evidence = Evidence(
            np.ascontiguousarray(vector)[None], np.array([reward]), np.array([noise_var]), np.zeros(1, dtype=np.bool_)
        )
        backend.loops.update_beliefs(mean, cov, 0, evidence)
        return Belief(mean[0], cov[0])

    def moments(self, X: npt.NDArray[np.floating]) -> tuple[FloatArray, FloatArray]:
        """Mean and standard deviation of `X @ user`, one pair per row; observation noise is not added."""
        rows = np.asarray(X, dtype=np.float64)
        var = np.einsum("nd,nd->n", rows @ self.cov, rows)
        return rows @ self.mean, np.sqrt(np.maximum(var, 0.0))

    def decayed(self, prior: "Belief", keep: float) -> "Belief":
        """Discount the evidence gathered since `prior` by the factor `keep`.

        In natural parameters: precision -> keep * precision + (1 - keep) * prior precision, likewise the information.
        Written in the directions in which the prior is uncertain, so that the prior's covariance may be singular.
        """
        if keep == 1.0:
            return self
        return Belief(*decay(self.mean, self.cov, prior, keep))


def decay(means: FloatArray, covs: FloatArray, prior: Belief, keep: float) -> tuple[FloatArray, FloatArray]:
    """`Belief.decayed` of one belief or of many at once, means (..., d) and covariances (..., d, d)."""
    frame, inverse = uncertain_directions(prior.cov)
    precision = np.linalg.inv(inverse.T @ covs @ inverse)
    information = precision @ ((means - prior.mean) @ inverse)[..., None]
    cov = np.linalg.inv(keep * precision + (1.0 - keep) * np.eye(frame.shape[1]))
    spread = frame @ cov @ frame.T
    return prior.mean + (frame @ (cov @ (keep * information)))[..., 0], (spread + np.swapaxes(spread, -1, -2)) / 2
