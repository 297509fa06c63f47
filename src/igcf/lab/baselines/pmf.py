"""Probabilistic matrix factorisation on observed pairs by alternating sweeps: maximum a posteriori or Gibbs."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
import scipy.sparse as sp

from igcf.arrays import FloatArray
from igcf.errors import ConfigError

Estimate = Literal["map", "mean", "cond", "sample"]
ESTIMATES: tuple[Estimate, ...] = ("map", "mean", "cond", "sample")
DENSE_FROM = 0.2
"""Share of observed pairs from which a dense product is faster than a sparse one."""
BLOCK_BYTES = 2**27
"""Size of the Gram matrices that are held at a time."""


@dataclass(frozen=True, eq=False)
class Factors:
    """Result of a factorisation that the online phase needs."""

    users: FloatArray
    """User vectors, shape (users, d)."""
    items: FloatArray
    """Item vectors, shape (items, d)."""
    item_variances: FloatArray
    """Diagonals of the items' conditional covariances Psi_i for noise variance 1, shape (items, d)."""


class _Side:
    """Ratings in one direction, prepared for many half-sweeps."""

    def __init__(self, ratings: sp.csr_array) -> None:
        mask = ratings.copy()
        mask.data = np.ones(len(ratings.data), dtype=np.float32)
        share = len(ratings.data) / max(ratings.shape[0] * ratings.shape[1], 1)
        self.mask = mask.toarray() if share > DENSE_FROM else mask
        self.ratings = ratings.astype(np.float64)

    def sweep(
        self, fixed: FloatArray, penalty: float, rng: np.random.Generator | None, *, spread: bool = False
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return conditional means, draws (the means themselves without `rng`) and, with `spread`, variances.

        A = Y'Y + penalty I over a row's observed pairs, mean = A^-1 Y'r, draw = mean + A^-1/2 z.
        """
        d = fixed.shape[1]
        upper = np.triu_indices(d)
        products = (fixed[:, upper[0]] * fixed[:, upper[1]]).astype(np.float32)  # (n, d (d + 1) / 2)
        targets = np.asarray(self.ratings @ fixed)
        means, draws, variances = (np.zeros((len(targets), d)) for _ in range(3))
        block = max(1, BLOCK_BYTES // (8 * d * d))
        for start in range(0, len(targets), block):
            rows = slice(start, start + block)
            packed = self.mask[rows] @ products
            gram = np.empty((len(packed), d, d))
            gram[:, upper[0], upper[1]] = packed
            gram[:, upper[1], upper[0]] = packed
            gram[:, np.arange(d), np.arange(d)] += penalty
            means[rows] = np.linalg.solve(gram, targets[rows][..., None])[..., 0]
            draws[rows] = means[rows]
            if rng is not None:
                root = np.linalg.cholesky(gram)
                noise = rng.standard_normal((len(packed), d, 1))
                draws[rows] += np.linalg.solve(root.transpose(0, 2, 1), noise)[..., 0]
            if spread:
                variances[rows] = np.einsum("bdd->bd", np.linalg.inv(gram))
        return means, draws, variances


def factorise(
    ratings: sp.csr_array, *, dim: int, penalty: float, rounds: int, estimate: Estimate, rng: np.random.Generator
) -> Factors:
    """Factorise users x items; stored entries are observed, also where they are zero. The noise variance is 1.

    Args:
        ratings: users x items.
        dim: size of the vectors.
        penalty: lambda, noise variance over prior variance, the same for users and items.
        rounds: sweeps over users, then items.
        estimate: `map` leaves the noise out (alternating least squares); the others run a Gibbs chain and take the
            average of the items' conditional means over its second half, the last conditional mean, or the last draw.
        rng: initial vectors and draws.
    """
    if estimate not in ESTIMATES:
        raise ConfigError(f"estimate must be one of {', '.join(ESTIMATES)}, got {estimate!r}")
    if dim < 1 or rounds < 1 or not penalty > 0:
        raise ConfigError(f"dim and rounds must be at least 1 and penalty positive, got {dim}, {rounds}, {penalty}")
    by_user, by_item = _Side(ratings), _Side(ratings.T.tocsr())
    noise = None if estimate == "map" else rng
    start_std = 0.1 if estimate == "map" else penalty**-0.5
    items = rng.normal(0.0, start_std, (ratings.shape[1], dim))
    averages = []
    for number in range(rounds):
        _, users, _ = by_user.sweep(items, penalty, noise)
        means, items, variances = by_item.sweep(users, penalty, noise, spread=number == rounds - 1)
        if estimate == "mean" and number >= rounds // 2:
            averages.append(means)
    chosen = {"map": means, "cond": means, "sample": items, "mean": np.mean(averages, axis=0) if averages else means}
    return Factors(users, chosen[estimate], variances)
