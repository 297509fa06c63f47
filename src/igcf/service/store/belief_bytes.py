"""A belief as bytes, as it is kept in the store."""

from functools import lru_cache

import numpy as np

from igcf.arrays import IntArray
from igcf.online import Belief


def encode_belief(belief: Belief) -> bytes:
    """Write mean and upper triangle of the covariance as little-endian float64: (d + d (d + 1) / 2) * 8 bytes."""
    upper = belief.cov[_upper(len(belief.mean))]
    return np.concatenate([belief.mean, upper]).astype("<f8").tobytes()


def decode_belief(content: bytes, dim: int) -> Belief | None:
    """Read what `encode_belief` wrote; None when the bytes do not fit `dim` or hold a number that is not finite."""
    if len(content) != (dim + dim * (dim + 1) // 2) * 8:
        return None
    numbers = np.frombuffer(content, dtype="<f8")
    if not np.isfinite(numbers).all():
        return None
    cov = np.zeros((dim, dim))
    cov[_upper(dim)] = numbers[dim:]
    cov += np.triu(cov, 1).T
    return Belief(numbers[:dim].astype(np.float64), cov)


@lru_cache(maxsize=4)
def _upper(dim: int) -> tuple[IntArray, IntArray]:
    return np.triu_indices(dim)
