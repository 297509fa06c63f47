"""Names for the array types that the package passes around, and roots of covariances."""

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

FloatArray: TypeAlias = npt.NDArray[np.float64]
"""Beliefs and everything that is accumulated."""
Float32Array: TypeAlias = npt.NDArray[np.float32]
"""Big matrices: item vectors, observed values."""
AnyFloatArray: TypeAlias = npt.NDArray[np.floating]
IntArray: TypeAlias = npt.NDArray[np.integer]
BoolArray: TypeAlias = npt.NDArray[np.bool_]


def covariance_root(cov: FloatArray) -> FloatArray:
    """Return a matrix L with L L' = cov, of shape (..., d, d) like `cov`, which may be singular.

    L times standard normal numbers is a draw from N(0, cov). The columns are the principal directions, the least
    uncertain first, each times its standard deviation.
    """
    size, axes = np.linalg.eigh(cov)
    return np.asarray(axes * np.sqrt(np.maximum(size, 0.0))[..., None, :])


def uncertain_directions(cov: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the root of a covariance (d, d) in the r directions in which it is not zero, and the inverse of that root.

    Returns F and G, both of shape (d, r), with F F' = cov and G' F = I.
    """
    size, axes = np.linalg.eigh(cov)
    live = size > max(size[-1], 0.0) * 1e-12
    std = np.sqrt(size[live])
    return axes[:, live] * std, axes[:, live] / std
