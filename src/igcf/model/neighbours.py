"""Linear maps from the items that a user liked to all items (docs/maths.md, section Logged evidence)."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from igcf.arrays import Float32Array, FloatArray, IntArray
from igcf.errors import ModelError


class BySource(NamedTuple):
    """A sparse map between items by the item that its weights come from."""

    starts: IntArray
    """Where the weights of each item begin, shape (items + 1,)."""
    targets: IntArray
    """Rows of the items that they lead to, shape (weights,), int32."""
    weights: FloatArray
    """Shape (weights,)."""


def scattered(by_source: BySource, rows: IntArray, amounts: FloatArray | None) -> FloatArray:
    """Return the sum over `rows` of their weights times `amounts`, None for ones, at the items that they lead to."""
    starts, targets, weights = by_source
    counts = starts[rows + 1] - starts[rows]
    ends = np.cumsum(counts)
    places = np.arange(ends[-1] if len(ends) else 0) + np.repeat(starts[rows] - (ends - counts), counts)
    terms = weights[places] if amounts is None else weights[places] * np.repeat(amounts, counts)
    return np.bincount(targets[places], terms, minlength=len(starts) - 1).astype(np.float64, copy=False)


Scattered = Callable[[BySource, IntArray, "FloatArray | None"], FloatArray]


@dataclass(frozen=True, eq=False)
class Neighbours:
    """Weights of a sparse ridge regression that predicts the success on each item from successes on a few others.

    The prediction of item j for a user who liked the items L is means[j] + sum over neighbours i of j of
    weights[j, i] (1[i in L] - means[i]). Beside it, a low-pass filter of the user-item graph adds the mean over the
    items i in L of low_pass[i] . low_pass[j], times the root of their number.

    Example:
        Users who like item 0 tend to like item 1 too:

        >>> import igcf, numpy as np
        >>> sources, weights = np.array([[1], [0]], dtype=np.int32), np.array([[0.0], [0.5]], dtype=np.float32)
        >>> means = np.full(2, 0.2, dtype=np.float32)
        >>> near = igcf.model.Neighbours(sources, weights, means, mix=0.5, penalty=10.0)
        >>> near.predictions(np.array([0])).astype(float).round(2).tolist()
        [0.2, 0.6]
    """

    sources: IntArray
    """Rows of the items that predict each item, shape (items, k), int32; unused places have weight 0."""
    weights: Float32Array
    """Their weights, shape (items, k)."""
    means: Float32Array
    """Share of users who like each item, shape (items,)."""
    mix: float
    """Weight of this prediction beside the belief's, for a user with a whole record."""
    penalty: float
    """Ridge penalty of the fit, in users."""
    low_pass: Float32Array | None = None
    """Leading directions of the normalised graph, times the root of their weight, (items, rank); None: no filter."""

    def __post_init__(self) -> None:
        """Reject arrays of inconsistent shapes and rows out of range."""
        n_items = len(self.means)
        shape = (n_items, self.sources.shape[-1])
        if self.sources.shape != shape or self.weights.shape != shape or self.means.shape != (n_items,):
            raise ModelError(
                f"neighbours have sources {self.sources.shape}, weights {self.weights.shape} and means "
                f"{self.means.shape}; expected (items, k), (items, k) and (items,)"
            )
        filters = () if self.low_pass is None else (self.low_pass,)
        for each in filters:
            if each.ndim != 2 or len(each) != n_items:
                raise ModelError(f"the low-pass filter has shape {each.shape}; expected ({n_items}, rank)")
        if self.sources.size and not (self.sources.min() >= 0 and self.sources.max() < n_items):
            raise ModelError(f"neighbours name item rows outside 0 to {n_items - 1}")
        numbers = (self.weights, self.means, *filters)
        if not (all(np.isfinite(each).all() for each in numbers) and 0 <= self.mix < np.inf):
            raise ModelError("neighbours hold NaN or infinite numbers; pretraining may have diverged")

    @cached_property
    def constant(self) -> Float32Array:
        """Prediction for a user who liked nothing, shape (items,)."""
        expected = np.einsum("nk,nk->n", self.weights, self.means[self.sources])
        return np.asarray(self.means - expected, dtype=np.float32)

    @cached_property
    def by_source(self) -> BySource:
        """The weights by the item that they come from."""
        n_items, k = self.sources.shape
        used = np.flatnonzero(self.weights)
        sources = self.sources.ravel()[used]
        order = np.argsort(sources, kind="stable")
        starts = np.concatenate([[0], np.cumsum(np.bincount(sources, minlength=n_items))])
        used = used[order]
        return BySource(starts, (used // k).astype(np.int32), self.weights.ravel()[used].astype(np.float64))

    def predictions(
        self, liked: IntArray, unknown: IntArray | None = None, sums: Scattered = scattered
    ) -> Float32Array:
        """Return the prediction of every item, shape (items,), from the rows of the items that a user liked.

        `unknown` are items that the user may or may not like: they count as their means. `sums` adds up the
        weights from some items to all.
        """
        result = sums(self.by_source, liked, None)
        if unknown is not None and len(unknown):
            result += sums(self.by_source, unknown, self.means[unknown].astype(np.float64))
        result += self.constant
        return result.astype(np.float32)

    def weights_to(self, target: int, rows: IntArray) -> FloatArray:
        """Return the weights of the items at `rows` in the prediction of one item, shape (rows,)."""
        used = self.weights[target] != 0
        of_source = dict(zip(self.sources[target][used].tolist(), self.weights[target][used].tolist(), strict=True))
        return np.array([of_source.get(row, 0.0) for row in rows.tolist()])

    def filtered(self, liked: IntArray) -> Float32Array:
        """Return the low-pass filter of the items that a user liked, shape (items,)."""
        if self.low_pass is None or not len(liked):
            return np.zeros(len(self.means), dtype=np.float32)
        signal = self.low_pass[liked].sum(axis=0) / np.float32(np.sqrt(len(liked)))
        return np.asarray(self.low_pass @ signal)

    def filter_weights_to(self, target: int, liked: IntArray) -> FloatArray:
        """Return the share of each liked item in `filtered` at one item, shape (liked,)."""
        if self.low_pass is None:
            return np.zeros(len(liked))
        weights = self.low_pass[liked].astype(np.float64) @ self.low_pass[target]
        return np.asarray(weights / np.sqrt(len(liked) or 1))
