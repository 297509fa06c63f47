"""The linear expert: what a reaction shows about all items as a Gaussian factor model (docs/maths.md, section Experts).

A user is some rows of zeros and ones over all items: did they succeed (y), was there any reaction (e), was it more than
a success. All are N(mean + loadings . u, residual) with u ~ N(0, I): probabilistic principal components with a residual
per column.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np
import scipy.sparse as sp

from igcf.arrays import Float32Array, FloatArray, IntArray
from igcf.graph.sparse_products import sparse_product
from igcf.training.experts.executor import Executor, Worker

BLOCKS, WIDTH = 12, 16
"""Blocks and vectors per block of the Krylov space in which the components are sought."""
FLAT = 1e-12  # distance from 0 or 1 below which a column of zeros and ones is constant


@dataclass(frozen=True, eq=False)
class LinearExpert:
    """Gaussian factor model of the columns of all tables, one table after the other."""

    means: FloatArray  # mean of each column, shape (tables x items,)
    loadings: FloatArray
    """Loadings of each column, shape (tables x items, d), scaled so that the population of users is N(0, I)."""
    residuals: FloatArray  # variance of each column that the loadings leave unexplained, shape (tables x items,)


class LinearRows:
    """Rows of some users over the columns of all tables; its methods are a worker's share of a computation."""

    def __init__(self, tables: Sequence[sp.csr_array]) -> None:
        self.rows = sp.csr_array(sp.hstack(tables, format="csr"), dtype=np.float32)
        self.columns = sp.csr_array(self.rows.T)
        self.means = np.zeros(self.rows.shape[1])

    def column_sums(self) -> FloatArray:
        """Return the sum of each column."""
        return np.asarray(self.rows.sum(axis=0, dtype=np.float64))

    def centre(self, means: FloatArray) -> None:
        """Take over the means of all columns, of all users."""
        self.means = means

    def projected(self, basis: Float32Array) -> Float32Array:
        """Return the centred rows times some vectors of the columns."""
        return np.asarray(sparse_product(self.rows, basis) - (self.means @ basis).astype(np.float32))

    def squared(self, basis: Float32Array) -> Float32Array:
        """Return the products of all columns with each other, times some vectors of the columns."""
        found = self.projected(basis)
        centre = np.outer(self.means, found.sum(axis=0, dtype=np.float64)).astype(np.float32)
        return np.asarray(sparse_product(self.columns, found) - centre)

    def gram(self, basis: Float32Array) -> FloatArray:
        """Return the products with each other of the rows in a basis."""
        found = self.projected(basis).astype(np.float64)
        return np.asarray(found.T @ found)


def on_rows(worker: Worker, method: str, *arguments: Any) -> Any:
    """Call a method of the rows that a worker holds."""
    assert worker.linear is not None, "call hold_rows before"  # noqa: S101
    return getattr(worker.linear, method)(*arguments)


def fit_linear(tables: Sequence[sp.csr_array], dim: int, *, seed: int = 0) -> LinearExpert:
    """Compute principal components of [successes | exposures | ...] without making the matrix dense.

    Args:
        tables: Zeros and ones of shape (users, items) each, the successes first.
        dim: Number d of components; fewer where the log has no more.
        seed: Seed of the vectors that the iteration starts from.
    """
    worker = Worker()
    worker.linear = LinearRows(tables)
    return fit_linear_on(Executor(worker), tables[0].shape[0], dim, seed=seed)


def fit_linear_on(
    executor: Executor, n_users: int, dim: int, *, seed: int = 0, start: LinearExpert | None = None
) -> LinearExpert:
    """Compute the components of the rows of users that workers hold (`hold_rows`), as `fit_linear` does.

    `start` is the result for most of the same users, from which one product is enough.
    """
    means = _added(executor.call(on_rows, "column_sums")) / n_users
    executor.call(on_rows, "centre", means)
    dim = min(dim, n_users - 1, len(means) - 1)
    if dim < 1 or ((means < FLAT) | (means > 1.0 - FLAT)).all():  # one user, or all alike: nothing varies
        return LinearExpert(means, np.zeros((len(means), 1)), np.zeros(len(means)))
    if start is None or start.loadings.shape[1] < dim:
        first, size = np.random.default_rng(seed).standard_normal((len(means), WIDTH)), max(BLOCKS * WIDTH, 4 * dim)
    else:
        first, size = start.loadings, 2 * start.loadings.shape[1]
    basis = _basis(executor, first, size)
    squares, turn = np.linalg.eigh(_added(executor.call(on_rows, "gram", basis)))
    axes = (basis @ turn[:, : -dim - 1 : -1]).T
    signs = np.sign(axes[np.arange(dim), np.abs(axes).argmax(axis=1)])  # a sign of its own would differ by machine
    loadings = axes.T * (signs * np.sqrt(np.maximum(squares[: -dim - 1 : -1], 0.0) / n_users))
    residuals = np.maximum(means * (1.0 - means) - (loadings**2).sum(axis=1), 0.0)  # z * z = z
    return LinearExpert(means, loadings, residuals)


def _basis(executor: Executor, first: FloatArray, size: int) -> Float32Array:
    """Return an orthonormal basis of vectors of the columns and their products: a block Krylov space."""
    size, width = min(size, len(first)), first.shape[1]
    basis = np.linalg.qr(first.astype(np.float32))[0]
    while basis.shape[1] < size:
        more = _added(executor.call(on_rows, "squared", np.ascontiguousarray(basis[:, -width:])))
        basis = np.linalg.qr(np.column_stack([basis, more]))[0][:, :size]
    return np.ascontiguousarray(basis)


def hold_rows(worker: Worker, thresholds: Sequence[float], items: IntArray | None, without: IntArray) -> int:
    """Let a worker make the rows of its users over some or all items, one table per threshold; return their number."""
    worker.linear = None
    users = worker.part.kept(without)
    tables = [worker.part.table(users, threshold) for threshold in thresholds]
    worker.linear = LinearRows(tables if items is None else [sp.csr_array(table[:, items]) for table in tables])
    return len(users)


def _added(parts: Sequence[FloatArray]) -> FloatArray:
    return reduce(np.add, parts)
