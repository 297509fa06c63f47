"""An inverted file of the items: lists of items that people like alike, and which of them to look into for a user.

An item's score is f(z) + nu std, z being the products of its vectors with the user's, one per scored channel. A list is
judged by what its best item may score: the expected reward of its centre, plus what its items differ by, plus what is
not known of the user, both as deviations of z. All items of the best lists then get their expected rewards.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from igcf.arrays import AnyFloatArray, BoolArray, Float32Array, FloatArray, IntArray
from igcf.errors import ConfigError, ModelError
from igcf.model import Model
from igcf.model.channel import activations, expectation, gradients
from igcf.online import backend
from igcf.online.backend.types import Arrays, Mixture
from igcf.online.belief import Belief

LISTS_ASKED = 32
"""Lists that are looked into at first; then four times as many, as long as too few of their items are available."""
REFINED = 16
"""Times as many lists are judged by their own variances as are looked into."""
CANDIDATES = 400
"""Items that are scored exactly: the best of these lists by expected reward and the deviation typical of a list."""
FEW = 0.02
"""Share of the items that are available up to which all of those are candidates."""
TAIL = 3.0
"""Deviations by which the best item of a list is taken to exceed its centre, like the best of some hundred numbers."""
COMPARED = 100
"""Items whose vectors are compared with those of the model that an index is used with."""
TINY = np.float32(1e-12)
LISTS_PER_ROOT = 4.0
"""Lists per square root of the number of items: looking through the centres then takes about as long as the lists."""
LEARNED_FROM = 40
"""Items per list from which its centre is learned."""
ROUNDS = 10
CHUNK = 65_536
TOP = 200
"""Items that the population likes best, at which the weights of the channels are taken."""
SAMPLED = 100_000
"""Items from which the covariance around the centres is estimated."""


@dataclass(frozen=True, eq=False)
class ChannelLists:
    """One scored channel's vectors, list by list."""

    vectors: Float32Array
    """Item vectors, shape (items, d)."""
    lengths: Float32Array
    """Their squared lengths, shape (items,)."""
    centres: Float32Array
    """Mean of each list's vectors, shape (lists, d)."""
    within: FloatArray
    """Covariance of the vectors around the centres of their lists, shape (d, d)."""


@dataclass(frozen=True, eq=False)
class ItemLists:
    """Items in lists: plain arrays, of which the large ones may be mapped from files."""

    channels: tuple[ChannelLists, ...]
    """The channels that the model's expected reward depends on."""
    rows: IntArray
    """Rows of the items in the model, list by list, shape (items,)."""
    starts: IntArray
    """Where each list begins, and the end of the last one, shape (lists + 1,)."""
    spread: Float32Array
    """How far a list's items lie from its centre, beside all lists, shape (lists,)."""

    @property
    def n_lists(self) -> int:
        """Number of lists."""
        return len(self.spread)

    def check(self, model: Model) -> None:
        """Refuse a model that these lists are not of: other vectors, or other items beside those added later."""
        n_trained = model.n_items - len(model.added)
        wanted = [(n_trained, model.channels[number].vectors.shape[1]) for number in model.scored]
        found = [each.vectors.shape for each in self.channels]
        if found != wanted:
            raise ModelError(
                f"the index has vectors of shapes {found}, the model {wanted}; build it again with `igcf index`"
            )
        some = np.linspace(0, n_trained - 1, COMPARED).astype(np.intp)
        for each, number in zip(self.channels, model.scored, strict=True):
            if not np.array_equal(each.vectors[some], model.channels[number].vectors[self.rows[some]]):
                raise ModelError("the index is that of another model; build it again with `igcf index`")


class CandidateSearch:
    """The lists of a model, and what of the model a search needs."""

    def __init__(self, model: Model, lists: ItemLists) -> None:
        lists.check(model)
        self.lists = lists
        self.side = model.added
        """Rows that are in no list and always candidates: items that joined the model, whose vectors still move."""
        self._n_few = FEW * model.n_items
        self._mixture = Mixture.from_model(model)
        self._spans = tuple(model.channels[number].span for number in model.scored)
        spread = np.square(lists.spread)
        self._tails = TAIL**2 * spread
        self._lengths = tuple(
            np.square(each.centres).sum(axis=1) + spread * np.float32(np.trace(each.within)) + TINY
            for each in lists.channels
        )
        """Mean squared length of each channel's vectors in each list, shape (lists,)."""

    def candidates(self, belief: Belief, nu: float, k: int, available: BoolArray) -> IntArray:
        """Return rows of available items, among which the best `k` by mean + nu sqrt(variance) are to be looked for.

        `available` has shape (items,). Where it leaves few items, or where the lists hold too few of them, these are
        all that are available.
        """
        lists, wanted = self.lists, max(CANDIDATES, 4 * k)
        n_asked, enough = LISTS_ASKED, max(wanted, LISTS_ASKED * len(lists.rows) // lists.n_lists // 4)
        users = tuple(belief.mean[span].astype(np.float32) for span in self._spans)
        worth = self._worth(users, belief, nu)
        while n_asked < lists.n_lists:
            rows, scores = self._scored(users, belief, nu, self._best_lists(worth, users, belief, nu, n_asked))
            is_open = available[rows]
            rows, scores = rows[is_open], scores[is_open]
            if len(rows) >= enough:
                best = np.argpartition(-scores, wanted)[:wanted] if len(rows) > wanted else slice(None)
                return np.concatenate([rows[best], self.side[available[self.side]]])
            if n_asked == LISTS_ASKED and np.count_nonzero(available) <= max(wanted, self._n_few):
                break
            n_asked *= 4
        return np.flatnonzero(available)

    def _best_lists(self, worth: AnyFloatArray, users: Arrays, belief: Belief, nu: float, n: int) -> IntArray:
        """The `n` lists of most worth, in order; with nu they are chosen among more by their own variances."""
        if nu and REFINED * n < len(worth):
            some = np.argpartition(-worth, REFINED * n)[: REFINED * n]
            variances = tuple(self._variances_in(place, belief, some) for place in range(len(users)))
            own = self._worth(users, belief, nu, some, variances)
            return np.sort(some[np.argpartition(-own, n)[:n]])
        return np.sort(np.argpartition(-worth, n)[:n])

    def _worth(
        self,
        users: Arrays,
        belief: Belief,
        nu: float,
        some: IntArray | slice = slice(None),
        variances: Arrays | None = None,
    ) -> AnyFloatArray:
        """What the best item of each list may be expected to score, shape (lists,).

        `variances` are the mean ones of z in `some` lists; without them they are taken from the lengths of vectors.
        """
        z, tails, unknown = [], [], []
        for place, (own, user, span) in enumerate(zip(self.lists.channels, users, self._spans, strict=True)):
            z.append(backend.loops.multiply(own.centres[some], user))
            typical = float(np.trace(belief.cov[span, span])) / len(user)
            along = float(user @ own.within @ user) + nu**2 * typical * float(np.trace(own.within)) / len(user)
            tails.append(self._tails[some] * np.float32(along))
            mean = np.float32(typical) * self._lengths[place][some] if variances is None else variances[place]
            unknown.append(np.float32(nu**2) * mean)
        worth = self._expected(tuple(z)) + self._deviations(tuple(z), tuple(tails))
        return worth + self._deviations(tuple(z), tuple(unknown)) if nu else worth

    def _variances_in(self, place: int, belief: Belief, some: IntArray) -> Float32Array:
        """Mean variance of a channel's z over the items of some lists."""
        own, span = self.lists.channels[place], self._spans[place]
        cov, centres = belief.cov[span, span], own.centres[some]
        found: Float32Array = np.einsum("nd,nd->n", centres @ cov.astype(np.float32), centres)
        found += np.square(self.lists.spread[some]) * np.float32((cov * own.within).sum())
        return found

    def _scored(self, users: Arrays, belief: Belief, nu: float, asked: IntArray) -> tuple[IntArray, AnyFloatArray]:
        """Rows of all items of some lists and, roughly, their scores."""
        lists = self.lists
        ends = zip(lists.starts[asked].tolist(), lists.starts[asked + 1].tolist(), strict=True)
        parts = [slice(first, last) for first, last in ends]
        rows = np.concatenate([lists.rows[part] for part in parts])
        multiply = backend.loops.multiply
        z = tuple(
            np.concatenate([multiply(own.vectors[part], user) for part in parts])
            for own, user in zip(lists.channels, users, strict=True)
        )
        if not nu:
            return rows, self._expected(z)
        sizes, variances = np.diff(lists.starts)[asked], []
        for place, own in enumerate(lists.channels):
            relative = np.float32(nu**2) * self._variances_in(place, belief, asked) / self._lengths[place][asked]
            lengths = np.concatenate([own.lengths[part] for part in parts])
            variances.append(lengths * np.repeat(relative, sizes))
        return rows, self._expected(z) + self._deviations(z, tuple(variances))

    def _expected(self, z: Arrays) -> AnyFloatArray:
        """Expected rewards from the z of all scored channels."""
        return z[0] if self._mixture.model.is_linear else backend.loops.expected_rewards(self._mixture, z)

    def _deviations(self, z: Arrays, variances: Arrays) -> AnyFloatArray:
        """Standard deviations of the expected rewards from variances of z."""
        is_linear = self._mixture.model.is_linear
        own = variances[0] if is_linear else backend.loops.reward_variances(self._mixture, z, variances)
        return np.asarray(np.sqrt(np.maximum(own, 0.0)))


def build_lists(model: Model, *, seed: int = 0) -> ItemLists:
    """Put the items of a model into about 4 sqrt(items) lists; items added to the model are left out.

    Two items are near where people of the population differ little in how much more they like the one than the other:
    vectors are compared after multiplication with the root of the users' second moments, channel by channel, each
    weighted by how much it matters to the expected reward of the best items.
    """
    faiss = load_faiss()
    rows = np.delete(np.arange(model.n_items), model.added)
    if not len(rows):
        raise ConfigError("the model has no items but those added to it; an index needs items that were trained")
    channels = [model.channels[number] for number in model.scored]
    n_lists = max(1, min(int(LISTS_PER_ROOT * np.sqrt(len(rows))), len(rows)))
    metric = _metric(model)

    def vectors_at(own: IntArray) -> Float32Array:
        return np.concatenate([channel.vectors[own] for channel in channels], axis=1)

    rng = np.random.default_rng(seed)
    learned_from = np.sort(rng.permutation(rows)[: LEARNED_FROM * n_lists])
    means = faiss.Kmeans(
        metric.shape[1], n_lists, niter=ROUNDS, seed=seed, min_points_per_centroid=1,
        max_points_per_centroid=LEARNED_FROM,
    )  # fmt: skip
    means.train(np.ascontiguousarray(vectors_at(learned_from) @ metric))
    lists = np.empty(len(rows), dtype=np.int64)
    for part in _chunks(len(rows)):
        lists[part] = means.index.search(np.ascontiguousarray(vectors_at(rows[part]) @ metric), 1)[1][:, 0]
    order = np.argsort(lists, kind="stable")
    sizes = np.bincount(lists, minlength=n_lists)
    is_used = sizes > 0
    lists = (np.cumsum(is_used) - 1)[lists[order]]
    starts = np.concatenate([[0], np.cumsum(sizes[is_used])]).astype(np.int64)
    rows = rows[order]
    sample = np.sort(rng.permutation(len(rows))[:SAMPLED])
    own = tuple(_channel_lists(channel.vectors[rows], starts, lists, sample) for channel in channels)
    squares = np.empty(len(rows))
    for part in _chunks(len(rows)):
        apart = np.concatenate([each.vectors[part] - each.centres[lists[part]] for each in own], axis=1)
        squares[part] = np.square(apart @ metric).sum(axis=1)
    typical = max(float(squares.mean()), float(np.finfo(np.float32).tiny))
    spread = np.sqrt(np.add.reduceat(squares, starts[:-1]) / np.diff(starts) / typical)
    return ItemLists(own, rows, starts, spread.astype(np.float32))


def load_faiss() -> Any:
    """Import faiss, in one thread as everything here is, or say how to get it."""
    try:
        import faiss
    except ImportError as error:
        raise ConfigError(
            "building an index of items needs faiss, which is not installed; `pip install 'igcf[index]'`, or answer "
            "without an index (exact)"
        ) from error
    faiss.omp_set_num_threads(1)
    return faiss


def _metric(model: Model) -> Float32Array:
    """The matrix that vectors side by side are multiplied with before they are compared, shape (width, width')."""
    from scipy.linalg import block_diag

    channels = {number: model.channels[number] for number in model.scored}
    z = {number: channel.vectors @ model.prior_mean[channel.span] for number, channel in channels.items()}
    active = activations(model.channels, z)
    top = np.argsort(-expectation(model.terms, active), kind="stable")[:TOP]
    slopes = gradients(model.channels, model.terms, {number: own[top] for number, own in active.items()})
    blocks = []
    for number, channel in channels.items():
        mean = model.prior_mean[channel.span]
        size, axes = np.linalg.eigh(model.prior_cov[channel.span, channel.span] + np.outer(mean, mean))
        weight = float(np.sqrt(np.mean(np.square(slopes[number]))))
        blocks.append(weight * axes * np.sqrt(np.maximum(size, 0.0)))
    return np.asarray(block_diag(*blocks), dtype=np.float32)


def _channel_lists(vectors: Float32Array, starts: IntArray, lists: IntArray, sample: IntArray) -> ChannelLists:
    """One channel's vectors, which are in the order of the lists, and what is typical of each list."""
    lengths = np.einsum("nd,nd->n", vectors, vectors)
    sums = np.add.reduceat(vectors, starts[:-1], axis=0, dtype=np.float64)
    centres = (sums / np.diff(starts)[:, None]).astype(np.float32)
    around = (vectors[sample] - centres[lists[sample]]).astype(np.float64)
    return ChannelLists(vectors, lengths, centres, np.asarray(around.T @ around / len(sample)))


def _chunks(n: int) -> list[slice]:
    return [slice(first, min(first + CHUNK, n)) for first in range(0, n, CHUNK)]
