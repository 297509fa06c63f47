"""Threaded numba kernels over CSR rows; only `igcf.graph.kernels` imports this module."""

import numpy as np
import numpy.typing as npt
from numba import njit, prange

Ints = npt.NDArray[np.integer]
Floats = npt.NDArray[np.float32]


def _add_product(indptr: Ints, indices: Ints, data: Floats, dense: Floats, out: Floats, bounds: Ints) -> None:
    """`out += matrix @ dense`; four non-zeros at a time: a row of `out` is loaded and stored a quarter as often."""
    d = dense.shape[1]
    for chunk in prange(len(bounds) - 1):
        for row in range(bounds[chunk], bounds[chunk + 1]):
            total = out[row]
            p, end = indptr[row], indptr[row + 1]
            while p + 4 <= end:
                x0, x1, x2, x3 = dense[indices[p]], dense[indices[p + 1]], dense[indices[p + 2]], dense[indices[p + 3]]
                w0, w1, w2, w3 = data[p], data[p + 1], data[p + 2], data[p + 3]
                for k in range(d):
                    total[k] += w0 * x0[k] + w1 * x1[k] + w2 * x2[k] + w3 * x3[k]
                p += 4
            while p < end:
                w0, x0 = data[p], dense[indices[p]]
                for k in range(d):
                    total[k] += w0 * x0[k]
                p += 1


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
pair_products = njit(_pair_products, parallel=True, fastmath=True, nogil=True, cache=True)
# one thread for small products, where waking the others costs more than they save
add_small_product = njit(_add_product, fastmath=True, nogil=True, cache=True)
small_pair_products = njit(_pair_products, fastmath=True, nogil=True, cache=True)
