"""Closed-form graph filter for known users (docs/maths.md, section Graph filter).

A record of successes is a signal on the items; the filter is a polynomial of the normalised adjacency, the paper's
G = sum_k alpha_k A^k with coefficients that may be negative, plus an ideal low-pass. Nothing is trained, and no matrix
of items by items is ever made.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.sparse as sp

from igcf.arrays import Float32Array, FloatArray
from igcf.errors import ConfigError
from igcf.graph.sparse_products import sparse_product

OVERSAMPLING = 20  # directions beyond the rank that the subspace iteration carries along
ITERATIONS = 2  # passes of the subspace iteration over the graph
LEAST_SIZE = 1e-3
"""Directions are dropped that are smaller than this share of the largest: single precision says nothing of them."""


@dataclass(frozen=True, kw_only=True)
class FilterSettings:
    """Coefficients of a graph filter; chosen on validation users."""

    user_exponent: float = 0.5  # exponent p of the normalisation R~ = D_u^-p R D_i^-q; 1/2 is the paper's symmetric one
    item_exponent: float = 0.5  # exponent q of the normalisation by the items' degrees
    rank: int = 256
    """Number of singular vectors that the ideal low-pass keeps; at most a quarter of the items, or it passes all."""
    low_pass: float = 0.2  # weight b of the ideal low-pass beside the two-hop neighbourhood
    sharpening: float = 0.8  # weight c of what four hops predict, subtracted from what two hops predict
    popularity: float = 0.1  # exponent g of the items' degrees in the final score

    def __post_init__(self) -> None:
        """Refuse values outside their range."""
        for name in ("user_exponent", "item_exponent", "low_pass", "sharpening", "popularity"):
            value = getattr(self, name)
            if not 0.0 <= value < np.inf:
                raise ConfigError(f"{name} of a graph filter must be zero or more, got {value}")
        if self.rank < 1:
            raise ConfigError(f"rank of a graph filter must be at least 1, got {self.rank}")


@dataclass(frozen=True, eq=False)
class GraphFilter:
    """Scores of all items for users with known successes.

    With P = R~'R~ / s^2, s the largest singular value of R~ and V its leading right singular vectors, a record x (zeros
    and ones over the items) scores

        f(x) = [x P + b x D_i^-q V V' D_i^q] (I - c P) D_i^g.
    """

    edges: sp.csr_array  # R~ / s, shape (users, items)
    vectors: Float32Array  # V, shape (items, rank), column after column in memory: an answer multiplies by all of it
    degrees: Float32Array  # number of users who liked each item, at least 1, shape (items,)
    settings: FilterSettings

    def scores(self, records: sp.csr_array) -> Float32Array:
        """Score all items for some records of zeros and ones, (n, items); returns shape (n, items)."""
        chosen = self.settings
        records = sp.csr_array(records, dtype=np.float32)
        items = np.unique(records.indices)
        low = records[:, items] @ (self.vectors[items] / self._scale[items, None])  # (n, rank)
        signal = (low @ self.vectors.T) * (chosen.low_pass * self._scale)  # (n, items)
        signal += ((records @ self._transposed) @ self.edges).toarray()  # x P: two hops
        if chosen.sharpening:
            signal -= np.float32(chosen.sharpening) * (self._transposed @ (self.edges @ signal.T)).T
        return np.asarray(signal * self._popular)

    @cached_property
    def _transposed(self) -> sp.csr_array:
        return sp.csr_array(self.edges.T)

    @cached_property
    def _scale(self) -> Float32Array:
        return np.asarray(self.degrees**self.settings.item_exponent, dtype=np.float32)

    @cached_property
    def _popular(self) -> Float32Array:
        return np.asarray(self.degrees**self.settings.popularity, dtype=np.float32)


def fit_graph_filter(
    edges: sp.csr_array, settings: FilterSettings | None = None, *, rng: np.random.Generator
) -> GraphFilter:
    """Normalise the graph of some edges, (users, items) with their weights, and find its leading singular vectors.

    `rng` draws the start of the subspace iteration.
    """
    chosen = FilterSettings() if settings is None else settings
    edges = sp.csr_array(edges, dtype=np.float32)
    n_items = edges.shape[1]
    of_user = np.maximum(edges.sum(axis=1), 1.0).astype(np.float32)
    of_item = np.maximum(edges.sum(axis=0), 1.0).astype(np.float32)
    edges = sp.csr_array(
        sp.diags_array(of_user**-chosen.user_exponent) @ edges @ sp.diags_array(of_item**-chosen.item_exponent)
    )
    largest, vectors = leading_vectors(edges, min(chosen.rank, max(n_items // 4, 1)), rng=rng)
    return GraphFilter(edges / np.float32(largest), vectors, of_item, chosen)


def leading_vectors(matrix: sp.csr_array, rank: int, *, rng: np.random.Generator) -> tuple[float, Float32Array]:
    """Return the largest singular value and the leading right singular vectors, (columns, rank), by subspace iteration.

    The rank is cut to what the matrix can have.
    """
    width = min(rank + OVERSAMPLING, *matrix.shape)
    transposed = sp.csr_array(matrix.T)
    axes = rng.standard_normal((matrix.shape[1], width), dtype=np.float32)
    for _ in range(ITERATIONS + 1):
        basis, _ = _principal_axes(sparse_product(matrix, axes))
        axes, sizes = _principal_axes(sparse_product(transposed, basis))
    largest = max(float(sizes[0]), float(np.finfo(np.float32).tiny))
    return largest, np.asfortranarray(axes[:, :rank])


def _principal_axes(columns: Float32Array) -> tuple[Float32Array, FloatArray]:
    """Return an orthonormal basis of the space of some columns and their sizes along it, the largest first.

    By the eigenvectors of their products with each other, which takes a fraction of the time of a QR decomposition.
    """
    squares, turn = np.linalg.eigh((columns.T @ columns).astype(np.float64))
    sizes = np.sqrt(np.maximum(squares[::-1], 0.0))
    used = max(int((sizes > LEAST_SIZE * sizes[0]).sum()), 1)
    sizes = np.maximum(sizes[:used], np.finfo(np.float32).tiny)
    return columns @ (turn[:, ::-1][:, :used] / sizes).astype(np.float32), sizes
