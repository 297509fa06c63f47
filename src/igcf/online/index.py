"""Candidates from an inverted file of the items, for catalogues that are too large to score in full.

The items are in lists of those that people like alike. An item's score is f(z) + nu std, z being the products of its
vectors with the user's, one per scored channel. A list is judged by what its best item may score: the expected reward
of its centre, plus what its items differ by, plus what is not known of the user, both as deviations of z. All items of
the best lists then get their expected rewards.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, get_args

import numpy as np

from igcf.arrays import AnyFloatArray, BoolArray, Float32Array, FloatArray, IntArray
from igcf.errors import ConfigError, ModelError
from igcf.model import Model
from igcf.model.channel import activations, expectation, gradients
from igcf.online import backend
from igcf.online.backend.numpy_items import described
from igcf.online.backend.types import Arrays, Mixture, Moments, Selection
from igcf.online.belief import Belief
from igcf.online.engine import NO_MOMENTS, ScoringEngine, expected_from, variances_from
from igcf.online.exploration import AMONG

if TYPE_CHECKING:
    from igcf.online.new_items.update import NewItems

IndexChoice = Literal["auto", "exact", "lists"]
INDEX_FROM = 50_000  # items from which `auto` asks an index (docs/design/scale.md, section Retrieval)
LISTS_ASKED = 32
"""Lists that are looked into at first; then four times as many, as long as too few of their items are available."""
REFINED = 16  # times as many lists are judged by their own variances as are looked into
CANDIDATES = 400
"""Items that are scored exactly: the best of these lists by expected reward and the deviation typical of a list."""
FEW = 0.02  # share of the items that are available up to which all of those are candidates
TAIL = 3.0
"""Deviations by which the best item of a list is taken to exceed its centre, like the best of some hundred numbers."""
TINY = np.float32(1e-12)
LISTS_PER_ROOT = 4.0
"""Lists per square root of the number of items: looking through the centres then takes about as long as the lists."""
ROUNDS = 6  # steps of k-means
TOP = 200  # items that the population likes best, at which the weights of the channels are taken


@dataclass(frozen=True, eq=False)
class ChannelLists:
    """What is typical of each list in one scored channel."""

    lengths: Float32Array  # squared lengths of the items' vectors, list by list, shape (items,)
    centres: Float32Array  # mean of each list's vectors, shape (lists, d)
    within: FloatArray  # covariance of the vectors around the centres of their lists, shape (d, d)


@dataclass(frozen=True, eq=False)
class ItemLists:
    """The items that a model was trained on, in lists."""

    channels: tuple[ChannelLists, ...]  # the channels that the model's expected reward depends on
    rows: IntArray  # rows of the items in the model, list by list, shape (items,)
    starts: IntArray  # where each list begins, and the end of the last one, shape (lists + 1,)
    spread: Float32Array  # how far a list's items lie from its centre, beside all lists, shape (lists,)

    @property
    def n_lists(self) -> int:
        """Number of lists."""
        return len(self.spread)

    def check(self, model: Model) -> None:
        """Refuse a model that has other items, beside those added later, or vectors of other widths."""
        wanted = (model.n_trained, [model.channels[number].vectors.shape[1] for number in model.scored])
        found = (len(self.rows), [each.centres.shape[1] for each in self.channels])
        if found != wanted:
            raise ModelError(f"the index is of items and widths {found}, the model has {wanted}; build it again")


def find_index(model: Model, index: "IndexChoice | ItemLists") -> ItemLists | None:
    """Return the index that was given, or build one where it is wanted; None: all items are scored.

    `index` may be `exact` (none), `lists` (in any case) or `auto` (for large catalogues).
    """
    if isinstance(index, ItemLists):
        return index
    if index not in get_args(IndexChoice):
        names = ", ".join(get_args(IndexChoice))
        raise ConfigError(f"index must be one of {names}, or an index that was built, got {index!r}")
    is_wanted = index == "lists" or (index == "auto" and model.n_items >= INDEX_FROM)
    return build_lists(model) if is_wanted else None


class CandidateSearch:
    """The lists of a model, and what of the model a search needs."""

    def __init__(self, model: Model, lists: ItemLists) -> None:
        lists.check(model)
        self.lists = lists
        self.side = model.added
        """Rows that are in no list and always candidates: items that joined the model and still move."""
        self._n_few = FEW * model.n_items
        self._mixture = Mixture.from_model(model)
        self._spans = tuple(model.channels[number].span for number in model.scored)
        self._vectors = tuple(model.channels[number].vectors for number in model.scored)
        spread = np.square(lists.spread)
        self._tails = TAIL**2 * spread
        self._lengths = tuple(
            np.square(each.centres).sum(axis=1) + spread * np.float32(np.trace(each.within)) + TINY
            for each in lists.channels
        )  # mean squared length of each channel's vectors in each list, shape (lists,)

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
        worth = expected_from(self._mixture, tuple(z)) + self._deviations(tuple(z), tuple(tails))
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
        places = np.concatenate([np.arange(first, last) for first, last in ends])
        rows = lists.rows[places]
        pairs = zip(self._vectors, users, strict=True)
        z = tuple(backend.loops.multiply(vectors.take(rows, axis=0), user) for vectors, user in pairs)
        if not nu:
            return rows, expected_from(self._mixture, z)
        sizes, variances = np.diff(lists.starts)[asked], []
        for place, own in enumerate(lists.channels):
            relative = np.float32(nu**2) * self._variances_in(place, belief, asked) / self._lengths[place][asked]
            variances.append(own.lengths[places] * np.repeat(relative, sizes))
        return rows, expected_from(self._mixture, z) + self._deviations(z, tuple(variances))

    def _deviations(self, z: Arrays, variances: Arrays) -> AnyFloatArray:
        return np.asarray(np.sqrt(np.maximum(variances_from(self._mixture, z, variances), 0.0)))


class IndexedEngine(ScoringEngine):
    """The state of one user: the belief alone.

    The best items are looked for among candidates from the lists of an index and scored exactly. `means` and
    `variances` of all items are computed when they are asked for and not kept. A user with an offset per item is
    scored in full.
    """

    keeps_items = False

    of_items = (*ScoringEngine.of_items, "_search")

    def __init__(self, model: Model, lists: ItemLists) -> None:
        self._search = CandidateSearch(model, lists)
        super().__init__(model, tracks_variances=False)

    def _set_items(self, model: Model, new_items: "NewItems | None") -> None:
        super()._set_items(model, new_items)
        if model.n_items != len(self._search.lists.rows) + len(self._search.side):
            self._search = CandidateSearch(model, self._search.lists)

    def _moments_of_prior(self, known: Moments | None = None) -> Moments:
        return NO_MOMENTS

    @property
    def means(self) -> AnyFloatArray:
        """The expected reward of every item, (users, items), computed anew."""
        own = expected_from(self._mixture, self._z_of(self.belief_means))
        return own if self._offsets is None else own + self._offsets

    @property
    def variances(self) -> AnyFloatArray:
        """The variance of that expectation, (users, items), computed anew."""
        z = tuple(each[0] for each in self._z_of(self.belief_means))
        return variances_from(self._mixture, z, self._z_variances_of(self.belief_covs[0]))[None]

    def means_at(self, rows: IntArray) -> AnyFloatArray:
        """Return the expected rewards of some items, (1, n), for `rows` (n,) or (1, n)."""
        return self._means_for(self.belief_means[0], np.ravel(rows))[None]

    def variances_at(self, rows: IntArray) -> AnyFloatArray:
        """Return the variances of some items, (rows,)."""
        z = tuple(each[0] for each in self._z_of(self.belief_means, rows))
        return variances_from(self._mixture, z, self._z_variances_of(self.belief_covs[0], rows))

    def describe(
        self, rows: IntArray, scores: AnyFloatArray, available: BoolArray, among: IntArray | None = None
    ) -> Selection:
        """Return what is believed of some items; ranks are those among what was scored, or among candidates."""
        others = self._candidates(None, 0.0, len(rows), available) if among is None else among
        means = self._means_for(self.belief_means[0], np.concatenate([rows, np.setdiff1d(others, rows)]))
        own = means[: len(rows)]
        above = backend.loops.count_above(means, np.ones(len(means), dtype=np.bool_), own)
        return described(rows, scores, own, np.sqrt(self.variances_at(rows)), above)

    def candidate_scores(
        self,
        available: BoolArray,
        nu: float,
        k: int,
        *,
        draw: FloatArray | None,
        boosts: Float32Array | None,
        also: IntArray | None,
    ) -> tuple[IntArray, AnyFloatArray]:
        """Return rows, in order, and scores of candidates for the `k` best by mean + nu sqrt(variance), and of `also`.

        With a `draw` of the user's vector they are scored by its expected rewards.
        """
        if boosts is None:
            rows = self._candidates(draw, nu, k, available)
        else:  # among what is raised, lowered and left alone
            groups = [available & (np.sign(boosts) == sign) for sign in (1, 0, -1)]
            found = [self._candidates(draw, nu, min(k, n), own) for own in groups if (n := int(np.count_nonzero(own)))]
            rows = np.concatenate(found)
        if also is not None:
            rows = np.union1d(rows, also)
        scores = self._means_for(self.belief_means[0] if draw is None else draw, rows)
        if nu:
            scores = scores + nu * np.sqrt(self.variances_at(rows))
        return rows, scores if boosts is None else scores + boosts[rows]

    def ranks_in_draws(self, draws: FloatArray, rows: IntArray, available: BoolArray) -> IntArray:
        """Return the ranks of some items under draws of the only user (n, d), among the candidates, (n, rows)."""
        found = np.empty((len(draws), len(rows)), dtype=np.int64)
        size = min(len(rows) + AMONG - 1, int(np.count_nonzero(available)))
        for number, draw in enumerate(draws):
            others = self._candidates(draw, 0.0, size, available)
            everything = self._means_for(draw, np.concatenate([rows, np.setdiff1d(others, rows)]))
            found[number] = 1 + (everything > everything[: len(rows), None]).sum(axis=1)
        return found

    def tracked_z(self, number: int) -> None:
        """Return None: nothing is kept up to date."""

    def _candidates(self, draw: FloatArray | None, nu: float, k: int, available: BoolArray) -> IntArray:
        if self._offsets is not None:
            return np.flatnonzero(available)
        belief = Belief(self.belief_means[0] if draw is None else draw, self.belief_covs[0])
        return self._search.candidates(belief, nu, k, available)

    def _means_for(self, user: FloatArray, rows: IntArray) -> AnyFloatArray:
        """Expected rewards of some items for a user's vector, with the user's offset, (rows,)."""
        own: AnyFloatArray = expected_from(self._mixture, self._z_of(user[None], rows))[0]
        return own if self._offsets is None else own + self._offsets[0, rows]


def build_lists(model: Model, *, seed: int = 0) -> ItemLists:
    """Put the items of a model into about 4 sqrt(items) lists; items added to the model are left out.

    Two items are near where people of the population differ little in how much more they like the one than the other:
    vectors are compared after multiplication with the root of the users' second moments, channel by channel, each
    weighted by how much it matters to the expected reward of the best items.
    """
    n = model.n_trained
    if not n:
        raise ConfigError("the model has no items but those added to it; an index needs items that were trained")
    vectors = [model.channels[number].vectors[:n] for number in model.scored]
    points = np.concatenate([own @ part for own, part in zip(vectors, _metric(model), strict=True)], axis=1)
    n_lists = max(1, min(int(LISTS_PER_ROOT * np.sqrt(n)), n))
    lists = _clustered(points, n_lists, np.random.default_rng(seed))
    rows = np.argsort(lists, kind="stable")
    starts = np.searchsorted(lists[rows], np.arange(lists.max() + 2))

    squares = np.square(points - _centres(points, lists)[lists]).sum(axis=1)[rows]
    typical = max(float(squares.mean()), float(np.finfo(np.float32).tiny))
    spread = np.sqrt(np.add.reduceat(squares, starts[:-1]) / np.diff(starts) / typical)
    channels = []
    for own in vectors:
        centres = _centres(own, lists)
        around = own - centres[lists]
        within = np.asarray(around.T @ around, dtype=np.float64) / n
        channels.append(ChannelLists(np.einsum("nd,nd->n", own, own)[rows], centres, within))
    return ItemLists(tuple(channels), rows, starts, spread.astype(np.float32))


def _clustered(points: Float32Array, n: int, rng: np.random.Generator) -> IntArray:
    """Return the cluster of each point, without gaps: k-means into few clusters, of each into more, then of all."""
    groups = _k_means(points, points[rng.permutation(len(points))[: round(np.sqrt(n))]], ROUNDS)
    found = np.empty(len(points), dtype=np.int64)
    n_found = 0
    for group in range(groups.max() + 1):
        own = points[groups == group]
        size = max(1, round(n * len(own) / len(points)))
        found[groups == group] = n_found + _k_means(own, own[rng.permutation(len(own))[:size]], ROUNDS)
        n_found = int(found.max(where=groups == group, initial=0)) + 1
    return _k_means(points, _centres(points, found), 1)


def _k_means(points: Float32Array, centres: Float32Array, rounds: int) -> IntArray:
    """Return the cluster of each point, without gaps, by Lloyd's algorithm."""
    for number in range(rounds):
        own = np.unique(_nearest(points, centres), return_inverse=True)[1]
        centres = centres if number == rounds - 1 else _centres(points, own)
    return own


def _centres(points: Float32Array, own: IntArray) -> Float32Array:
    """Return the mean of the points of each cluster."""
    order = np.argsort(own, kind="stable")
    sizes = np.bincount(own)
    sums = np.add.reduceat(points[order], np.cumsum(sizes) - sizes, axis=0, dtype=np.float64)
    return np.asarray(sums / sizes[:, None], dtype=np.float32)


def _nearest(points: Float32Array, centres: Float32Array) -> IntArray:
    half = 0.5 * np.square(centres).sum(axis=1)
    parts = np.array_split(points, -(-points.size // 2**22))
    return np.concatenate([(part @ centres.T - half).argmax(axis=1) for part in parts])


def _metric(model: Model) -> list[Float32Array]:
    """What each scored channel's vectors are multiplied with before they are compared, shapes (d, d)."""
    channels = {number: model.channels[number] for number in model.scored}
    z = {number: channel.vectors @ model.prior_mean[channel.span] for number, channel in channels.items()}
    active = activations(model.channels, z)
    top = np.argsort(-expectation(model.terms, active), kind="stable")[:TOP]
    slopes = gradients(model.channels, model.terms, {number: own[top] for number, own in active.items()})
    found = []
    for number, channel in channels.items():
        mean = model.prior_mean[channel.span]
        size, axes = np.linalg.eigh(model.prior_cov[channel.span, channel.span] + np.outer(mean, mean))
        weight = float(np.sqrt(np.mean(np.square(slopes[number]))))
        found.append((weight * axes * np.sqrt(np.maximum(size, 0.0))).astype(np.float32))
    return found
