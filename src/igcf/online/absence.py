"""Belief about one block of a user's vector from a whole record: the reactions in it, and all items that are not.

Sums over the items of the training log are computed once per model; items added later count where a record has them
(docs/maths.md, section Logged evidence).
"""

from collections.abc import Sequence
from copy import copy
from typing import NamedTuple

import numpy as np

from igcf.arrays import AnyFloatArray, FloatArray, IntArray, uncertain_directions
from igcf.model import Channel, Model
from igcf.model.channel import sigmoid
from igcf.online import backend
from igcf.online.backend.types import RecordTerms

LEVELS = np.arange(-4.0, 4.01, 0.5)
"""How much more active than the population a user may be, in logits, where the search for the mode starts."""
PASSES = 3  # steps to the mode of a logistic block, with one pass over all items each
LONGEST_STEP = 3.0  # largest distance that a step may go: Newton's step from far away goes too far
CHUNK = 4_096  # items at a time when sums over all of them are computed


class Record(NamedTuple):
    """Logged reactions of one user, and how much it says that other items are not among them."""

    rows: IntArray  # rows of the items, each at most once, shape (reactions,)
    values: FloatArray  # values in the units of the log, shape (reactions,)
    weight: float  # weight of every absent item as a reward of zero
    later: IntArray
    """Rows of items without meaning in their absence, for instance because they appeared later; not in `rows`."""


class _Absence:
    """What all blocks have in common."""

    def __init__(self, model: Model, span: slice, channels: Sequence[Channel]) -> None:
        self.span, self.channels, self.n_items = span, channels, model.n_items
        self.prior_mean: FloatArray = model.prior_mean[span]

    def surprises(self, record: Record, channels: Sequence[Channel]) -> FloatArray:
        """Return the gradient of each reaction's log likelihood at the prior mean, shape (reactions, d)."""
        result = np.zeros((len(record.rows), len(self.prior_mean)))
        for channel in channels:
            x = channel.vectors[record.rows].astype(np.float64)
            z = x @ self.prior_mean
            surprise = channel.reward.of(record.values) - (sigmoid(z) if channel.link == "logit" else z)
            result += (np.nan_to_num(surprise) / channel.noise_var[record.rows])[:, None] * x
        return result


class LinearAbsence(_Absence):
    """Exact posterior of a block of linear channels."""

    def __init__(self, model: Model, span: slice, channels: Sequence[Channel]) -> None:
        super().__init__(model, span, channels)
        self._frame, _ = uncertain_directions(model.prior_cov[span, span])
        squares = (_weighted_square(channel.vectors, 1.0 / channel.noise_var) for channel in channels)
        self.total = sum(squares, np.zeros((len(self.prior_mean),) * 2))  # of x x' / noise of all items, shape (d, d)
        self._cov_of_all = self._cov(self.total)

    def with_prior(self, mean: FloatArray, cov: FloatArray) -> "LinearAbsence":
        """Return the same sums over items under another prior."""
        other = copy(self)
        other.prior_mean, other._frame = mean, uncertain_directions(cov)[0]
        other._cov_of_all = other._cov(self.total)
        return other

    def posterior(self, record: Record, channels: Sequence[Channel] | None = None) -> tuple[FloatArray, FloatArray]:
        """Return mean (d,) and covariance (d, d) in O(n d^2 + d^3), or O(n d + d^2) where absence has weight one.

        `channels` are those of this block with the rows of added items too; None: without them.
        """
        channels = channels or self.channels
        precision, cov = self.total, self._cov_of_all
        if record.weight != 1.0 or len(record.later) or (record.rows >= self.n_items).any():
            precision = self._precision(record, channels)
            cov = self._cov(precision)
        information = np.zeros(len(self.prior_mean))
        for channel in channels:
            rewards = channel.reward.of(record.values)
            backend.loops.add_information(channel.vectors, channel.noise_var, record.rows, rewards, information)
        return self.prior_mean + cov @ (information - precision @ self.prior_mean), cov

    def _precision(self, record: Record, channels: Sequence[Channel]) -> FloatArray:
        """What all evidence adds to the precision: absent items at their weight, reactions at one."""
        result: FloatArray = record.weight * self.total
        own = 1.0 - record.weight * (record.rows < self.n_items)
        for channel in channels:
            for rows, weights in ((record.rows, own), (record.later, np.full(len(record.later), -record.weight))):
                if len(rows):
                    result += _weighted_square(channel.vectors[rows], weights / channel.noise_var[rows])
        return result

    def _cov(self, precision: FloatArray) -> FloatArray:
        """The posterior covariance, in the directions in which the prior is uncertain."""
        frame = self._frame
        inner = np.linalg.inv(np.eye(frame.shape[1]) + frame.T @ precision @ frame)
        cov = frame @ inner @ frame.T
        return np.asarray((cov + cov.T) / 2)


class LogisticAbsence(_Absence):
    """Mode and curvature of the posterior of a block of logistic channels."""

    def __init__(self, model: Model, span: slice, channels: Sequence[Channel]) -> None:
        super().__init__(model, span, channels)
        self._frame, self._inverse = map(np.ascontiguousarray, uncertain_directions(model.prior_cov[span, span]))
        self.absent = [channel for channel in channels if _counts_absence(channel)]
        """Channels in which an absent item is a failure; in the others it says nothing."""
        self._absent_vectors = tuple(channel.vectors for channel in self.absent)
        self._absent_noise = tuple(channel.noise_var for channel in self.absent)
        self._level = self._level_direction(model.prior_cov[span, span])
        levels = LEVELS if self._level.any() else LEVELS[:1] * 0.0
        sums = [self._sums_at(level) for level in levels]
        self._log_counts = np.log([max(count, 1e-12) for count, _, _ in sums])
        self._sums = [(slope, curvature) for _, slope, curvature in sums]
        self._starts = [level * (self._inverse.T @ self._level) for level in levels]

    def with_prior(self, mean: FloatArray, cov: FloatArray) -> "LogisticAbsence":
        """Return the same sums over items under another prior; searches start from the same points as before."""
        other = copy(self)
        other.prior_mean = mean
        other._frame, other._inverse = map(np.ascontiguousarray, uncertain_directions(cov))
        points = (self.prior_mean + self._frame @ start for start in self._starts)
        other._starts = [other._inverse.T @ (point - mean) for point in points]
        return other

    def _level_direction(self, prior_cov: FloatArray) -> FloatArray:
        """The unit vector of the dimension that adds the same to every item's logit of being there; zero: none."""
        direction = np.zeros(len(self.prior_mean))
        is_one = np.diagonal(prior_cov) > 0
        for channel in self.absent:
            is_one = is_one & (channel.vectors == 1.0).all(axis=0)
        found = np.flatnonzero(is_one)
        if self.absent and len(found):
            direction[found[0]] = 1.0
        return direction

    def _sums_at(self, level: float) -> tuple[float, FloatArray, FloatArray]:
        """Expected number of reactions of a mean user moved by `level`, and slope and curvature of absence there."""
        user = self.prior_mean + level * self._level
        count, slope = 0.0, np.zeros(len(user))
        curvature = np.zeros((len(user),) * 2)
        for channel in self.absent:
            p = sigmoid(channel.vectors @ user)
            count += float(p.sum())
            slope += (p / channel.noise_var) @ channel.vectors
            curvature += _weighted_square(channel.vectors, p * (1.0 - p) / channel.noise_var)
        return count, slope, curvature

    def posterior(
        self, record: Record, channels: Sequence[Channel] | None = None, passes: int = PASSES
    ) -> tuple[FloatArray, FloatArray]:
        """Return mode (d,) and covariance (d, d): Newton from the level that fits the number of reactions, then BFGS.

        Every step of BFGS passes over all items once; `channels` as of `LinearAbsence.posterior`.
        """
        at = self._nearest_level(record)
        slope, curvature = self._sums[at]
        terms = self._terms(record, channels or self.channels, slope)
        mean, cov = np.empty_like(self.prior_mean), record.weight * curvature
        is_curved = record.weight > 0.0 or len(terms.own_weights) > 0
        backend.loops.find_mode(terms, self._starts[at].copy(), mean, cov, LONGEST_STEP, passes if is_curved else 0)
        return mean, cov

    def _terms(self, record: Record, channels: Sequence[Channel], slope: FloatArray) -> RecordTerms:
        """Terms of a record: its own reactions, minus absences that say nothing, and all items of the log as absent."""
        parts, weights, information = [], [], np.zeros(len(self.prior_mean))
        for channel in channels:
            rewards = channel.reward.of(record.values)
            backend.loops.add_information(channel.vectors, channel.noise_var, record.rows, rewards, information)
            own = 1.0 - record.weight * (record.rows < self.n_items) if _counts_absence(channel) else np.ones(1)
            if own.any():
                parts.append(channel.vectors.take(record.rows, axis=0))
                weights.append(own / channel.noise_var[record.rows])
        for channel in self.absent if len(record.later) else ():
            parts.append(channel.vectors[record.later])
            weights.append(-record.weight / channel.noise_var[record.later])
        if not parts:
            parts, weights = [np.zeros((0, len(information)), dtype=np.float32)], [np.zeros(0)]
        own_x = parts[0] if len(parts) == 1 else np.concatenate(parts)
        own_weights = np.concatenate(weights).astype(np.float32)
        absent, known = (self._absent_vectors, self._absent_noise), (self.prior_mean, self._frame)
        return RecordTerms(*absent, slope, record.weight, own_x, own_weights, information, *known)

    def _nearest_level(self, record: Record) -> int:
        """The level at which the population would have as many reactions as this record stands for."""
        if len(self._log_counts) == 1:
            return 0
        n = sum(float(channel.reward.of(record.values).sum()) for channel in self.absent)
        stands_for = max(n, 0.5) / max(record.weight, 1e-3)
        return int(np.argmin(np.abs(self._log_counts - np.log(stands_for))))


def _counts_absence(channel: Channel) -> bool:
    """Whether an absent item is a failure in a channel."""
    return channel.reward.of_one(np.nan) == 0.0


def _weighted_square(vectors: AnyFloatArray, weights: FloatArray) -> FloatArray:
    """Sum over items of weight x x', shape (d, d), for vectors (items, d)."""
    result = np.zeros((vectors.shape[1],) * 2)
    for start in range(0, len(vectors), CHUNK):
        x = vectors[start : start + CHUNK].astype(np.float64)
        result += (x * weights[start : start + CHUNK, None]).T @ x
    return result
