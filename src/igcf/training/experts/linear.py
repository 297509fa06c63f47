"""The linear expert: what a reaction shows about all items as a Gaussian factor model (docs/maths.md, section Experts).

A user is some rows of zeros and ones over all items: did they succeed (y), was there any reaction (e), was it more than
a success. All are N(mean + loadings . u, residual) with u ~ N(0, I): probabilistic principal components with a residual
per column.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import LinearOperator, svds

from igcf.arrays import FloatArray

FLAT = 1e-12
"""Distance from 0 or 1 below which a column of zeros and ones is constant."""
QUIET_USER = 5.0
"""Added to a user's number of successes before it becomes a weight, so that no weight is zero."""

FULL_COMPONENTS = 48
"""Number of leading components that count in full; those beyond them are shrunk."""
SHRINKAGE = 0.5
"""Factor on the variance of the components beyond the first 48, which hold more noise than taste."""
WIDE_RESIDUAL = 0.08
"""Residual variance of every column where there are more than 48 components: what they leave is too little."""


@dataclass(frozen=True, eq=False)
class LinearExpert:
    """Gaussian factor model of the columns of all tables, one table after the other."""

    means: FloatArray
    """Mean of each column, shape (tables x items,)."""
    loadings: FloatArray
    """Loadings of each column, shape (tables x items, d), scaled so that the population of users is N(0, I)."""
    residuals: FloatArray
    """Variance of each column that the loadings leave unexplained, shape (tables x items,)."""


def fit_linear(tables: Sequence[sp.csr_array], dim: int, *, activity: float = 0.0, seed: int = 0) -> LinearExpert:
    """Compute weighted principal components of [successes | exposures | ...] without making the matrix dense.

    Args:
        tables: Zeros and ones of shape (users, items) each, the successes first.
        dim: Number d of components; fewer where the log has no more.
        activity: Users weigh (their successes + 5) ** activity: the more active tell more about what is not liked.
        seed: Seed of the vector that the iteration starts from.
    """
    Z = sp.hstack(tables, format="csr").astype(np.float64)
    n_users = Z.shape[0]
    weight = (np.asarray(tables[0].sum(axis=1), dtype=np.float64).ravel() + QUIET_USER) ** activity
    weight /= weight.mean()
    means = (Z.T @ weight) / n_users
    root = np.sqrt(weight)

    def forward(v: FloatArray) -> FloatArray:
        return np.asarray(root * (Z @ v.ravel() - means @ v.ravel()))

    def backward(u: FloatArray) -> FloatArray:
        scaled = root * u.ravel()
        return np.asarray(Z.T @ scaled - means * scaled.sum())

    dim = min(dim, min(Z.shape) - 1)
    if dim < 1 or ((means < FLAT) | (means > 1.0 - FLAT)).all():  # one user, or all alike: nothing varies
        return LinearExpert(means, np.zeros((Z.shape[1], 1)), np.zeros(Z.shape[1]))
    start = np.random.default_rng(seed).standard_normal(min(Z.shape))
    centred = LinearOperator(Z.shape, matvec=forward, rmatvec=backward, dtype=np.float64)
    _, size, axes = svds(centred, k=dim, v0=start)
    order = np.argsort(-size)
    axes, size = axes[order], size[order]
    signs = np.sign(axes[np.arange(dim), np.abs(axes).argmax(axis=1)])  # a sign of its own would differ by machine
    loadings = axes.T * (signs * size / np.sqrt(n_users))
    residuals = np.maximum(means * (1.0 - means) - (loadings**2).sum(axis=1), 0.0)  # z * z = z
    return LinearExpert(means, loadings, residuals)


def shrunk_beyond_leading(expert: LinearExpert) -> LinearExpert:
    """Return the expert with its components beyond the first 48 shrunk and one residual variance for all columns.

    An expert of at most 48 components stays as it is.
    """
    dim = expert.loadings.shape[1]
    if dim <= FULL_COMPONENTS:
        return expert
    factors = np.where(np.arange(dim) < FULL_COMPONENTS, 1.0, np.sqrt(SHRINKAGE))
    return replace(expert, loadings=expert.loadings * factors, residuals=np.full_like(expert.residuals, WIDE_RESIDUAL))
