"""Closed-form graph filter for known users (docs/maths.md, section Graph filter).

A record of successes is a signal on the items; the filter is a polynomial of the normalised adjacency, the paper's
G = sum_k alpha_k A^k with coefficients that may be negative, plus an ideal low-pass. Nothing is trained, and no matrix
of items by items is ever made.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.sparse as sp

from igcf.arrays import Float32Array
from igcf.errors import ConfigError

OVERSAMPLING = 20
"""Directions beyond the rank that the subspace iteration carries along."""
ITERATIONS = 4
"""Passes of the subspace iteration over the graph."""


@dataclass(frozen=True, kw_only=True)
class FilterSettings:
    """Coefficients of a graph filter; chosen on validation users."""

    user_exponent: float = 0.5
    """Exponent p of the normalisation R~ = D_u^-p R D_i^-q; 1/2 is the paper's symmetric one."""
    item_exponent: float = 0.5
    """Exponent q of the normalisation by the items' degrees."""
    rank: int = 256
    """Number of singular vectors that the ideal low-pass keeps; at most a quarter of the items, or it passes all."""
    low_pass: float = 0.2
    """Weight b of the ideal low-pass beside the two-hop neighbourhood."""
    sharpening: float = 0.8
    """Weight c of what four hops predict, subtracted from what two hops predict."""
    popularity: float = 0.1
    """Exponent g of the items' degrees in the final score."""

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
    """Scores of all items for users whose successes are known.

    With P = R~'R~ / s^2, s the largest singular value of R~ and V its leading right singular vectors, a record x (zeros
    and ones over the items) scores

        f(x) = [x P + b x D_i^-q V V' D_i^q] (I - c P) D_i^g.
    """

    edges: sp.csr_array
    """R~ / s, shape (users, items)."""
    vectors: Float32Array
    """V, shape (items, rank)."""
    degrees: Float32Array
    """Number of users who liked each item, at least 1, shape (items,)."""
    settings: FilterSettings

    def scores(self, records: sp.csr_array) -> Float32Array:
        """Score all items for some records of zeros and ones, (n, items); returns shape (n, items)."""
        chosen = self.settings
        scale = self.degrees**chosen.item_exponent
        smooth = (records @ (self.vectors / scale[:, None])) @ self.vectors.T  # (n, items)
        found = (records @ self._transposed) @ self.edges  # x P, sparse: two hops
        signal = np.asarray(found.toarray() + chosen.low_pass * smooth * scale, dtype=np.float32)
        if chosen.sharpening:
            signal -= chosen.sharpening * ((signal @ self._transposed) @ self.edges)
        return np.asarray(signal * self.degrees**chosen.popularity, dtype=np.float32)

    @cached_property
    def _transposed(self) -> sp.csr_array:
        return sp.csr_array(self.edges.T)


def fit_graph_filter(
    successes: sp.csr_array, settings: FilterSettings | None = None, *, rng: np.random.Generator
) -> GraphFilter:
    """Normalise the graph of the stored entries of `successes`, (users, items), and find its leading singular vectors.

    Every stored entry is an edge, whatever its value. `rng` draws the start of the subspace iteration.
    """
    chosen = FilterSettings() if settings is None else settings
    edges = sp.csr_array(successes, dtype=np.float32)
    edges.data = np.ones_like(edges.data)
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
    basis = np.asarray(matrix @ rng.standard_normal((matrix.shape[1], width), dtype=np.float32))
    for _ in range(ITERATIONS):
        basis = np.linalg.qr(matrix @ np.linalg.qr(matrix.T @ np.linalg.qr(basis)[0])[0])[0]
    _, sizes, axes = np.linalg.svd((matrix.T @ basis).T, full_matrices=False)
    largest = max(float(sizes[0]), float(np.finfo(np.float32).tiny))
    return largest, np.asarray(axes[:rank].T, dtype=np.float32)
