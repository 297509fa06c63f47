"""The logistic expert: what is seen, and what is liked once seen (docs/maths.md, section Experts).

    seen ~ Bernoulli(sigmoid(b_i + x_i . u))     for every pair
    liked ~ Bernoulli(sigmoid(c_i + y_i . u))    where there is a reaction,          u ~ N(0, I)

This is the paper's binary model (eq::model::cls) over all pairs. Its variational posterior is found by coordinate
ascent instead of gradients: with Polya-Gamma weights omega the likelihood is a Gaussian one, so every step is exact.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from igcf.arrays import Float32Array, FloatArray, IntArray
from igcf.graph.kernels import csr_product, sampled_products
from igcf.pretrain.experts.linear import LinearExpert

BLOCK = 256
"""Users whose rows are dense at the same time."""
DENSE_CELLS = 40_000_000
FEWEST_USERS = 2_000
"""A log with more than `DENSE_CELLS` user-item pairs is learned from as many of its users, drawn by lot, as fit."""
FIRST_WEIGHT = np.float32(0.2)
"""omega before anything is known; 1/4 is the largest that it can be."""
BIAS_PENALTY = 1e-3
LARGEST_START = 3.0


@dataclass(frozen=True, eq=False)
class LogisticExpert:
    """Vectors whose last column is the constant; rows are items."""

    seen: FloatArray
    """(items, d + 1)"""
    liked: FloatArray
    """(items, d + 1)"""


class _Fit:
    """One fit: the log, the items' vectors and the users' moments. Rows of items are first "seen", then "liked"."""

    def __init__(self, successes: sp.csr_array, exposures: sp.csr_array, start: LinearExpert, dim: int) -> None:
        self.exposures = exposures
        self.n_items = exposures.shape[1]
        self.reactions = exposures.astype(np.float32).sorted_indices()
        """The pattern of the pairs whose liking is known."""
        self.is_liked = (self.reactions * 0.25 + successes.astype(np.float32)).sorted_indices().data > 1.0
        self.by_item = _transposed(self.reactions)
        self.anchors = _logits(successes, exposures)
        self.vectors = _first_vectors(start, self.n_items, dim, self.anchors)
        """(2 items, d + 1), the last column is the constant"""
        self.moments: Float32Array | None = None
        """(users, (d + 1)(d + 2) / 2): upper triangles of E[u u'], u with a constant 1 as its last entry"""
        self.upper = np.triu_indices(dim + 1)
        self.twice = np.where(self.upper[0] == self.upper[1], 1.0, 2.0)

    def user_step(self) -> tuple[FloatArray, FloatArray]:
        """Posterior of every user: precision I + sum omega x x', information sum (y - 1/2 - omega b) x."""
        d = self.vectors.shape[1] - 1
        products = self._products()
        seen, liked = products[: self.n_items], products[self.n_items :]
        directions = self.vectors[:, :d].astype(np.float32)
        pattern = self.reactions.indptr, self.reactions.indices
        upper = csr_product(*pattern, self._liked_weights(), liked).astype(np.float64)
        information = csr_product(*pattern, self._liked_residuals(), directions[self.n_items :]).astype(np.float64)
        for block, targets in self._seen_blocks():
            upper[block] += self._seen_weights(block, seen) @ seen
            information[block] += (targets - np.float32(0.5)) @ directions[: self.n_items]
        gram = self._symmetric(upper)
        covs: FloatArray = np.linalg.inv(gram[:, :d, :d] + np.eye(d)).astype(np.float64)
        return np.einsum("uij,uj->ui", covs, information - gram[:, :d, d]), covs

    def whiten(self, means: FloatArray, covs: FloatArray) -> FloatArray:
        """Make the population of users N(0, I) again by moving its mean and covariance into the items' vectors."""
        d = means.shape[1]
        centre = means.mean(axis=0)
        deviations = means - centre
        root = np.linalg.cholesky(deviations.T @ deviations / len(means) + covs.mean(axis=0))
        inverse = np.linalg.inv(root)
        self.vectors[:, d] += self.vectors[:, :d] @ centre
        self.vectors[:, :d] = self.vectors[:, :d] @ root
        users = np.column_stack([deviations @ inverse.T, np.ones(len(means))])
        moments = users[:, :, None] * users[:, None, :]
        moments[:, :d, :d] += inverse @ covs @ inverse.T
        self.moments = moments[:, self.upper[0], self.upper[1]].astype(np.float32)
        return users

    def item_step(self, users: FloatArray, penalty: float) -> None:
        """Ridge regression of every item on the users' moments; constants are drawn to the logit of its share."""
        assert self.moments is not None  # noqa: S101
        products = self._products()
        width = self.vectors.shape[1]
        indptr, indices, order = self.by_item
        rows = users.astype(np.float32)
        upper = np.zeros((2 * self.n_items, len(self.twice)), dtype=np.float32)
        information = np.zeros((2 * self.n_items, width))
        upper[self.n_items :] = csr_product(indptr, indices, self._liked_weights()[order], self.moments)
        information[self.n_items :] = csr_product(indptr, indices, self._liked_residuals()[order], rows)
        for block, targets in self._seen_blocks():
            upper[: self.n_items] += self._seen_weights(block, products[: self.n_items]).T @ self.moments[block]
            information[: self.n_items] += (targets - np.float32(0.5)).T @ rows[block]
        penalties = np.full(width, penalty)
        penalties[-1] = BIAS_PENALTY
        information[:, -1] += BIAS_PENALTY * self.anchors
        precision = self._symmetric(upper) + np.diag(penalties)
        self.vectors = np.linalg.solve(precision, information[:, :, None])[:, :, 0].astype(np.float64)

    def _products(self) -> Float32Array:
        """Upper triangles of x x' of all items."""
        first, second = self.upper
        return np.asarray(self.vectors[:, first] * self.vectors[:, second], dtype=np.float32)

    def _symmetric(self, upper: npt.NDArray[np.floating]) -> FloatArray:
        width = self.vectors.shape[1]
        full = np.empty((len(upper), width, width))
        full[:, self.upper[0], self.upper[1]] = upper
        full[:, self.upper[1], self.upper[0]] = upper
        return full

    def _seen_blocks(self) -> Iterator[tuple[slice, Float32Array]]:
        """Exposures of a block of users as zeros and ones."""
        for start in range(0, self.exposures.shape[0], BLOCK):
            block = slice(start, min(start + BLOCK, self.exposures.shape[0]))
            yield block, self.exposures[block].toarray().astype(np.float32)

    def _seen_weights(self, block: slice, products: Float32Array) -> Float32Array:
        if self.moments is None:
            return np.full((block.stop - block.start, self.n_items), FIRST_WEIGHT, dtype=np.float32)
        return polya_gamma_means(self.moments[block] @ (products * self.twice.astype(np.float32)).T)

    def _liked_weights(self) -> Float32Array:
        """One per reaction, in the order of `reactions`."""
        if self.moments is None:
            return np.full(self.reactions.nnz, FIRST_WEIGHT, dtype=np.float32)
        liked = self._products()[self.n_items :] * self.twice.astype(np.float32)
        return polya_gamma_means(sampled_products(self.reactions.indptr, self.reactions.indices, self.moments, liked))

    def _liked_residuals(self) -> Float32Array:
        return np.asarray(self.is_liked.astype(np.float32) - np.float32(0.5))


def fit_logistic(
    successes: sp.csr_array,
    exposures: sp.csr_array,
    start: LinearExpert,
    *,
    dim: int = 32,
    iterations: int = 15,
    penalty: float = 5.0,
    seed: int = 0,
    progress: Callable[[int, int], None] | None = None,
) -> LogisticExpert:
    """Variational EM; `penalty` is the precision of the items' Gaussian prior, `start` gives the first directions."""
    users = _sampled_users(*exposures.shape, seed=seed)
    fit = _Fit(sp.csr_array(successes[users]), sp.csr_array(exposures[users]), start, dim)
    for iteration in range(iterations):
        means, covs = fit.user_step()
        fit.item_step(fit.whiten(means, covs), penalty)
        if progress is not None:
            progress(iteration + 1, iterations)
    return LogisticExpert(fit.vectors[: fit.n_items], fit.vectors[fit.n_items :])


def polya_gamma_means(xi_squared: Float32Array) -> Float32Array:
    """E[omega] = tanh(xi / 2) / (2 xi), in the memory of its argument."""
    xi = np.sqrt(np.maximum(xi_squared, 1e-6, out=xi_squared), out=xi_squared)
    omega = np.tanh(xi * np.float32(0.5))
    omega /= xi
    omega *= np.float32(0.5)
    return np.asarray(omega)


def _transposed(pattern: sp.csr_array) -> tuple[IntArray, IntArray, IntArray]:
    """The pattern item by item: its index arrays, and where each entry stands in the pattern user by user."""
    numbered = sp.csr_array((np.arange(pattern.nnz), pattern.indices, pattern.indptr), shape=pattern.shape)
    by_item = sp.csr_array(numbered.T)
    return by_item.indptr, by_item.indices, by_item.data


def _logits(successes: sp.csr_array, exposures: sp.csr_array) -> FloatArray:
    """The logit of each item's share of exposures among users, and of likings among its exposures."""
    n_seen, n_liked = (np.asarray(table.sum(axis=0)).ravel() for table in (exposures, successes))
    share = n_liked.sum() / max(n_seen.sum(), 1.0)
    seen = (n_seen + 0.5) / (exposures.shape[0] + 1.0)
    liked = (n_liked + 2.0 * share + 1e-3) / (n_seen + 2.0 + 2e-3)
    p = np.clip(np.concatenate([seen, liked]), 1e-6, 1.0 - 1e-6)
    return np.asarray(np.log(p / (1.0 - p)))


def _first_vectors(start: LinearExpert, n_items: int, dim: int, anchors: FloatArray) -> FloatArray:
    """The linear expert's loadings as slopes of the logit, exposures first, capped so that nothing saturates."""
    loadings = np.zeros((2 * n_items, dim))
    known = min(dim, start.loadings.shape[1])
    loadings[:, :known] = np.roll(start.loadings, n_items, axis=0)[:, :known]
    share = np.roll(start.means, n_items)
    slopes = loadings / (share * (1.0 - share) + 0.01)[:, None]
    slopes *= min(1.0, LARGEST_START / max(float(np.abs(slopes).max()), 1e-12))
    return np.column_stack([slopes, anchors])


def _sampled_users(n_users: int, n_items: int, *, seed: int) -> IntArray:
    most = max(FEWEST_USERS, DENSE_CELLS // max(n_items, 1))
    if n_users <= most:
        return np.arange(n_users)
    return np.sort(np.random.default_rng(seed).choice(n_users, most, replace=False))
