"""Threaded numba loops over CSR rows; only `igcf.graph.sparse_products` imports this module.

Every kernel is a function of its own: numba's cache on disk confuses two compilations of one function.
"""

# mypy: disable-error-code="untyped-decorator"

import numpy as np
import numpy.typing as npt
from numba import njit, prange

Ints = npt.NDArray[np.integer]
Floats = npt.NDArray[np.float32]


@njit(fastmath=True, nogil=True, cache=True)
def _add_row(total: Floats, indices: Ints, data: Floats, dense: Floats, p: int, end: int) -> None:
    """Add six non-zeros at a time: a row of the result is loaded and stored a sixth as often."""
    d = dense.shape[1]
    while p + 6 <= end:
        x0, x1, x2 = dense[indices[p]], dense[indices[p + 1]], dense[indices[p + 2]]
        x3, x4, x5 = dense[indices[p + 3]], dense[indices[p + 4]], dense[indices[p + 5]]
        w0, w1, w2, w3, w4, w5 = data[p], data[p + 1], data[p + 2], data[p + 3], data[p + 4], data[p + 5]
        for k in range(d):
            total[k] += w0 * x0[k] + w1 * x1[k] + w2 * x2[k] + w3 * x3[k] + w4 * x4[k] + w5 * x5[k]
        p += 6
    while p < end:
        w0, x0 = data[p], dense[indices[p]]
        for k in range(d):
            total[k] += w0 * x0[k]
        p += 1


@njit(fastmath=True, nogil=True, cache=True)
def _row_products(x: Floats, indices: Ints, right: Floats, out: Floats, p: int, end: int) -> None:
    d = len(x)
    for q in range(p, end):
        y = right[indices[q]]
        total = np.float32(0.0)
        for k in range(d):
            total += x[k] * y[k]
        out[q] = total


@njit(parallel=True, fastmath=True, nogil=True, cache=True)
def add_product(indptr: Ints, indices: Ints, data: Floats, dense: Floats, out: Floats, bounds: Ints) -> None:
    """Compute `out += matrix @ dense`, chunks of rows in parallel."""
    for chunk in prange(len(bounds) - 1):
        for row in range(bounds[chunk], bounds[chunk + 1]):
            _add_row(out[row], indices, data, dense, indptr[row], indptr[row + 1])


@njit(parallel=True, fastmath=True, nogil=True, cache=True)
def add_tiled_product(
    indptr: Ints, indices: Ints, data: Floats, dense: Floats, out: Floats, bounds: Ints, tile: int
) -> None:
    """Compute `out += matrix @ dense` in passes over `tile` rows of `dense`, which stay in the cache."""
    for chunk in prange(len(bounds) - 1):
        first = bounds[chunk]
        position = indptr[first : bounds[chunk + 1]].copy()
        for limit in range(tile, len(dense) + tile, tile):
            for row in range(first, bounds[chunk + 1]):
                p, end = position[row - first], indptr[row + 1]
                q = p
                while q < end and indices[q] < limit:
                    q += 1
                _add_row(out[row], indices, data, dense, p, q)
                position[row - first] = q


@njit(fastmath=True, nogil=True, cache=True)
def add_small_product(indptr: Ints, indices: Ints, data: Floats, dense: Floats, out: Floats) -> None:
    """Compute `out += matrix @ dense` in one thread, for products so small that waking others costs more."""
    for row in range(len(out)):
        _add_row(out[row], indices, data, dense, indptr[row], indptr[row + 1])


@njit(parallel=True, fastmath=True, nogil=True, cache=True)
def pair_products(indptr: Ints, indices: Ints, left: Floats, right: Floats, out: Floats, bounds: Ints) -> None:
    """Compute `out[p] = left[row] . right[indices[p]]` for the stored pairs p, chunks of rows in parallel."""
    for chunk in prange(len(bounds) - 1):
        for row in range(bounds[chunk], bounds[chunk + 1]):
            _row_products(left[row], indices, right, out, indptr[row], indptr[row + 1])


@njit(fastmath=True, nogil=True, cache=True)
def small_pair_products(indptr: Ints, indices: Ints, left: Floats, right: Floats, out: Floats) -> None:
    """Compute `out[p] = left[row] . right[indices[p]]` for the stored pairs p in one thread."""
    for row in range(len(left)):
        _row_products(left[row], indices, right, out, indptr[row], indptr[row + 1])
