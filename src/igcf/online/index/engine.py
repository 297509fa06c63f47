"""A scoring engine that keeps the belief about a user and nothing per item: scores are computed for candidates."""

from typing import TYPE_CHECKING

import numpy as np

from igcf.arrays import AnyFloatArray, BoolArray, Float32Array, FloatArray, IntArray
from igcf.model import Model
from igcf.online import backend
from igcf.online.backend.numpy_items import described
from igcf.online.backend.types import Arrays, Moments, Selection
from igcf.online.belief import Belief
from igcf.online.engine import NO_MOMENTS, ScoringEngine
from igcf.online.exploration import AMONG
from igcf.online.index.lists import CandidateSearch, ItemLists

if TYPE_CHECKING:
    from igcf.online.new_items.update import NewItems


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
        z = self._z_of(self.belief_means)
        own = z[0] if self.model.is_linear else backend.loops.expected_rewards(self._mixture, z)
        return own if self._offsets is None else own + self._offsets

    @property
    def variances(self) -> AnyFloatArray:
        """The variance of that expectation, (users, items), computed anew."""
        return self._variances_from(tuple(z[0] for z in self._z_of(self.belief_means)), None)[None]

    def means_at(self, rows: IntArray) -> AnyFloatArray:
        """Return the expected rewards of some items, (1, n), for `rows` (n,) or (1, n)."""
        return self._means_for(self.belief_means[0], np.ravel(rows))[None]

    def variances_at(self, rows: IntArray) -> AnyFloatArray:
        """Return the variances of some items, (rows,)."""
        return self._variances_from(self._z_at(self.belief_means[0], rows), rows)

    def describe(
        self, rows: IntArray, scores: AnyFloatArray, available: BoolArray, among: IntArray | None = None
    ) -> Selection:
        """Return the belief about some items; ranks are among the scored items, or the candidates."""
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
        else:
            rows = self._boosted(draw, nu, k, available, boosts)
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
        """Return None: this engine updates no moments."""

    def _candidates(self, draw: FloatArray | None, nu: float, k: int, available: BoolArray) -> IntArray:
        if self._offsets is not None:
            return np.flatnonzero(available)
        belief = Belief(self.belief_means[0] if draw is None else draw, self.belief_covs[0])
        return self._search.candidates(belief, nu, k, available)

    def _boosted(
        self, draw: FloatArray | None, nu: float, k: int, available: BoolArray, boosts: Float32Array
    ) -> IntArray:
        """Candidates where some items are boosted: those among what is raised, lowered and left alone."""
        groups = [available & (np.sign(boosts) == sign) for sign in (1, 0, -1)]
        found = [self._candidates(draw, nu, min(k, n), own) for own in groups if (n := int(np.count_nonzero(own)))]
        return np.concatenate(found)

    def _z_at(self, user: FloatArray, rows: IntArray) -> Arrays:
        pairs = zip(self._items, self._spans, strict=True)
        return tuple(backend.loops.multiply(items[rows], user[span].astype(items.dtype)) for items, span in pairs)

    def _means_for(self, user: FloatArray, rows: IntArray) -> AnyFloatArray:
        """Expected rewards of some items for a user's vector, with the user's offset, (rows,)."""
        own = self._expected(user, rows)
        return own if self._offsets is None else own + self._offsets[0, rows]

    def _expected(self, user: FloatArray, rows: IntArray) -> AnyFloatArray:
        z = self._z_at(user, rows)
        return z[0] if self.model.is_linear else backend.loops.expected_rewards(self._mixture, z)

    def _variances_from(self, z: Arrays, rows: IntArray | None) -> AnyFloatArray:
        variances = self._z_variances_of(self.belief_covs[0], rows)
        if self.model.is_linear:
            return np.asarray(variances[0])
        return backend.loops.reward_variances(self._mixture, z, variances)
