"""What is expected of all items for the users of a `TrackedUsers`, how sure that is, and which items are best."""

from collections.abc import Sequence

import numpy as np

from igcf.arrays import AnyFloatArray, BoolArray, FloatArray, IntArray
from igcf.online import backend
from igcf.online.backend import Arrays, Bounds, MakeRng, Query, RuleArrays, Selection
from igcf.online.state import Stale
from igcf.online.tracking import TrackedUsers


class ScoringEngine(TrackedUsers):
    """Users in lock-step, and the scores of all items for them; the arguments are those of `TrackedUsers`."""

    @property
    def means(self) -> AnyFloatArray:
        """The expected reward of every item, (users, items); not to be written to."""
        if self._means is None:
            z = self._z()
            own = z[0] if self.model.is_linear else backend.loops.expected_rewards(self._mixture, z)
            self._means = own if self._offsets is None else own + self._offsets
        return self._means

    @property
    def offsets(self) -> AnyFloatArray | None:
        """What is added to the expected reward beside the beliefs, (users, items); None: nothing for anybody."""
        return self._offsets

    @property
    def variances(self) -> AnyFloatArray:
        """The variance of that expectation, (users, items), to first order; not to be written to."""
        if self._variances is None:
            z, variances = self._up_to_date().moments
            is_linear = self.model.is_linear
            self._variances = variances[0] if is_linear else backend.loops.reward_variances(self._mixture, z, variances)
        return self._variances

    def variances_at(self, rows: IntArray) -> AnyFloatArray:
        """`variances` of the only user at some items; in the stale state they are computed for these items alone."""
        if self._variances is not None:
            return np.asarray(self._variances[0, rows])
        if isinstance(self._state, Stale):
            variances = self._z_variances_of(self.belief_covs[0], rows)
        else:
            variances = tuple(each[0, rows] for each in self._state.moments.variances)
        if self.model.is_linear:
            return np.asarray(variances[0])
        return backend.loops.reward_variances(self._mixture, tuple(z[0, rows] for z in self._z()), variances)

    def means_at(self, rows: IntArray) -> AnyFloatArray:
        """`means` of all users at some items, (users, n), for `rows` (n,) or one row of them per user, (users, n)."""
        return self.means[:, rows] if rows.ndim == 1 else np.take_along_axis(self.means, rows, axis=1)

    def describe(self, rows: IntArray, scores: Sequence[float] | AnyFloatArray, available: BoolArray) -> Selection:
        """Tell what is believed of some items of the only user, beside all that are available (items,)."""
        return backend.loops.describe(rows, np.asarray(scores), self.variances_at(rows), self.means[0], available)

    def best_under(self, draws: FloatArray, rows: IntArray, available: BoolArray) -> BoolArray:
        """Return under which draws of the only user (n, d) each of some items is among as many best ones, (n, rows)."""
        scores = self.model.expected(draws)
        if self._offsets is not None:
            scores = scores + self._offsets[0]
        last_in = np.partition(scores[:, available], -len(rows), axis=1)[:, -len(rows)]
        return np.asarray(scores[:, rows] >= last_in[:, None])

    def tracked_z(self, number: int) -> tuple[AnyFloatArray, AnyFloatArray] | None:
        """Means and variances of a channel's z of all items, for the first user, where they are kept up to date."""
        if isinstance(self._state, Stale) or number not in self.model.scored:
            return None
        place, (z, variances) = self.model.scored.index(number), self._state.first_user
        return z[place], variances[place]

    def z_moments_at(self, number: int, rows: IntArray) -> tuple[AnyFloatArray, AnyFloatArray]:
        """Mean and variance of a channel's z for the only user at some items; computed from the belief where stale."""
        tracked = self.tracked_z(number)
        if tracked is not None:
            return tracked[0][rows], tracked[1][rows]
        channel = self.model.channels[number]
        mean, cov = self.belief_means[0, channel.span], self.belief_covs[0][channel.span, channel.span]
        return backend.loops.moments_at(channel.vectors, rows, mean, cov)

    def select(
        self, available: BoolArray, nu: float, k: int, *, make_rng: MakeRng, rules: RuleArrays | None = None
    ) -> Selection:
        """Select the `k` best available items of the only user by mean + nu sqrt(variance), nu > 0 (eq:UCB2).

        After a belief was set, few variances are computed: those of the prior bound them, unless the belief is wider.
        """
        query, state = Query(available, k, nu, make_rng, rules), self._state
        if isinstance(state, Stale) or self._offsets is not None:
            return self._select_by(self.means[0], query)
        moments = state.first_user
        if self.model.is_linear:
            return backend.loops.select_scored(moments.z[0], moments.variances[0], query)
        selection, means = backend.loops.select_tracked(self._mixture, moments, query)
        self._means = means[None]
        return selection

    def _select_by(self, means: AnyFloatArray, query: Query) -> Selection:
        """Select by these means, of shape (items,), and the variances of the only user."""
        if isinstance(self._state, Stale) and (self._tighter_bounds is not None or self._has_bounds()):
            covs = tuple(self.belief_covs[0][span, span] for span in self._spans)
            z = tuple(each[0] for each in self._z())
            bounds = self._tighter_bounds or self._prior_moments.variances
            return backend.loops.select_bounded(self._mixture, Bounds(self._items, covs, z, bounds, means), query)
        return backend.loops.select_scored(means, self.variances[0], query)

    def _has_bounds(self) -> bool:
        """Whether the belief that was set is no wider than the prior, which is found out when it is first needed."""
        if self._is_within_prior is None:
            self._is_within_prior = self.belief().is_within(self.prior)
        return self._is_within_prior

    def bound_variances(self, bounds: Arrays | None) -> None:
        """Tell what the variances of z of the only user do not exceed, arrays of shape (items,) per scored channel.

        Fewer variances are then computed for the next answers than with those of the prior as bounds, and whether the
        belief is within the prior does not matter.
        """
        self._tighter_bounds = bounds

    def item_uncertainty(self, draws: FloatArray | None = None) -> FloatArray:
        """Return what the variance of a score gains from what is unknown of the items themselves, (users, items).

        For independent e_i ~ N(x_i, diag s_i) and user ~ N(m, S) it is m' diag(s_i) m + trace(diag(s_i) S); items that
        are learned while users are met say it themselves. `draws`, (users, d), stand for users without doubt.
        """
        users = self.belief_means if draws is None else draws
        second_moment = users**2
        if draws is None:
            second_moment = second_moment + np.einsum("bdd->bd", self.belief_covs)
        result = np.asarray(second_moment @ self.model.item_variances.T)
        if self.unsettled is not None:
            rows, stds = self.unsettled(users)
            result[:, rows] += stds**2
        return result
