"""Threaded numba kernels over CSR rows; only `igcf.graph.kernels` imports this module."""

import numpy as np
import numpy.typing as npt
from numba import njit, prange

Ints = npt.NDArray[np.integer]
Floats = npt.NDArray[np.float32]


def _add_product(indptr: Ints, indices: Ints, data: Floats, dense: Floats, out: Floats, bounds: Ints) -> None:
    """`out += matrix @ dense`; six non-zeros at a time: a row of `out` is loaded and stored a sixth as often."""
    d = dense.shape[1]
    for chunk in prange(len(bounds) - 1):
        for row in range(bounds[chunk], bounds[chunk + 1]):
            total = out[row]
            p, end = indptr[row], indptr[row + 1]
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


def _add_tiled_product(
    indptr: Ints, indices: Ints, data: Floats, dense: Floats, out: Floats, bounds: Ints, tile: int
) -> None:
    """The same in passes over `tile` rows of `dense` at a time, which then stay in the cache; rows must be sorted."""
    n, d = dense.shape
    for chunk in prange(len(bounds) - 1):
        first = bounds[chunk]
        position = indptr[first : bounds[chunk + 1]].copy()
        for limit in range(tile, n + tile, tile):
            for row in range(first, bounds[chunk + 1]):
                total = out[row]
                p, end = position[row - first], indptr[row + 1]
                while p + 6 <= end and indices[p + 5] < limit:
                    x0, x1, x2 = dense[indices[p]], dense[indices[p + 1]], dense[indices[p + 2]]
                    x3, x4, x5 = dense[indices[p + 3]], dense[indices[p + 4]], dense[indices[p + 5]]
                    w0, w1, w2, w3, w4, w5 = data[p], data[p + 1], data[p + 2], data[p + 3], data[p + 4], data[p + 5]
                    for k in range(d):
                        total[k] += w0 * x0[k] + w1 * x1[k] + w2 * x2[k] + w3 * x3[k] + w4 * x4[k] + w5 * x5[k]
                    p += 6
                while p < end and indices[p] < limit:
                    w0, x0 = data[p], dense[indices[p]]
                    for k in range(d):
                        total[k] += w0 * x0[k]
                    p += 1
                position[row - first] = p


def _pair_products(indptr: Ints, indices: Ints, left: Floats, right: Floats, out: Floats, bounds: Ints) -> None:
    """`out[p] = left[row] . right[indices[p]]` for the stored pairs p of each row."""
    d = left.shape[1]
    for chunk in prange(len(bounds) - 1):
        for row in range(bounds[chunk], bounds[chunk + 1]):
            x = left[row]
            for p in range(indptr[row], indptr[row + 1]):
                y = right[indices[p]]
                total = np.float32(0.0)
                for k in range(d):
                    total += x[k] * y[k]
                out[p] = total


add_product = njit(_add_product, parallel=True, fastmath=True, nogil=True, cache=True)
add_tiled_product = njit(_add_tiled_product, parallel=True, fastmath=True, nogil=True, cache=True)
pair_products = njit(_pair_products, parallel=True, fastmath=True, nogil=True, cache=True)
# one thread for small products, where waking the others costs more than they save
add_small_product = njit(_add_product, fastmath=True, nogil=True, cache=True)
small_pair_products = njit(_pair_products, fastmath=True, nogil=True, cache=True)
