"""A belief as bytes, and the standardised surprise of a reaction."""

from functools import lru_cache

import numpy as np

from igcf.arrays import IntArray
from igcf.model import Model
from igcf.online import Belief, learned

NEUTRAL_DRIFT = 1.0
"""Drift of a user whose reactions surprise exactly as much as the model expects."""
DRIFT_RATE = 0.1
LARGEST_SURPRISE = 100.0


def encode_belief(belief: Belief) -> bytes:
    """Mean and upper triangle of the covariance as little-endian float64: (d + d (d + 1) / 2) * 8 bytes."""
    upper = belief.cov[_upper(len(belief.mean))]
    return np.concatenate([belief.mean, upper]).astype("<f8").tobytes()


def decode_belief(content: bytes, dim: int) -> Belief | None:
    """What `encode_belief` wrote, or None when the bytes do not fit `dim`."""
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


def learned_with_surprise(model: Model, belief: Belief, row: int, value: float) -> tuple[Belief, float]:
    """The belief after one reaction, and its surprise: (reward - mean)^2 / (std^2 + noise), expected to be about 1."""
    mean = model.expected_of(belief.mean, row)
    _, std = belief.moments(model.item_vectors[row : row + 1])
    reward = float(model.reward.of(value))
    surprise = (reward - mean) ** 2 / (float(std[0]) ** 2 + float(model.item_noise[row]))
    return learned(belief, model, row, value), float(surprise)


def drifted(drift: float, surprise: float) -> float:
    """Moving average of the surprise: well above 1 means that the taste is not what the belief says."""
    return (1 - DRIFT_RATE) * drift + DRIFT_RATE * min(surprise, LARGEST_SURPRISE)
