"""An inverted file of the items: lists of items that people like alike, and which of them to look into for a user.

An item's score is f(z) + nu std, z being the products of its vectors with the user's, one per scored channel. A list is
judged by what its best item may score: the expected reward of its centre, plus what its items differ by and what is
not known of the user, both taken as deviations of z. All items of the best lists then get their expected rewards.
"""

from dataclasses import dataclass

import numpy as np

from igcf.arrays import AnyFloatArray, BoolArray, Float32Array, FloatArray, IntArray
from igcf.errors import ModelError
from igcf.model import Model
from igcf.online import backend
from igcf.online.backend import Arrays, Mixture
from igcf.online.belief import Belief

LISTS_ASKED = 32
"""Lists that are looked into at first; then four times as many, as long as too few of their items are available."""
CANDIDATES = 400
"""Items that are scored exactly: the best of these lists by expected reward and the deviation typical of a list."""
FEW = 0.02
"""Share of the items that are available up to which all of those are candidates."""
TINY = np.float32(1e-12)
TAIL = 3.0
"""Deviations by which the best item of a list is taken to exceed its centre, like the best of some hundred numbers."""


@dataclass(frozen=True, eq=False)
class ItemLists:
    """Items in lists: plain arrays, of which the two large ones may be mapped from files."""

    vectors: Float32Array
    """Vectors of the scored channels side by side, list by list, shape (items, width)."""
    lengths: Float32Array
    """Squared lengths of each channel's vectors, list by list, shape (channels, items)."""
    rows: IntArray
    """Rows of these items in the model, shape (items,)."""
    starts: IntArray
    """Where each list begins, and the end of the last one, shape (lists + 1,)."""
    centres: Float32Array
    """Mean of each list's vectors, shape (lists, width)."""
    spread: Float32Array
    """How far a list's items lie from its centre, beside all lists, shape (lists,)."""
    within: FloatArray
    """Covariance of the vectors around the centres of their lists, shape (width, width)."""

    @property
    def n_lists(self) -> int:
        """Number of lists."""
        return len(self.centres)

    def check(self, model: Model) -> None:
        """Refuse a model that these lists are not of: other vectors, or other items beside those added later."""
        width = sum(model.channels[number].vectors.shape[1] for number in model.scored)
        n_trained = model.n_items - len(model.added)
        if self.vectors.shape != (n_trained, width):
            raise ModelError(
                f"the index has {len(self.vectors)} items of {self.vectors.shape[1]} numbers, the model {n_trained} of "
                f"{width}; build it again with `igcf index`"
            )


class CandidateSearch:
    """The lists of a model, and what of the model a search needs."""

    def __init__(self, model: Model, lists: ItemLists) -> None:
        lists.check(model)
        self.lists = lists
        self.side = model.added
        """Rows that are in no list and always candidates: items that joined the model, whose vectors still move."""
        self._n_few = FEW * model.n_items
        self._mixture = Mixture.from_model(model)
        channels = [model.channels[number] for number in model.scored]
        self._of_user = tuple(channel.span for channel in channels)
        ends = np.cumsum([channel.vectors.shape[1] for channel in channels]).tolist()
        self._spans = tuple(slice(first, last) for first, last in zip([0, *ends[:-1]], ends, strict=True))
        self._within = tuple(lists.within[span, span] for span in self._spans)
        self._tails = np.square(TAIL * lists.spread)
        squares, spread = lists.centres**2, np.square(lists.spread)
        self._lengths = tuple(
            squares[:, span].sum(axis=1) + spread * np.float32(np.trace(within)) + TINY
            for span, within in zip(self._spans, self._within, strict=True)
        )
        """Mean squared length of a channel's vectors in each list, shape (lists,)."""

    def candidates(self, belief: Belief, nu: float, k: int, available: BoolArray) -> IntArray:
        """Return rows of available items, among which the best `k` by mean + nu sqrt(variance) are to be looked for.

        `available` has shape (items,). Where it leaves few items, or where the lists hold too few of them, these are
        all that are available.
        """
        lists, wanted = self.lists, max(CANDIDATES, 4 * k)
        if np.count_nonzero(available) <= max(wanted, self._n_few):
            return np.flatnonzero(available)
        users, worth = self._users(belief.mean), None
        n_asked, enough = LISTS_ASKED, max(wanted, LISTS_ASKED * len(lists.rows) // lists.n_lists // 4)
        while n_asked < lists.n_lists:
            if worth is None:
                worth = self._worth(users, belief, nu)
            asked = np.sort(np.argpartition(-worth, n_asked)[:n_asked])
            rows, scores = self._scored(users, belief, nu, asked)
            is_open = available[rows]
            rows, scores = rows[is_open], scores[is_open]
            if len(rows) >= enough:
                best = np.argpartition(-scores, wanted)[:wanted] if len(rows) > wanted else slice(None)
                return np.concatenate([rows[best], self.side[available[self.side]]])
            n_asked *= 4
        return np.flatnonzero(available)

    def _users(self, mean: FloatArray) -> Float32Array:
        """The user's vector as it meets each scored channel, zero elsewhere, shape (channels, width)."""
        users = np.zeros((len(self._spans), self.lists.centres.shape[1]), dtype=np.float32)
        for place, (span, own) in enumerate(zip(self._spans, self._of_user, strict=True)):
            users[place, span] = mean[own]
        return users

    def _worth(self, users: Float32Array, belief: Belief, nu: float) -> AnyFloatArray:
        """What the best item of each list may be expected to score, shape (lists,)."""
        z, tails, unknown = tuple(users @ self.lists.centres.T), [], []
        for place, (span, own) in enumerate(zip(self._spans, self._of_user, strict=True)):
            user = users[place, span]
            tails.append(self._tails * np.float32(user @ self._within[place] @ user))
            typical = nu**2 * float(np.trace(belief.cov[own, own])) / len(user)
            unknown.append(np.float32(typical) * self._lengths[place])
        worth = self._expected(z) + self._deviations(z, tuple(tails))
        return worth + self._deviations(z, tuple(unknown)) if nu else worth

    def _scored(
        self, users: Float32Array, belief: Belief, nu: float, asked: IntArray
    ) -> tuple[IntArray, AnyFloatArray]:
        """Rows of all items of some lists and, roughly, their scores."""
        lists = self.lists
        parts = [slice(*lists.starts[each : each + 2].tolist()) for each in asked.tolist()]
        sizes = [part.stop - part.start for part in parts]
        z = np.empty((len(users), sum(sizes)), dtype=np.float32)
        first = 0
        for part, size in zip(parts, sizes, strict=True):
            np.matmul(users, lists.vectors[part].T, out=z[:, first : first + size])
            first += size
        rows = np.concatenate([lists.rows[part] for part in parts])
        own_z = tuple(z)
        if not nu:
            return rows, self._expected(own_z)
        lengths = np.concatenate([lists.lengths[:, part] for part in parts], axis=1)
        for place, own in enumerate(lengths):
            own *= np.repeat(nu**2 * self._relative_variances(place, belief, asked), sizes)
        return rows, self._expected(own_z) + self._deviations(own_z, tuple(lengths))

    def _relative_variances(self, place: int, belief: Belief, asked: IntArray) -> Float32Array:
        """Mean variance of a channel's z in each list, beside the mean squared length of its vectors there."""
        own, centres = self._of_user[place], self.lists.centres[asked, self._spans[place]]
        cov = belief.cov[own, own]
        variances = np.einsum("nd,nd->n", centres @ cov.astype(np.float32), centres)
        variances += np.square(self.lists.spread[asked]) * np.float32((cov * self._within[place]).sum())
        return variances / self._lengths[place][asked]

    def _expected(self, z: Arrays) -> AnyFloatArray:
        """Expected rewards from the z of all scored channels."""
        return z[0] if self._mixture.model.is_linear else backend.loops.expected_rewards(self._mixture, z)

    def _deviations(self, z: Arrays, variances: Arrays) -> AnyFloatArray:
        """Standard deviations of the expected rewards from variances of z."""
        is_linear = self._mixture.model.is_linear
        own = variances[0] if is_linear else backend.loops.reward_variances(self._mixture, z, variances)
        return np.sqrt(np.maximum(own, 0.0))
