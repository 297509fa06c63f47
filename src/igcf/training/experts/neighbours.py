"""Sparse ridge map between items: which few items predict a success on another (docs/maths.md, Logged evidence)."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from igcf.arrays import BoolArray, Float32Array, FloatArray, IntArray
from igcf.model import Neighbours
from igcf.training.experts.executor import Executor, Worker, in_threads

MOST_NEIGHBOURS = 50
"""Items that predict another one, at most."""
SHRINKAGE = 5.0
"""Users in common at which a correlation counts half."""
MOST_DENSE_ITEMS = 6_000
"""Up to this many items, the numbers of users in common of all pairs of items are kept in memory."""
BLOCK = 128
"""Number of regressions solved together."""


def fit_neighbours(
    successes: sp.csr_array,
    penalties: Sequence[float],
    *,
    mix: float,
    dense: bool | None = None,
    executor: Executor | None = None,
) -> list[Neighbours]:
    """Fit one map per penalty: every item's success regressed on those of its most correlated items.

    With G = Y'Y - users means means', the centred products of the successes Y, and S the neighbours of item j, the
    weights are (G[S, S] + penalty I)^-1 G[S, j].

    Args:
        successes: Zeros and ones, shape (users, items).
        penalties: Ridge penalties, in users.
        mix: Weight of the maps beside the belief.
        dense: Whether all pairs of items are kept in memory; None: where the catalogue is small enough.
        executor: Workers that share the items; None: this process.
    """
    executor = executor or Executor()
    n_items = successes.shape[1]
    k = min(MOST_NEIGHBOURS, n_items)
    is_dense = n_items <= MOST_DENSE_ITEMS if dense is None else dense
    executor.call(hold_successes, successes.indptr, successes.indices, n_items, is_dense)
    blocks = [slice(start, min(start + BLOCK, n_items)) for start in range(0, n_items, BLOCK)]
    shares = [blocks[number :: executor.size] for number in range(executor.size)]
    sources = np.zeros((n_items, k), dtype=np.int32)
    weights = np.zeros((len(penalties), n_items, k), dtype=np.float32)
    found = executor.call(fit_blocks, k, tuple(penalties), each=[(share,) for share in shares])
    for share, fitted in zip(shares, found, strict=True):
        for rows, (own_sources, own_weights) in zip(share, fitted, strict=True):
            sources[rows], weights[:, rows] = own_sources, own_weights
    counts = np.bincount(successes.indices, minlength=n_items).astype(np.float64)
    means = (counts / max(successes.shape[0], 1)).astype(np.float32)
    pairs = zip(penalties, weights, strict=True)
    return [Neighbours(sources, own, means, mix, float(penalty)) for penalty, own in pairs]


def hold_successes(worker: Worker, indptr: IntArray, items: IntArray, n_items: int, is_dense: bool) -> None:
    """Let a worker hold the successes of everybody."""
    worker.linear = worker.counts = None
    shape = (len(indptr) - 1, n_items)
    table = sp.csr_array((np.ones(len(items), dtype=np.float32), items, indptr), shape=shape)
    worker.counts = Counts.of(table, is_dense)


def fit_blocks(
    worker: Worker, k: int, penalties: Sequence[float], blocks: Sequence[slice]
) -> list[tuple[IntArray, Float32Array]]:
    """Fit the regressions of some blocks of items, and free the successes."""
    counts = worker.counts
    assert counts is not None, "call hold_successes before"  # noqa: S101
    worker.counts = None
    return in_threads(lambda rows: _fit_block(counts, np.arange(rows.start, rows.stop), k, penalties), blocks)


class Counts(NamedTuple):
    """Who likes what, in the forms in which products between items are computed."""

    by_user: sp.csr_array
    by_item: sp.csr_array
    """The users of each item, shape (items, users)."""
    means: FloatArray
    scales: FloatArray
    """Roots of the items' centred squares, shape (items,)."""
    common: Float32Array | None
    """Users in common of every pair of items, shape (items, items); None: too many items."""

    @classmethod
    def of(cls, successes: sp.csr_array, is_dense: bool) -> "Counts":
        """Count successes, of all pairs of items where `is_dense`."""
        by_user = sp.csr_array(successes).astype(np.float32)
        by_item = sp.csr_array(by_user.T)
        counts = np.diff(by_item.indptr).astype(np.float64)
        means = counts / max(by_user.shape[0], 1)
        scales = np.sqrt(np.maximum(counts * (1.0 - means), 1e-9))
        return cls(by_user, by_item, means, scales, (by_item @ by_user).toarray() if is_dense else None)

    @property
    def n_users(self) -> int:
        """Number of users."""
        return int(self.by_user.shape[0])


def _fit_block(counts: Counts, items: IntArray, k: int, penalties: Sequence[float]) -> tuple[IntArray, Float32Array]:
    """Sources (items, k) and, for each penalty, weights (penalties, items, k) of some items."""
    sources, common = _most_correlated(counts, items, k)
    is_used = common > 0.0
    means = np.where(is_used, counts.means[sources], 0.0)
    targets = common - counts.n_users * means * counts.means[items, None]
    pairs = _common_of_neighbours(counts, sources, is_used)
    products = pairs - counts.n_users * means[:, :, None] * means[:, None, :]
    weights = np.empty((len(penalties), *sources.shape), dtype=np.float32)
    for number, penalty in enumerate(penalties):
        weights[number] = np.linalg.solve(products + penalty * np.eye(k), targets[:, :, None])[:, :, 0]
    return sources, weights


def _most_correlated(counts: Counts, items: IntArray, k: int) -> tuple[IntArray, FloatArray]:
    """The neighbours of some items, shape (items, k), and the users in common; 0 where there are fewer neighbours."""
    common = sp.csr_array(counts.by_item[items] @ counts.by_user)
    common.sort_indices()
    places = np.repeat(np.arange(len(items)), np.diff(common.indptr))
    others, users = common.indices, common.data.astype(np.float64)
    own = items[places]
    similarity = users - counts.n_users * counts.means[own] * counts.means[others]
    similarity *= users / ((users + SHRINKAGE) * counts.scales[own] * counts.scales[others])
    kept = np.flatnonzero((own != others) & (similarity > 0.0))
    kept = kept[np.argsort(2.0 * places[kept] - similarity[kept], kind="stable")]  # a correlation is at most one
    found = np.bincount(places[kept], minlength=len(items))
    rank = np.arange(len(kept)) - np.repeat(np.cumsum(found) - found, found)
    kept, rank = kept[rank < k], rank[rank < k]
    sources: IntArray = np.zeros((len(items), k), dtype=np.int32)
    in_common = np.zeros((len(items), k))
    sources[places[kept], rank], in_common[places[kept], rank] = others[kept], users[kept]
    return sources, in_common


def _common_of_neighbours(counts: Counts, sources: IntArray, is_used: BoolArray) -> FloatArray:
    """Users in common of all pairs of an item's neighbours, shape (items, k, k); zero for places that are not used."""
    if counts.common is not None:
        pairs = counts.common[sources[:, :, None], sources[:, None, :]].astype(np.float64)
        return np.asarray(pairs * (is_used[:, :, None] & is_used[:, None, :]))
    result = np.zeros((*sources.shape, sources.shape[1]))
    starts, users = counts.by_item.indptr, counts.by_item.indices
    for place, (own, used) in enumerate(zip(sources, is_used, strict=True)):
        n = int(used.sum())
        if n == 0:
            continue
        who = np.concatenate([users[starts[item] : starts[item + 1]] for item in own[:n].tolist()])
        column = np.repeat(np.arange(n), starts[own[:n] + 1] - starts[own[:n]])
        found, line = np.unique(who, return_inverse=True)
        table = np.zeros((len(found), n), dtype=np.float32)
        table[line, column] = 1.0
        result[place, :n, :n] = table.T @ table
    return result
