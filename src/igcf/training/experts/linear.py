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
from scipy.linalg import svd
from scipy.sparse.linalg import LinearOperator, eigsh

from igcf.arrays import FloatArray, IntArray
from igcf.training.experts.executor import Executor, Worker

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
        self.Z = sp.hstack(tables, format="csr").astype(np.float64)
        self.means = np.zeros(self.Z.shape[1])

    def column_sums(self) -> FloatArray:
        """Return the sum of each column."""
        return np.asarray(self.Z.sum(axis=0))

    def centre(self, means: FloatArray) -> None:
        """Take over the means of all columns, of all users."""
        self.means = means

    def forward(self, v: FloatArray) -> FloatArray:
        """Return the centred rows times a vector of the columns."""
        return np.asarray(self.Z @ v - self.means @ v)

    def backward(self, u: FloatArray) -> FloatArray:
        """Return the transposed rows times a vector of these users."""
        return np.asarray(self.Z.T @ u - self.means * u.sum())

    def forward_and_back(self, v: FloatArray) -> FloatArray:
        """Return the products of all columns with each other, times a vector."""
        return self.backward(self.forward(v))

    def projected(self, basis: FloatArray, reduced: bool) -> FloatArray:
        """Return the rows in a basis; `reduced` to a triangle that has the same products."""
        found = np.column_stack([self.forward(column) for column in basis.T])
        return np.asarray(np.linalg.qr(found, mode="r")) if reduced else found


def on_rows(worker: Worker, method: str, *arguments: Any) -> Any:
    """Call a method of the rows that a worker holds."""
    assert worker.linear is not None, "call hold_rows before"  # noqa: S101
    return getattr(worker.linear, method)(*arguments)


def fit_linear(tables: Sequence[sp.csr_array], dim: int, *, seed: int = 0) -> LinearExpert:
    """Compute principal components of [successes | exposures | ...] without making the matrix dense.

    Args:
        tables: Zeros and ones of shape (users, items) each, the successes first.
        dim: Number d of components; fewer where the log has no more.
        seed: Seed of the vector that the iteration starts from.
    """
    worker = Worker()
    worker.linear = LinearRows(tables)
    return fit_linear_on(Executor(worker), [tables[0].shape[0]], dim, seed=seed)


def fit_linear_on(executor: Executor, n_users: Sequence[int], dim: int, *, seed: int = 0) -> LinearExpert:
    """Compute the components of rows that workers hold (`hold_rows`), as `fit_linear` does; `n_users` of each."""
    total = sum(n_users)
    means = _added(executor.call(on_rows, "column_sums")) / total
    executor.call(on_rows, "centre", means)
    shape = (total, len(means))
    dim = min(dim, min(shape) - 1)
    if dim < 1 or ((means < FLAT) | (means > 1.0 - FLAT)).all():  # one user, or all alike: nothing varies
        return LinearExpert(means, np.zeros((len(means), 1)), np.zeros(len(means)))
    size, axes = _leading(executor, n_users, shape, dim, np.random.default_rng(seed).standard_normal(min(shape)))
    order = np.argsort(-size)
    axes, size = axes[order], size[order]
    signs = np.sign(axes[np.arange(dim), np.abs(axes).argmax(axis=1)])  # a sign of its own would differ by machine
    loadings = axes.T * (signs * size / np.sqrt(total))
    residuals = np.maximum(means * (1.0 - means) - (loadings**2).sum(axis=1), 0.0)  # z * z = z
    return LinearExpert(means, loadings, residuals)


def _leading(
    executor: Executor, n_users: Sequence[int], shape: tuple[int, int], dim: int, start: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return the largest singular values and their axes (dim, columns), by the steps of `scipy.sparse.linalg.svds`.

    The iteration runs over vectors of the shorter side: of the columns where there are more users, so that vectors of
    users stay where they are, or of the users.
    """
    ends = np.cumsum(n_users)[:-1]

    def over_columns(v: FloatArray) -> FloatArray:
        return _added(executor.call(on_rows, "forward_and_back", v.ravel()))

    def back(u: FloatArray) -> FloatArray:
        return _added(executor.call(on_rows, "backward", each=[(piece,) for piece in np.split(u.ravel(), ends)]))

    def over_users(u: FloatArray) -> FloatArray:
        return np.concatenate(executor.call(on_rows, "forward", back(u)))

    has_more_users = shape[0] >= shape[1]
    n = min(shape)
    products = LinearOperator((n, n), matvec=over_columns if has_more_users else over_users, dtype=np.float64)
    basis = np.linalg.qr(eigsh(products, k=dim, v0=start)[1])[0]
    if has_more_users:
        rows = np.concatenate(executor.call(on_rows, "projected", basis, executor.size > 1))
        _, size, turn = svd(rows, full_matrices=False, overwrite_a=True)
        return size[::-1], turn[::-1] @ basis.T
    axes, size, _ = svd(np.column_stack([back(column) for column in basis.T]), full_matrices=False, overwrite_a=True)
    return size[::-1], axes[:, ::-1].T


def hold_rows(worker: Worker, thresholds: Sequence[float], items: IntArray | None, without: IntArray) -> int:
    """Let a worker make the rows of its users over some or all items, one table per threshold; return their number."""
    worker.linear = None
    users = worker.part.kept(without)
    tables = [worker.part.table(users, threshold) for threshold in thresholds]
    worker.linear = LinearRows(tables if items is None else [sp.csr_array(table[:, items]) for table in tables])
    return len(users)


def _added(parts: Sequence[FloatArray]) -> FloatArray:
    return reduce(np.add, parts)
