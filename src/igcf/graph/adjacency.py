"""The normalised adjacency of the bipartite user-item graph (docs/maths.md, section Graph)."""

import warnings

import numpy as np
import scipy.sparse as sp

from igcf.arrays import IntArray
from igcf.errors import DataError

NEARLY_COMPLETE = 0.9  # share of present edges above which propagation gives every user almost the same neighbourhood


class GraphWarning(UserWarning):
    """Warning that the graph is such that propagation adds nothing."""


def normalised_adjacency(
    n_users: int, n_items: int, user_idx: IntArray, item_idx: IntArray, *, self_loops: bool = False
) -> sp.csr_array:
    """Build D^-1/2 A D^-1/2 over users (first) and items: symmetric, float32; repeated edges count once.

    Args:
        n_users: Number of users M.
        n_items: Number of items N.
        user_idx: User row of each edge.
        item_idx: Item row of each edge.
        self_loops: Connect every node with itself first, as SGC does.

    Returns:
        A CSR matrix of size (M + N, M + N); a node without edges has a zero row.
    """
    if len(user_idx) != len(item_idx):
        raise DataError(f"edges need one user and one item each, got {len(user_idx)} users and {len(item_idx)} items")
    n = n_users + n_items
    ones = np.ones(len(user_idx), dtype=np.float32)
    pairs = sp.csr_array((ones, (user_idx, item_idx)), shape=(n_users, n_items))
    pairs.sum_duplicates()
    pairs.data[:] = 1.0
    adjacency = sp.csr_array(sp.block_array([[None, pairs], [pairs.T, None]], format="csr", dtype=np.float32))
    if adjacency.shape != (n, n):  # block_array cannot know the size of an absent block
        adjacency.resize((n, n))
    if self_loops:
        adjacency = sp.csr_array(adjacency + sp.eye_array(n, dtype=np.float32, format="csr"))
    adjacency.sort_indices()
    degree = np.diff(adjacency.indptr)
    scale = (1.0 / np.sqrt(np.maximum(degree, 1))).astype(np.float32)
    adjacency.data = np.repeat(scale, degree)
    adjacency.data *= scale[adjacency.indices]
    return adjacency


def warn_if_degenerate(n_items: int, user_idx: IntArray, item_idx: IntArray) -> None:
    """Warn when the graph of the active users and items is (nearly) complete: its propagation has rank two."""
    users, items = (np.count_nonzero(np.bincount(rows)) if len(rows) else 0 for rows in (user_idx, item_idx))
    if min(users, items) < 2 or len(user_idx) <= NEARLY_COMPLETE * users * items:
        return  # repeated edges can only make it sparser
    density = len(np.unique(user_idx.astype(np.int64) * n_items + item_idx)) / (users * items)
    if density > NEARLY_COMPLETE:
        warnings.warn(
            f"{density:.0%} of all user-item pairs are edges, so every user gets the same neighbourhood and "
            "propagation adds a constant; take edges=satisfied or layers=0",
            GraphWarning,
            stacklevel=2,
        )
