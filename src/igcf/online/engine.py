"""What is expected of all items for the users of a `TrackedUsers`, how sure that is, and which items are best."""

import numpy as np

from igcf.arrays import AnyFloatArray, BoolArray, FloatArray, IntArray
from igcf.online import backend
from igcf.online.backend.numpy_items import described
from igcf.online.backend.types import Selection
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

    def describe(
        self, rows: IntArray, scores: AnyFloatArray, available: BoolArray, among: IntArray | None = None
    ) -> Selection:
        """Return what is believed of some items of the only user, beside all that are available (items,).

        `among` are the rows that were scored, where these are not all: ranks by the mean are those among them.
        """
        means = self.means[0]
        own = means[rows]
        above = backend.loops.count_above(means, available, own)
        return described(rows, scores, own, np.sqrt(self.variances_at(rows)), above)

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

    def item_uncertainty(self, draws: FloatArray | None = None) -> FloatArray:
        """Return what the variance of a score gains from what is unknown of the items themselves, (users, items).

        For independent e_i ~ N(x_i, diag s_i) and user ~ N(m, S) it is m' diag(s_i) m + trace(diag(s_i) S); items that
        were added to the model have an uncertainty of their own. `draws`, (users, d), stand for users without doubt.
        """
        users = self.belief_means if draws is None else draws
        second_moment = users**2
        if draws is None:
            second_moment = second_moment + np.einsum("bdd->bd", self.belief_covs)
        result = np.asarray(second_moment @ self.model.item_variances.T)
        if self.new_items is not None:
            result[:, self.new_items.rows] += self.new_items.uncertainty(users) ** 2
        return result
