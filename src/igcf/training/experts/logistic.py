"""The logistic expert: what is seen, and what is liked once seen (docs/maths.md, section Experts).

    seen ~ Bernoulli(sigmoid(b_i + x_i . u))     for every pair
    liked ~ Bernoulli(sigmoid(c_i + y_i . u))    where there is a reaction,          u ~ N(0, I)

and, like "liked", any further grading of the reactions. This is the paper's binary model (eq::model::cls) over all
pairs. Its variational posterior is found by coordinate ascent instead of gradients: with Polya-Gamma weights omega the
likelihood is a Gaussian one, so every step is exact.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from igcf.arrays import Float32Array, FloatArray, IntArray
from igcf.config import ExpertsConfig
from igcf.graph.sparse_products import csr_product, sampled_products
from igcf.training.experts.blocks import in_blocks
from igcf.training.experts.linear import LinearExpert

DENSE_CELLS = 40_000_000
FEWEST_USERS = 2_000
"""A log with more than `DENSE_CELLS` user-item pairs is learned from as many users as fit, drawn at random."""
BIAS_PENALTY = 1e-3
"""Precision of the prior on the constant of being seen, whose mean is the logit of the item's share."""
GRADE_PENALTY = 1.0
"""Precision of the prior on the constants of gradings: two or three reactions must not decide about an item."""
LARGEST_START = 3.0
"""Largest slope of a logit at the start of the iteration."""


@dataclass(frozen=True, eq=False)
class LogisticExpert:
    """Logistic factor model of being seen and of being liked; the last column of a vector is the constant."""

    vectors: FloatArray
    """Item vectors of being seen, of being liked and of further gradings, shape (1 + gradings, items, d + 1)."""

    @property
    def seen(self) -> FloatArray:
        """Item vectors of being seen, shape (items, d + 1)."""
        return np.asarray(self.vectors[0])

    @property
    def liked(self) -> FloatArray:
        """Item vectors of being liked once seen, shape (items, d + 1)."""
        return np.asarray(self.vectors[1])


class _Fit:
    """State of one fit: the log, the items' vectors and the users' posteriors."""

    def __init__(
        self,
        exposures: sp.csr_array,
        gradings: Sequence[sp.csr_array],
        start: "LinearExpert | LogisticExpert",
        dim: int,
    ) -> None:
        self.n_items = exposures.shape[1]
        self.reactions = exposures.astype(np.float32).sorted_indices()
        """Pairs with a reaction, whose grading is known."""
        self.by_item = _transposed(self.reactions)
        self.residuals = [np.full(self.reactions.nnz, 0.5, dtype=np.float32)]
        """y - 1/2 of every reaction, one array per grading; in the first, "seen", every other pair has -1/2."""
        for table in gradings:
            marked = (self.reactions * 0.25 + table.astype(np.float32)).sorted_indices()
            self.residuals.append(np.where(marked.data > 1.0, np.float32(0.5), np.float32(-0.5)))
        self.anchors = _logits(exposures, gradings)
        self.vectors = (
            _first_vectors(start, dim, self.anchors) if isinstance(start, LinearExpert) else start.vectors.copy()
        )
        """Item vectors, shape (1 + gradings, items, d + 1); the last column is the constant."""
        n_users, width = exposures.shape[0], self.vectors.shape[2]
        self.means = np.tile(np.eye(1, width, width - 1, dtype=np.float32), (n_users, 1))
        """Posterior means of the users, shape (users, d + 1), last entry 1; all start as the population."""
        self.variances = np.ones((n_users, width - 1), dtype=np.float32)
        """Posterior variances, (users, d): omega uses diagonals only, because `whiten` makes the rest small."""
        self.moments: Float32Array | None = None
        """Upper triangles of E[u u'], shape (users, (d + 1)(d + 2) / 2)."""
        self.upper = np.triu_indices(width)

    def user_step(self) -> tuple[FloatArray, FloatArray]:
        """Compute users' posteriors: precision I + sum omega x x', information sum (y - 1/2 - omega b) x."""
        d = self.vectors.shape[2] - 1
        vectors = self.vectors.astype(np.float32)
        products = vectors[:, :, self.upper[0]] * vectors[:, :, self.upper[1]]
        indptr, indices = self.reactions.indptr, self.reactions.indices
        upper = np.empty((self.reactions.shape[0], products.shape[2]), dtype=np.float32)

        def weigh(block: slice) -> None:
            upper[block] = self._seen_weights(block, slice(None)) @ products[0]

        in_blocks(weigh, len(upper))
        # every pair has y - 1/2 = -1/2, those that were seen 1 more
        information = np.tile(-0.5 * self.vectors[0, :, :d].sum(axis=0), (len(upper), 1))
        information += csr_product(indptr, indices, self.residuals[0] * 2, vectors[0, :, :d])
        for number in range(1, len(vectors)):
            upper += csr_product(indptr, indices, self._graded_weights(number), products[number])
            information += csr_product(indptr, indices, self.residuals[number], vectors[number, :, :d])
        gram = self._symmetric(upper)
        covs: FloatArray = np.linalg.inv(gram[:, :d, :d] + np.eye(d)).astype(np.float64)
        return np.einsum("uij,uj->ui", covs, information - gram[:, :d, d]), covs

    def whiten(self, means: FloatArray, covs: FloatArray) -> None:
        """Make the population of users N(0, I) again by moving its mean and covariance into the items' vectors.

        The axes are turned so that the mean posterior covariance is diagonal.
        """
        d = means.shape[1]
        centre, spread = means.mean(axis=0), covs.mean(axis=0)
        deviations = means - centre
        root = np.linalg.cholesky(deviations.T @ deviations / len(means) + spread)
        inverse = np.linalg.inv(root)
        axes = np.linalg.eigh(inverse @ spread @ inverse.T)[1]
        root, inverse = root @ axes, axes.T @ inverse
        self.vectors[:, :, d] += self.vectors[:, :, :d] @ centre
        self.vectors[:, :, :d] = self.vectors[:, :, :d] @ root
        users = np.column_stack([deviations @ inverse.T, np.ones(len(means))])
        covs = inverse @ covs @ inverse.T
        moments = users[:, :, None] * users[:, None, :]
        moments[:, :d, :d] += covs
        self.moments = moments[:, self.upper[0], self.upper[1]].astype(np.float32)
        self.means = users.astype(np.float32)
        self.variances = np.einsum("uii->ui", covs).astype(np.float32)

    def item_step(self, penalty: float) -> None:
        """Regress every item on the users' moments with a ridge that pulls constants to the logit of a share."""
        assert self.moments is not None  # noqa: S101
        moments, means = self.moments, self.means
        channels, n_items, width = self.vectors.shape
        indptr, indices, order = self.by_item
        upper = np.empty((channels, n_items, moments.shape[1]), dtype=np.float32)
        information = np.empty((channels, n_items, width))

        def weigh(block: slice) -> None:
            upper[0, block] = self._seen_weights(slice(None), block).T @ moments

        in_blocks(weigh, n_items)
        information[0] = csr_product(indptr, indices, self.residuals[0] * 2, means) - 0.5 * means.sum(
            axis=0, dtype=np.float64
        )
        for number in range(1, channels):
            upper[number] = csr_product(indptr, indices, self._graded_weights(number)[order], moments)
            information[number] = csr_product(indptr, indices, self.residuals[number][order], means)
        for number in range(channels):
            penalties = np.full(width, penalty)
            penalties[-1] = GRADE_PENALTY if number else BIAS_PENALTY
            information[number, :, -1] += penalties[-1] * self.anchors[number]
            precision = self._symmetric(upper[number]) + np.diag(penalties)
            self.vectors[number] = np.linalg.solve(precision, information[number, :, :, None])[:, :, 0]

    def _symmetric(self, upper: npt.NDArray[np.floating]) -> FloatArray:
        width = self.vectors.shape[2]
        full = np.empty((len(upper), width, width))
        full[:, self.upper[0], self.upper[1]] = upper
        full[:, self.upper[1], self.upper[0]] = upper
        return full

    def _seen_weights(self, users: slice, items: slice) -> Float32Array:
        """Return the weights omega of every pair of a block of users and a block of items."""
        vectors = self.vectors[0, items].astype(np.float32)
        xi_squared = self.means[users] @ vectors.T
        xi_squared *= xi_squared
        xi_squared += self.variances[users] @ (vectors[:, :-1] ** 2).T
        return polya_gamma_means(xi_squared)

    def _graded_weights(self, number: int) -> Float32Array:
        """Return the weights omega of every reaction, in the order of `reactions`."""
        vectors = self.vectors[number].astype(np.float32)
        pattern = self.reactions.indptr, self.reactions.indices
        xi_squared = sampled_products(*pattern, self.means, vectors) ** 2
        xi_squared += sampled_products(*pattern, self.variances, vectors[:, :-1] ** 2)
        return polya_gamma_means(xi_squared)


def fit_logistic(
    exposures: sp.csr_array,
    gradings: Sequence[sp.csr_array],
    start: LinearExpert | LogisticExpert,
    config: ExpertsConfig,
    *,
    progress: Callable[[int, int], None] | None = None,
) -> LogisticExpert:
    """Fit the logistic expert by variational EM.

    Args:
        exposures: Ones where there is a reaction, shape (users, items).
        gradings: Ones where the reaction is good enough, one table per grading, the successes first.
        start: The linear expert, whose loadings are the first directions, or the result of an earlier fit.
        config: The settings `logistic_dim`, `iterations`, `penalty` and `seed`.
        progress: Function that is told the iterations done and all of them.
    """
    users = _sampled_users(*exposures.shape, seed=config.seed)
    tables = [sp.csr_array(table[users]) for table in gradings]
    fit = _Fit(sp.csr_array(exposures[users]), tables, start, config.logistic_dim)
    for iteration in range(config.iterations):
        fit.whiten(*fit.user_step())
        fit.item_step(config.penalty)
        if progress is not None:
            progress(iteration + 1, config.iterations)
    return LogisticExpert(fit.vectors)


def polya_gamma_means(xi_squared: Float32Array) -> Float32Array:
    """Return E[omega] = tanh(xi / 2) / (2 xi); overwrites its argument."""
    xi = np.sqrt(np.maximum(xi_squared, 1e-6, out=xi_squared), out=xi_squared)
    omega = np.tanh(xi * np.float32(0.5))
    omega /= xi
    omega *= np.float32(0.5)
    return np.asarray(omega)


def _transposed(pattern: sp.csr_array) -> tuple[IntArray, IntArray, IntArray]:
    """Return the index arrays of the transposed pattern, and the position of each of its entries in the original."""
    numbered = sp.csr_array((np.arange(pattern.nnz), pattern.indices, pattern.indptr), shape=pattern.shape)
    by_item = sp.csr_array(numbered.T)
    return by_item.indptr, by_item.indices, by_item.data


def _logits(exposures: sp.csr_array, gradings: Sequence[sp.csr_array]) -> FloatArray:
    """Return the logit of each item's share of exposures among users, and of each grading among all exposures."""
    n_seen, *others = (np.asarray(table.sum(axis=0)).ravel() for table in (exposures, *gradings))
    shares = [(n_seen + 0.5) / (exposures.shape[0] + 1.0)]
    for counts in others:
        shares.append(np.full_like(shares[0], counts.sum() / max(n_seen.sum(), 1.0)))
    p = np.clip(np.stack(shares), 1e-6, 1.0 - 1e-6)
    return np.asarray(np.log(p / (1.0 - p)))


def _first_vectors(start: LinearExpert, dim: int, anchors: FloatArray) -> FloatArray:
    """Return the linear expert's loadings as slopes of the logit, capped against saturation."""
    channels, n_items = anchors.shape
    slopes = np.zeros((channels, n_items, dim))
    known = min(dim, start.loadings.shape[1])
    loadings, means = start.loadings.reshape(-1, n_items, start.loadings.shape[1]), start.means.reshape(-1, n_items)
    for channel, table in zip(range(channels), (1, 0, *range(2, len(means))), strict=False):
        share = means[table]
        slopes[channel, :, :known] = loadings[table, :, :known] / (share * (1.0 - share) + 0.01)[:, None]
    slopes *= min(1.0, LARGEST_START / max(float(np.abs(slopes).max()), 1e-12))
    return np.concatenate([slopes, anchors[:, :, None]], axis=2)


def _sampled_users(n_users: int, n_items: int, *, seed: int) -> IntArray:
    most = max(FEWEST_USERS, DENSE_CELLS // max(n_items, 1))
    if n_users <= most:
        return np.arange(n_users)
    return np.sort(np.random.default_rng(seed).choice(n_users, most, replace=False))
