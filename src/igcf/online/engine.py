"""Means and variances of all items, for one user or many at once, kept up to date in O(items x d) per reaction."""

from typing import Any

import numpy as np
import numpy.typing as npt

from igcf.arrays import AnyFloatArray, FloatArray, IntArray
from igcf.model import Channel, Model
from igcf.model.channel import expectation, gradients
from igcf.online.belief import Belief, gaussian_step, logistic_step

RESYNC_EVERY = 100
"""Updates after which means and variances are computed anew from the belief, so that rounding cannot pile up."""
CHUNK = 1_024
"""Items per block when all variances are computed: the product stays in the cache."""
USERS = 32
"""Users per block when covariances are updated, for the same reason."""


class ScoringEngine:
    """The state of `n_users` users in lock-step: beliefs (float64) and, for every item, mean and variance (`dtype`).

    After a reward on item j (reference: eq:update_dis carried over to every item):

        w = cov x_j;  c = E w;  den = noise_j + x_j . w;  g = (reward - x_j . mean) / den
        item means += g c;  item variances -= c * c / den;  mean += g w;  cov -= w w' / den

    A model of several channels keeps such means and variances of z for every channel that its expected reward depends
    on; `means` and `variances` put them together.

    Args:
        model: what is scored.
        n_users: users in lock-step.
        dtype: of the item matrices, means and variances: float32 is fast, float64 is exact to rounding.
        tracks_variances: False where variances are hardly ever asked for: means are then computed from the belief when
            they are asked for, and variances too, which is slow.
    """

    def __init__(
        self,
        model: Model,
        n_users: int = 1,
        *,
        dtype: npt.DTypeLike = np.float32,
        tracks_variances: bool = True,
    ) -> None:
        self.model = model
        self.tracks_variances = tracks_variances
        self.prior = Belief(model.prior_mean, model.prior_cov)
        self._items: dict[int, AnyFloatArray] = {
            number: np.ascontiguousarray(model.channels[number].vectors, dtype=dtype) for number in model.scored
        }
        self._prior_z = {n: self._products(n, model.prior_mean[None]) for n in model.scored}
        self._prior_variances = {n: self._all_variances(n, model.prior_cov) for n in model.scored}
        self._begin(n_users)

    def _begin(self, n_users: int) -> None:
        self.n_users = n_users
        self.belief_means: FloatArray = np.repeat(self.prior.mean[None], n_users, axis=0)
        self.belief_covs: FloatArray = np.repeat(self.prior.cov[None], n_users, axis=0)
        self._z: dict[int, Any] = {n: np.repeat(z, n_users, axis=0) for n, z in self._prior_z.items()}
        self._z_variances = {n: np.repeat(v[None], n_users, axis=0) for n, v in self._prior_variances.items()}
        self._forget_sums()
        self._is_behind = False
        self._updates = 0

    def _forget_sums(self) -> None:
        self._combined_means: AnyFloatArray | None = None
        self._combined_variances: AnyFloatArray | None = None

    def fresh(self, n_users: int = 1) -> "ScoringEngine":
        """A new engine at the prior that shares the item matrices and the prior's moments with this one."""
        other = object.__new__(ScoringEngine)
        other.model, other.prior, other._items = self.model, self.prior, self._items
        other.tracks_variances = self.tracks_variances
        other._prior_z, other._prior_variances = self._prior_z, self._prior_variances
        other._begin(n_users)
        return other

    @property
    def means(self) -> AnyFloatArray:
        """The expected reward of every item, (users, items); not to be written to."""
        if self._combined_means is None:
            if self._is_behind:
                self._compute_z()
            linear = self.model.is_linear
            self._combined_means = self._z[0] if linear else expectation(self.model.channels, self.model.terms, self._z)
        return self._combined_means

    @property
    def variances(self) -> AnyFloatArray:
        """The variance of that expectation, (users, items); not to be written to.

        To first order where the model is not linear: channels that share a block of the user's vector are taken as
        moving together, which never understates.
        """
        if self._combined_variances is None:
            if self._is_behind:
                self.resync()
            self._combined_variances = self._z_variances[0] if self.model.is_linear else self._spread()
        return self._combined_variances

    def _spread(self) -> FloatArray:
        spread: dict[int, FloatArray] = {}
        for number, slope in gradients(self.model.channels, self.model.terms, self._z).items():
            block = self.model.channels[number].start
            part = np.abs(slope) * np.sqrt(self._z_variances[number])
            spread[block] = spread[block] + part if block in spread else part
        return np.asarray(np.sum([part**2 for part in spread.values()], axis=0))

    def belief(self, user: int = 0) -> Belief:
        """A copy of the belief about one user."""
        return Belief(self.belief_means[user].copy(), self.belief_covs[user].copy())

    def set_belief(self, belief: Belief, user: int = 0) -> None:
        """Take over a belief computed elsewhere, for instance from a stored history."""
        self._forget_sums()
        self.belief_means[user], self.belief_covs[user] = belief.mean, belief.cov
        if not self.tracks_variances:
            self._is_behind = True
            return
        for number in self.model.scored:
            self._z[number][user] = self._products(number, belief.mean[None])[0]
            self._z_variances[number][user] = self._all_variances(number, belief.cov)

    def observe(self, rows: IntArray, values: npt.ArrayLike) -> None:
        """Learn from one reaction per user, `rows` and `values` (users,), or from slates of them (users, k).

        Values are in the units of the log; NaN is an item that was shown without a reaction.
        """
        self._forget_sums()
        rows = np.asarray(rows).reshape(self.n_users, -1)
        numbers = np.asarray(values, dtype=np.float64).reshape(self.n_users, -1)
        for slot in range(rows.shape[1]):
            for channel in self.model.channels:
                self._learn(channel, rows[:, slot], channel.reward.of(numbers[:, slot]))
        self._updates += rows.shape[1] * len(self.model.channels)
        if not self.tracks_variances:
            self._is_behind = True
        elif self._updates >= RESYNC_EVERY:
            self.resync()

    def forget(self, keep: float) -> None:
        """Let every user's evidence decay toward the population by the factor `keep`."""
        if keep < 1.0:
            for user in range(self.n_users):
                self.set_belief(self.belief(user).decayed(self.prior, keep), user)

    def resync(self) -> None:
        """Compute all means and variances anew from the beliefs."""
        self._forget_sums()
        self._compute_z()
        for number in self.model.scored:
            for user in range(self.n_users):
                self._z_variances[number][user] = self._all_variances(number, self.belief_covs[user])

    def _compute_z(self) -> None:
        self._updates = 0
        self._is_behind = False
        for number in self.model.scored:
            self._z[number] = self._products(number, self.belief_means)

    def item_uncertainty(self) -> FloatArray:
        """What the items' own variances s_i add to the variance of a score, (users, items).

        For independent e_i ~ N(x_i, diag s_i) and user ~ N(m, S) it is m' diag(s_i) m + trace(diag(s_i) S).
        """
        second_moment = self.belief_means**2 + np.einsum("bdd->bd", self.belief_covs)
        return np.asarray(second_moment @ self.model.item_variances.T)

    def _learn(self, channel: Channel, rows: IntArray, reward: FloatArray) -> None:
        """Update the block of the user's vector that this channel speaks of, and everything that is scored by it."""
        span = channel.span
        x = channel.vectors[rows].astype(np.float64)
        mean, cov = self.belief_means[:, span], self.belief_covs[:, span, span]
        w = np.matmul(cov, x[:, :, None])[:, :, 0]
        z, q = np.einsum("bd,bd->b", x, mean), np.einsum("bd,bd->b", x, w)
        step = gaussian_step if channel.link == "identity" else logistic_step
        shift, shrink = step(z, q, reward, channel.noise_var[rows])
        mean += shift[:, None] * w
        root = np.sqrt(shrink)
        w *= root[:, None]  # its square is then what the covariance loses
        for start in range(0, self.n_users, USERS):
            part = w[start : start + USERS]
            cov[start : start + USERS] -= part[:, :, None] * part[:, None, :]
        step_in_w = np.divide(shift, root, out=np.zeros_like(shift), where=root > 0)
        for number in self.model.scored if self.tracks_variances else ():
            if self.model.channels[number].start == channel.start:
                self._carry_over(number, w, step_in_w)

    def _carry_over(self, number: int, w: FloatArray, shift: FloatArray) -> None:
        c = self._products(number, w)
        self._z[number] += c * shift[:, None].astype(c.dtype)
        c *= c
        variances = self._z_variances[number]
        variances -= c
        if variances.min() < 0:  # rounding; looking is cheaper than clipping every time
            np.maximum(variances, 0.0, out=variances)

    def _products(self, number: int, user: FloatArray) -> AnyFloatArray:
        """A channel's item vectors times user vectors, whole (users, d) or its block of them, (users, items)."""
        items, channel = self._items[number], self.model.channels[number]
        block = user if user.shape[1] == items.shape[1] else user[:, channel.span]
        block = block.astype(items.dtype)
        if len(block) == 1:  # a matrix-vector product reads the items once, in order
            return np.asarray(items @ block[0])[None]
        return np.asarray(block @ items.T)

    def _all_variances(self, number: int, cov: FloatArray) -> AnyFloatArray:
        items, span = self._items[number], self.model.channels[number].span
        block_cov = cov[span, span].astype(items.dtype)
        variances = np.empty(len(items), dtype=items.dtype)
        for start in range(0, len(items), CHUNK):
            part = items[start : start + CHUNK]
            variances[start : start + CHUNK] = np.einsum("nd,nd->n", part @ block_cov, part)
        return np.asarray(np.maximum(variances, 0.0, out=variances))
