"""The inner loops of the online phase in C (the folder `native`); NumPy does what they have no room for.

Importing this module fails where nothing was compiled. The native loops take single precision, up to `MOST_CHANNELS`
channels and up to `MOST_SELECTED` items.
"""

import numpy as np

from igcf.arrays import AnyFloatArray, BoolArray, FloatArray, IntArray
from igcf.model.neighbours import BySource
from igcf.online.backend import _native  # type: ignore[attr-defined]
from igcf.online.backend.numpy_backend import NumpyBackend
from igcf.online.backend.types import (
    Arrays,
    Block,
    BlockRewards,
    Channels,
    Classes,
    Columns,
    Evidence,
    ItemTerms,
    MakeRng,
    Mixture,
    Moments,
    RecordTerms,
)

MOST_CHANNELS = 8
"""Channels that the native loops have room for."""
MOST_SELECTED = 64
"""Items that the native loops keep in order at a time."""


def _fits(z: Arrays) -> bool:
    return len(z) <= MOST_CHANNELS and z[0].dtype == np.float32


def _combined(mixture: Mixture, z: Arrays, variances: Arrays | None) -> AnyFloatArray:
    result: AnyFloatArray = np.empty(z[0].shape, dtype=np.float32)
    own_variances = None if variances is None else tuple(map(np.ascontiguousarray, variances))
    _native.combine(mixture.parts, tuple(map(np.ascontiguousarray, z)), own_variances, result)
    return result


class NativeBackend(NumpyBackend):
    """The same computations in C, in single precision; methods that are not here are those of NumPy."""

    name = "native"

    @staticmethod
    def update_beliefs(
        means: FloatArray, covs: FloatArray, start: int, evidence: Evidence
    ) -> tuple[FloatArray, FloatArray]:
        """Update the beliefs of many users by one reaction each, in place."""
        w, steps = np.empty(evidence.x.shape), np.empty(len(evidence.rewards))
        _native.update_beliefs(means, covs, len(means), start, *evidence, w, steps)
        return w, steps

    @staticmethod
    def update_belief(mean: FloatArray, cov: FloatArray, start: int, evidence: Evidence) -> None:
        """Update one user's belief by any number of reactions, one after the other, in place."""
        NativeBackend.update_beliefs(mean[None], cov[None], start, evidence)

    @staticmethod
    def learn(
        mean: FloatArray,
        cov: FloatArray,
        channels: Channels,
        rows: IntArray,
        rewards: FloatArray,
        weights: FloatArray | None,
    ) -> None:
        """Update one user's belief by a history, in place."""
        learn = _native.learn if len(channels.starts) <= MOST_CHANNELS else NumpyBackend.learn
        learn(mean, cov, channels, rows, rewards, weights)

    @staticmethod
    def learn_in_turn(rules: Classes, mean: FloatArray, cov: FloatArray, rows: IntArray, classes: IntArray) -> None:
        """Update one user's belief by a history, in place; each reaction counts as the belief before it allows."""
        learn = _native.learn_in_turn if len(rules.starts) <= MOST_CHANNELS else NumpyBackend.learn_in_turn
        learn(rules, mean, cov, rows, classes)

    @staticmethod
    def counted_classes(
        rules: Classes, means: FloatArray, covs: FloatArray, rows: IntArray, classes: IntArray
    ) -> IntArray:
        """As which class the reaction of each of many users counts."""
        if len(rules.starts) > MOST_CHANNELS:
            return NumpyBackend.counted_classes(rules, means, covs, rows, classes)
        counted: IntArray = np.empty(len(rows), dtype=np.int64)
        numbers = (np.ascontiguousarray(each, dtype=np.int64) for each in (rows, classes))
        _native.counted_classes(rules, np.ascontiguousarray(means), np.ascontiguousarray(covs), *numbers, counted)
        return counted

    @staticmethod
    def counted_class(rules: Classes, mean: FloatArray, cov: FloatArray, row: int, number: int) -> int:
        """As which class the reaction of one user counts."""
        if len(rules.starts) > MOST_CHANNELS:
            return NumpyBackend.counted_class(rules, mean, cov, row, number)
        asked = np.array([row, number, 0])
        _native.counted_classes(rules, mean, cov, asked[:1], asked[1:2], asked[2:])
        return int(asked[2])

    @staticmethod
    def chances_of_logits(
        rows: list[int], z: AnyFloatArray, variances: AnyFloatArray, slope: float, spread: float, items: ItemTerms
    ) -> Columns:
        """Chances, lows and highs of a few items from the means and variances of the logit."""
        if len(rows) > MOST_SELECTED or z.dtype != np.float32:
            return NumpyBackend.chances_of_logits(rows, z, variances, slope, spread, items)
        return _native.chances_of_logits(rows, z, variances, slope, spread, *items)  # type: ignore[no-any-return]

    @staticmethod
    def observe_and_rescore(
        mean: FloatArray,
        cov: FloatArray,
        row: int,
        blocks: tuple[Block, ...],
        rewards: BlockRewards,
        moments: Moments,
    ) -> None:
        """Update one user's belief by a reaction, and the moments of all items, in place."""
        z, variances = moments
        if sum(map(len, rewards)) > MOST_CHANNELS or (z and z[0].dtype != np.float32):
            NumpyBackend.observe_and_rescore(mean, cov, row, blocks, rewards, moments)
        else:
            _native.observe_and_rescore(mean, cov, row, blocks, rewards, z, variances)

    @staticmethod
    def rescore_users(products: AnyFloatArray, steps: FloatArray, z: AnyFloatArray, variances: AnyFloatArray) -> None:
        """Carry one update of each of many users over to all items, in place."""
        rescore = _native.rescore_users if products.dtype == np.float32 else NumpyBackend.rescore_users
        rescore(products, steps, z, variances)

    @staticmethod
    def moments_at(
        vectors: AnyFloatArray, rows: IntArray, mean: FloatArray, cov: FloatArray
    ) -> tuple[AnyFloatArray, AnyFloatArray]:
        """Return the means and variances of z of some items."""
        means, variances = np.empty(len(rows), dtype=np.float32), np.empty(len(rows), dtype=np.float32)
        _native.moments_at(vectors, rows, mean, cov.astype(np.float32, order="C"), means, variances)
        return means, variances

    @staticmethod
    def multiply(items: AnyFloatArray, user: AnyFloatArray) -> AnyFloatArray:
        """Return the products of all item vectors with a user's vector."""
        if items.dtype != np.float32:
            return NumpyBackend.multiply(items, user)
        result: AnyFloatArray = np.empty(len(items), dtype=np.float32)
        _native.multiply(items, user, result)
        return result

    @staticmethod
    def add_information(
        vectors: AnyFloatArray, noise: FloatArray, rows: IntArray, rewards: FloatArray, sums: FloatArray
    ) -> None:
        """Add reward x / noise of some items to `sums`, in place."""
        _native.add_information(vectors, noise, rows, rewards, sums)

    @staticmethod
    def scattered(by_source: BySource, rows: IntArray, amounts: FloatArray | None) -> FloatArray:
        """Return what leads from some items to all, added up."""
        sums = np.zeros(len(by_source.starts) - 1)
        _native.scatter(*by_source, np.ascontiguousarray(rows), amounts, sums)
        return sums

    @staticmethod
    def find_mode(
        terms: RecordTerms, v: FloatArray, mean: FloatArray, cov: FloatArray, longest: float, passes: int
    ) -> None:
        """Search the mode of the posterior under a whole record, and the covariance there, in place."""
        if len(terms.absent) > MOST_CHANNELS:
            NumpyBackend.find_mode(terms, v, mean, cov, longest, passes)
        else:
            _native.find_mode(*terms, v, mean, cov, longest, passes)

    @staticmethod
    def expected_rewards(mixture: Mixture, z: Arrays) -> AnyFloatArray:
        """Return the expected rewards from the z of all scored channels."""
        return _combined(mixture, z, None) if _fits(z) else NumpyBackend.expected_rewards(mixture, z)

    @staticmethod
    def reward_variances(mixture: Mixture, z: Arrays, variances: Arrays) -> AnyFloatArray:
        """Return the variances of the expected rewards to first order."""
        return _combined(mixture, z, variances) if _fits(z) else NumpyBackend.reward_variances(mixture, z, variances)

    @staticmethod
    def select_users(
        scores: AnyFloatArray, available: BoolArray, k: int, make_rng: MakeRng
    ) -> tuple[IntArray, AnyFloatArray]:
        """Select the `k` best available items of each user; ties are broken at random."""
        if k > MOST_SELECTED or scores.dtype != np.float32:
            return NumpyBackend.select_users(scores, available, k, make_rng)
        n_users = len(available)
        rows: IntArray = np.empty((n_users, k), dtype=np.int64)
        best: AnyFloatArray = np.empty((n_users, k), dtype=np.float32)
        is_tied = np.empty(n_users, dtype=np.bool_)
        scores, available = np.ascontiguousarray(scores), np.ascontiguousarray(available)
        if _native.select_users(scores, available, k, rows, best, is_tied):
            tied = NumpyBackend.select_users(scores[is_tied], available[is_tied], k, make_rng)
            rows[is_tied], best[is_tied] = tied
        return rows, best

    @staticmethod
    def count_above(means: AnyFloatArray, available: BoolArray, of: AnyFloatArray) -> IntArray:
        """Count the available means above each of some numbers."""
        if means.dtype != np.float32:
            return NumpyBackend.count_above(means, available, of)
        counts: IntArray = np.empty(len(of), dtype=np.int64)
        _native.count_above(np.ascontiguousarray(means), np.ascontiguousarray(available), of, counts)
        return counts
