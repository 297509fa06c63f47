"""The two sparse operations of pretraining: sparse times dense, and dot products at given pairs.

Both use threaded numba loops and fall back to SciPy and NumPy where numba is not installed. The result does not
depend on the number of threads.
"""

from functools import cache
from threading import Lock
from types import ModuleType

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from igcf.arrays import Float32Array, IntArray
from igcf.errors import DataError

N_CHUNKS = 64  # number of chunks of rows with equal work; fixed, so that sums do not depend on the thread count
SMALL = 1 << 20  # number of multiplications below which one thread is faster than several
LARGE_BYTES = 1 << 24  # size above which the vectors no longer fit in the cache and are visited tile by tile
TILE_BYTES = 1 << 21  # size of a tile
MOST_VISITS = 1.0  # visits of a row per entry above which tiles do not pay: every row is visited once per tile
ONE_LAUNCH = Lock()  # lock for numba's own threads, which serve one caller at a time
PAIR_BLOCK = 1 << 16  # number of pairs per block of the NumPy fall-back, which bounds its memory


@cache
def compiled() -> ModuleType | None:
    """Import the numba loops on first use, because numba takes a second to load; None where they cannot be had."""
    try:
        import numba

        # OpenMP's threads spin while they wait: with other work on the machine that was several times slower
        if getattr(numba.config, "THREADING_LAYER", "") == "default":
            numba.config.THREADING_LAYER = "workqueue"  # type: ignore[attr-defined]
        from igcf.graph import loops
    except (ImportError, RuntimeError):  # no numba, or no folder where it may keep what it compiled
        return None
    return loops


def sparse_product(
    matrix: sp.csr_array,
    dense: npt.NDArray[np.float32],
    *,
    plus: npt.NDArray[np.float32] | None = None,
    scale: float = 1.0,
) -> Float32Array:
    """Compute `matrix @ dense + scale * plus` in float32, without a temporary for the second term."""
    if dense.ndim != 2 or dense.shape[0] != matrix.shape[1]:
        raise DataError(
            f"the graph has {matrix.shape[1]} nodes, the vectors have shape {dense.shape}; expected one row per node"
        )
    return csr_product(matrix.indptr, matrix.indices, matrix.data, dense, plus=plus, scale=scale)


def csr_product(
    indptr: IntArray,
    indices: IntArray,
    data: npt.NDArray[np.float32],
    dense: npt.NDArray[np.float32],
    *,
    plus: npt.NDArray[np.float32] | None = None,
    scale: float = 1.0,
) -> Float32Array:
    """Compute `matrix @ dense + scale * plus` for the three arrays of a CSR matrix, in float32."""
    loops = compiled()
    dense = np.ascontiguousarray(dense, dtype=np.float32)
    out = np.zeros((len(indptr) - 1, dense.shape[1]), dtype=np.float32)
    if plus is not None:
        np.multiply(plus, np.float32(scale), out=out)
    if loops is None:
        out += sp.csr_array((data, indices, indptr), shape=(len(out), len(dense))) @ dense
        return out
    arguments = (*_typed(indptr, indices), np.ascontiguousarray(data, dtype=np.float32), dense, out)
    if len(indices) * dense.shape[1] < SMALL:
        loops.add_small_product(*arguments)
        return out
    tile = max(TILE_BYTES // (4 * dense.shape[1]), 1)
    visits = len(out) * (len(dense) // tile + 1)
    with ONE_LAUNCH:
        if dense.nbytes <= LARGE_BYTES or visits > MOST_VISITS * len(indices):
            loops.add_product(*arguments, chunks(indptr))
        else:
            loops.add_tiled_product(*arguments, chunks(indptr), tile)
    return out


def sampled_products(
    indptr: IntArray, indices: IntArray, left: npt.NDArray[np.float32], right: npt.NDArray[np.float32]
) -> Float32Array:
    """Compute `left[row] . right[column]` for every stored pair of a CSR pattern, in its order."""
    loops = compiled()
    out = np.empty(len(indices), dtype=np.float32)
    if loops is None:
        rows = np.repeat(np.arange(len(indptr) - 1), np.diff(indptr))
        for start in range(0, len(out), PAIR_BLOCK):
            block = slice(start, start + PAIR_BLOCK)
            np.einsum("pd,pd->p", left[rows[block]], right[indices[block]], out=out[block])
        return out
    left, right = (np.ascontiguousarray(side, dtype=np.float32) for side in (left, right))
    if len(indices) * left.shape[1] < SMALL:
        loops.small_pair_products(*_typed(indptr, indices), left, right, out)
        return out
    with ONE_LAUNCH:
        loops.pair_products(*_typed(indptr, indices), left, right, out, chunks(indptr))
    return out


def chunks(indptr: IntArray) -> npt.NDArray[np.int64]:
    """Return row bounds of chunks with about equal work: non-zeros, and a little for every row."""
    work = indptr.astype(np.int64) + 4 * np.arange(len(indptr))
    bounds = np.searchsorted(work, np.linspace(0, work[-1], N_CHUNKS + 1))
    bounds[-1] = len(indptr) - 1
    return bounds.astype(np.int64)


def _typed(indptr: IntArray, indices: IntArray) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.uint32]]:
    """Return the index arrays in one pair of types, whatever SciPy chose, so that a kernel is compiled once."""
    return indptr.astype(np.int64, copy=False), indices.astype(np.int32, copy=False).view(np.uint32)
