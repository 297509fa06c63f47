"""The two steps of the logistic expert's variational EM, each for some users or some items of a sample.

Users are independent of each other given the items' vectors, and items given the users' moments, so that workers share
them. Only some thousand items' products are in memory at a time, whatever the size of the catalogue.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from igcf.arrays import Float32Array, FloatArray, IntArray
from igcf.graph.sparse_products import csr_product, sampled_products
from igcf.training.experts.executor import Worker, in_blocks

BIAS_PENALTY = 1e-3  # precision of the prior on the constant of being seen; its mean is the logit of the item's share
GRADE_PENALTY = 1.0
"""Precision of the prior on the constants of gradings: two or three reactions must not decide about an item."""
ITEM_BLOCK = 32_768  # items per block: products of vectors and sums over users are in memory for one block at a time
WITHOUT_OPINION = 2.0  # entry of a table of exposures for a reaction without an opinion


@dataclass(frozen=True, eq=False)
class Sample:
    """Reactions of the users that the expert is learned from, which every worker holds."""

    n_users: int
    n_items: int
    by_user: tuple[IntArray, IntArray]
    """Pattern of the pairs with a reaction and a known grade: indptr and item of each."""
    by_item: tuple[IntArray, IntArray, IntArray]
    """Pattern of the transposed pairs, and the position of each of them in `by_user`."""
    residuals: tuple[Float32Array, ...]
    """y - 1/2 of every reaction, one array per grading, 0 where a reaction is without an opinion.

    In the first, "seen", every other pair has -1/2.
    """

    @classmethod
    def of(cls, exposures: sp.csr_array, gradings: Sequence[sp.csr_array]) -> "Sample":
        """Take the pairs from tables of zeros and ones; exposures `WITHOUT_OPINION` have no grade."""
        reactions = exposures.astype(np.float32).sorted_indices()
        is_rated = reactions.data != WITHOUT_OPINION
        reactions.data[:] = 1.0
        residuals = [np.full(reactions.nnz, 0.5, dtype=np.float32)]
        for table in gradings:
            marked = (reactions * 0.25 + table.astype(np.float32)).sorted_indices()
            residuals.append(np.where(marked.data > 1.0, np.float32(0.5), np.float32(-0.5)) * is_rated)
        pattern, (n_users, n_items) = (reactions.indptr, reactions.indices), reactions.shape
        return cls(n_users, n_items, pattern, _transposed(reactions), tuple(residuals))

    def of_users(self, users: slice) -> tuple[IntArray, IntArray, list[Float32Array]]:
        """Return pattern and residuals of some users."""
        indptr, rows = _rows_of(self.by_user[0], users)
        return indptr, self.by_user[1][rows], [each[rows] for each in self.residuals]

    def of_items(self, items: slice) -> tuple[IntArray, IntArray, list[Float32Array]]:
        """Return transposed pattern and residuals of some items."""
        indptr, rows = _rows_of(self.by_item[0], items)
        order = self.by_item[2][rows]
        return indptr, self.by_item[1][rows], [each[order] for each in self.residuals]


class Users(NamedTuple):
    """Posteriors of users: means, variances and moments."""

    means: Float32Array
    variances: Float32Array
    moments: Float32Array | None = None


def hold_sample(worker: Worker, sample: Sample) -> None:
    """Let a worker hold the reactions of the fit."""
    worker.sample = sample


def user_posteriors(
    worker: Worker, all_vectors: FloatArray, rows: slice, means: Float32Array, variances: Float32Array
) -> tuple[FloatArray, Float32Array]:
    """Compute some users' posteriors: precision I + sum omega x x', information sum (y - 1/2 - omega b) x."""
    sample, users = _sample(worker), Users(means, variances)
    d, first = all_vectors.shape[2] - 1, np.triu_indices(all_vectors.shape[2])
    indptr, indices, residuals = sample.of_users(rows)
    upper = np.zeros((len(means), len(first[0])), dtype=np.float32)
    seen = all_vectors[0].astype(np.float32)
    for start in range(0, sample.n_items, ITEM_BLOCK):
        vectors = seen[start : start + ITEM_BLOCK]
        products = _products(vectors, first)

        def weigh(block: slice, vectors: Float32Array = vectors, products: Float32Array = products) -> None:
            upper[block] += seen_weights(Users(means[block], variances[block]), vectors) @ products

        in_blocks(weigh, len(upper))
    # every pair has y - 1/2 = -1/2, those that were seen 1 more
    information = np.tile(-0.5 * all_vectors[0, :, :d].sum(axis=0), (len(upper), 1))
    information += csr_product(indptr, indices, residuals[0] * 2, seen[:, :d])
    if sample.n_items > ITEM_BLOCK:  # only the items that these users reacted to
        items, indices = np.unique(indices, return_inverse=True)
        all_vectors = all_vectors[:, items]
    for number in range(1, len(all_vectors)):
        vectors = all_vectors[number].astype(np.float32)
        weights = graded_weights(indptr, indices, (users.means, vectors), (users.variances, vectors[:, :-1] ** 2))
        weights[residuals[number] == 0.0] = 0.0
        upper += csr_product(indptr, indices, weights, _products(vectors, first))
        information += csr_product(indptr, indices, residuals[number], vectors[:, :d])
    found = np.empty((len(means), d))
    covs = np.empty((len(means), d, d), dtype=np.float32)

    def solve(block: slice) -> None:
        gram = symmetric(upper[block], d + 1)
        inverse = np.linalg.inv(gram[:, :d, :d] + np.eye(d))
        found[block] = np.einsum("uij,uj->ui", inverse, information[block] - gram[:, :d, d])
        covs[block] = inverse

    in_blocks(solve, len(upper))
    return found, covs


def item_vectors(
    worker: Worker, users: Users, penalty: float, rows: slice, vectors: FloatArray, anchors: FloatArray
) -> FloatArray:
    """Compute some items' vectors, shape (channels, items, d + 1), some thousand items at a time."""
    result = np.empty_like(vectors)
    for start in range(0, vectors.shape[1], ITEM_BLOCK):
        own = slice(start, min(start + ITEM_BLOCK, vectors.shape[1]))
        place = slice(rows.start + own.start, rows.start + own.stop)
        pattern = _sample(worker).of_items(place)
        for number in range(len(vectors)):
            precision, information = _item_statistics(pattern, users, number, vectors[number, own])
            penalties = np.full(vectors.shape[2], penalty)
            penalties[-1] = GRADE_PENALTY if number else BIAS_PENALTY
            information[:, -1] += penalties[-1] * anchors[number, own]
            result[number, own] = _solved(precision, penalties, information)
    return result


def _item_statistics(
    pattern: tuple[IntArray, IntArray, list[Float32Array]], users: Users, number: int, vectors: FloatArray
) -> tuple[Float32Array, FloatArray]:
    """Sums of one channel over users: sum omega E[u u'] (upper triangles), and sum (y - 1/2) E[u]."""
    indptr, indices, residuals = pattern
    assert users.moments is not None  # noqa: S101
    moments, means, own = users.moments, users.means, vectors.astype(np.float32)
    if number:
        weights = graded_weights(indptr, indices, (own, means), (own[:, :-1] ** 2, users.variances))
        weights[residuals[number] == 0.0] = 0.0
        upper = csr_product(indptr, indices, weights, moments)
        return upper, csr_product(indptr, indices, residuals[number], means).astype(np.float64)
    upper = np.empty((len(vectors), moments.shape[1]), dtype=np.float32)

    def weigh(block: slice) -> None:
        upper[block] = seen_weights(users, own[block]).T @ moments

    in_blocks(weigh, len(upper))
    information = csr_product(indptr, indices, residuals[0] * 2, means) - 0.5 * means.sum(axis=0, dtype=np.float64)
    return upper, information


def _solved(upper: Float32Array, penalties: FloatArray, information: FloatArray) -> FloatArray:
    result = np.empty_like(information)

    def solve(block: slice) -> None:
        precision = symmetric(upper[block], len(penalties)) + np.diag(penalties)
        result[block] = np.linalg.solve(precision, information[block, :, None])[:, :, 0]

    in_blocks(solve, len(upper))
    return result


def symmetric(upper: npt.NDArray[np.floating], width: int) -> FloatArray:
    """Return whole matrices of their upper triangles."""
    place = np.zeros((width, width), dtype=np.intp)
    first = np.triu_indices(width)
    place[first] = np.arange(len(first[0]))
    full = upper.take(np.maximum(place, place.T).ravel(), axis=1)
    return full.reshape(-1, width, width).astype(np.float64)


def seen_weights(users: Users, vectors: Float32Array) -> Float32Array:
    """Return the weights omega of every pair of some users and some items."""
    xi_squared = users.means @ vectors.T
    xi_squared *= xi_squared
    xi_squared += users.variances @ (vectors[:, :-1] ** 2).T
    return polya_gamma_means(xi_squared)


def graded_weights(
    indptr: IntArray,
    indices: IntArray,
    means: tuple[Float32Array, Float32Array],
    variances: tuple[Float32Array, Float32Array],
) -> Float32Array:
    """Return the weights omega of the pairs of a pattern from the two sides of mean and variance of their logits."""
    xi_squared = sampled_products(indptr, indices, *means) ** 2
    xi_squared += sampled_products(indptr, indices, *variances)
    return polya_gamma_means(xi_squared)


def _products(vectors: Float32Array, first: tuple[IntArray, IntArray]) -> Float32Array:
    return np.asarray(vectors[:, first[0]] * vectors[:, first[1]])


def _sample(worker: Worker) -> Sample:
    assert worker.sample is not None, "call hold_sample before"  # noqa: S101
    return worker.sample


def _rows_of(indptr: IntArray, rows: slice) -> tuple[IntArray, slice]:
    own = indptr[rows.start : rows.stop + 1]
    return own - own[0], slice(int(own[0]), int(own[-1]))


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
