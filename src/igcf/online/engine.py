"""Means and variances of all items, for one user or many at once, kept up to date in O(items x d) per reaction."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from igcf.arrays import AnyFloatArray, BoolArray, FloatArray, IntArray
from igcf.model import Channel, Model
from igcf.online.belief import Belief, decay
from igcf.online.choosing import choose_by_bounds
from igcf.online.combining import Mixture
from igcf.online.kernels import absorb, carry_over_to_many, learn, variances_of

RESYNC_EVERY = 200
"""Reactions after which means and variances are computed anew from the belief, so that rounding cannot pile up."""
CATCH_UP = 8
"""Reactions after a belief was set until all variances are computed: about as much work as doing without them."""


class _Block(NamedTuple):
    """A part of the user's vector that is learned apart from the others."""

    start: int
    channels: tuple[Channel, ...]
    """Those that speak of it."""
    scored: tuple[int, ...]
    """Those of them that the expected reward depends on."""
    vectors: tuple[AnyFloatArray, ...]
    """Of each channel, (items, d)."""
    noise: tuple[FloatArray, ...]
    """Of each channel, (items,)."""
    is_logit: BoolArray
    """(channels,)"""
    items: tuple[AnyFloatArray, ...]
    """Of each scored channel, (items, d), in the precision of the engine."""


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
        self._mixture = Mixture.of(model)
        self._blocks = [_block(model, span.start, numbers, self._items) for span, numbers in model.blocks]
        self._prior_z = {n: self._products(n, model.prior_mean[None])[0] for n in model.scored}
        self._prior_variances = {n: self._variances_of(n, model.prior_cov) for n in model.scored}
        for shared in (*self._prior_z.values(), *self._prior_variances.values()):
            shared.setflags(write=False)
        self._begin(n_users)

    def _begin(self, n_users: int) -> None:
        self.n_users = n_users
        self.belief_means: FloatArray = _for_all(self.prior.mean, n_users)
        self.belief_covs: FloatArray = _for_all(self.prior.cov, n_users)
        self._z: dict[int, Any] = {n: _for_all(z, n_users) for n, z in self._prior_z.items()}
        self._z_variances = {n: _for_all(v, n_users) for n, v in self._prior_variances.items()}
        self._shares_prior = self._is_at_prior = self._has_z = self._has_variances = True
        self._updates = self._updates_behind = 0
        self._scratch: AnyFloatArray | None = None
        self._forget_sums()

    def _forget_sums(self) -> None:
        self._combined_means: AnyFloatArray | None = None
        self._combined_variances: AnyFloatArray | None = None

    def fresh(self, n_users: int = 1) -> "ScoringEngine":
        """A new engine at the prior that shares the item matrices and the prior's moments with this one."""
        other = object.__new__(ScoringEngine)
        other.model, other.prior, other._items, other._mixture = self.model, self.prior, self._items, self._mixture
        other._blocks = self._blocks
        other.tracks_variances = self.tracks_variances
        other._prior_z, other._prior_variances = self._prior_z, self._prior_variances
        other._begin(n_users)
        return other

    @property
    def means(self) -> AnyFloatArray:
        """The expected reward of every item, (users, items); not to be written to."""
        if self._combined_means is None:
            if not self._has_z:
                self._compute_z()
            z = [self._z[number] for number in self.model.scored]
            self._combined_means = z[0] if self.model.is_linear else self._mixture.expected(z)
        return self._combined_means

    @property
    def variances(self) -> AnyFloatArray:
        """The variance of that expectation, (users, items); not to be written to.

        To first order where the model is not linear (`igcf.online.combining.Mixture.spread`).
        """
        if self._combined_variances is None:
            if not self._has_variances:
                self.resync()
            self._combined_variances = self._spread(self._z_variances)
        return self._combined_variances

    @property
    def is_behind(self) -> bool:
        """Whether `variances` would have to be computed item by item, as after `set_belief`."""
        return not self._has_variances

    def variances_at(self, rows: IntArray) -> AnyFloatArray:
        """`variances` of the only user at some items; where the engine is behind, of these items alone."""
        if self._has_variances:
            return np.asarray(self.variances[0, rows])
        return self._spread({n: self._variances_of(n, self.belief_covs[0], rows) for n in self._items}, rows)

    def chosen_by_bounds(
        self, available: BoolArray, nu: float, k: int
    ) -> tuple[IntArray, AnyFloatArray, AnyFloatArray] | None:
        """Rows, scores and variances of the k best by mean + nu sqrt(variance) of the only user, with few variances.

        A user is known no less than the population, so its variances are bounds. None where scores are equal, or
        where nothing was compiled: all variances decide then.
        """
        scored, cov = self.model.scored, self.belief_covs[0]
        means, spans = self.means[0], [self.model.channels[number].span for number in scored]
        return choose_by_bounds(
            self._mixture.parts,
            tuple(self._items[number] for number in scored),
            tuple(cov[span, span].astype(means.dtype, order="C") for span in spans),
            tuple(self._z[number] for number in scored),
            tuple(self._prior_variances[number] for number in scored),
            means,
            available,
            nu,
            k,
        )

    def _spread(self, z_variances: Mapping[int, AnyFloatArray], rows: IntArray | None = None) -> AnyFloatArray:
        """The variance of the expected reward from those of z: of all users, or of the only one at `rows`."""
        if self.model.is_linear:
            return z_variances[0]
        if not self._has_z:
            self._compute_z()
        z = [self._z[number] if rows is None else self._z[number][0, rows] for number in self.model.scored]
        return self._mixture.spread(z, [z_variances[number] for number in self.model.scored])

    def belief(self, user: int = 0) -> Belief:
        """A copy of the belief about one user."""
        return Belief(self.belief_means[user].copy(), self.belief_covs[user].copy())

    def set_belief(self, belief: Belief, user: int = 0) -> None:
        """Take over a belief computed elsewhere, for instance from a stored history."""
        self._forget_sums()
        if self.n_users == 1:
            self.belief_means = np.array(belief.mean[None], order="C")
            self.belief_covs = np.array(belief.cov[None], order="C")
            self._shares_prior = False
        else:
            if self._shares_prior:
                self._own_beliefs()
            self.belief_means[user], self.belief_covs[user] = belief.mean, belief.cov
        self._has_z = self._has_variances = False
        self._updates_behind = 0

    def observe(self, rows: IntArray, values: npt.ArrayLike) -> None:
        """Learn from one reaction per user, `rows` and `values` (users,), or from slates of them (users, k).

        Values are in the units of the log; NaN is an item that was shown without a reaction.
        """
        rows = np.asarray(rows).reshape(self.n_users, -1)
        numbers = np.asarray(values, dtype=np.float64).reshape(self.n_users, -1)
        if self.n_users == 1:
            for row, value in zip(rows[0].tolist(), numbers[0].tolist(), strict=True):
                self.observe_one(row, value)
            return
        self._prepare_update()
        for slot in range(rows.shape[1]):
            for block in self._blocks:
                for channel in block.channels:
                    self._learn(channel, block, rows[:, slot], channel.reward.of(numbers[:, slot]))
        self._finish_update(rows.shape[1])

    def observe_one(self, row: int, value: float) -> None:
        """The same for one reaction of the only user, all that it reveals about a block of the vector at once."""
        self._prepare_update()
        for block in self._blocks:
            scored = block.scored if self._follows else ()
            learn(
                self.belief_means[0],
                self.belief_covs[0],
                block.start,
                row,
                tuple([channel.reward.of_one(value) for channel in block.channels]),
                block.vectors,
                block.noise,
                block.is_logit,
                block.items if scored else (),
                tuple([self._z[number][0] for number in scored]),
                tuple([self._z_variances[number][0] for number in scored]),
            )
        self._finish_update(1)

    def _prepare_update(self) -> None:
        self._forget_sums()
        if self._shares_prior:
            self._own_beliefs()
        if self._is_at_prior and self._follows:
            self._z = {n: np.array(z, order="C") for n, z in self._z.items()}
            self._z_variances = {n: np.array(v, order="C") for n, v in self._z_variances.items()}
            self._is_at_prior = False

    def _own_beliefs(self) -> None:
        """Until something is learned, the arrays are the prior's own."""
        self.belief_means = np.array(self.belief_means, order="C")
        self.belief_covs = np.array(self.belief_covs, order="C")
        self._shares_prior = False

    @property
    def _follows(self) -> bool:
        """Whether updates are carried over to the items' means and variances."""
        return self.tracks_variances and self._has_variances

    def _finish_update(self, n_reactions: int) -> None:
        if self._follows:
            self._updates += n_reactions
            is_due = self._updates >= RESYNC_EVERY
        else:
            self._has_z = self._has_variances = False
            self._updates_behind += n_reactions
            is_due = self.tracks_variances and self._updates_behind >= CATCH_UP
        if is_due:
            self.resync()

    def forget(self, keep: float) -> None:
        """Let every user's evidence decay toward the population by the factor `keep`."""
        if keep < 1.0:
            self._forget_sums()
            means, covs = decay(self.belief_means, self.belief_covs, self.prior, keep)
            self.belief_means, self.belief_covs = np.ascontiguousarray(means), np.ascontiguousarray(covs)
            self._shares_prior = False
            self._has_z = self._has_variances = False
            self._updates_behind = 0

    def resync(self) -> None:
        """Compute all means and variances anew from the beliefs."""
        self._forget_sums()
        self._compute_z()
        for number in self._items:
            rows = [self._variances_of(number, cov) for cov in self.belief_covs]
            self._z_variances[number] = rows[0][None] if self.n_users == 1 else np.stack(rows)
        self._has_variances = True
        self._is_at_prior = False
        self._updates = self._updates_behind = 0

    def _compute_z(self) -> None:
        self._has_z = True
        for number in self.model.scored:
            self._z[number] = self._products(number, self.belief_means)

    def item_uncertainty(self) -> FloatArray:
        """What the items' own variances s_i add to the variance of a score, (users, items).

        For independent e_i ~ N(x_i, diag s_i) and user ~ N(m, S) it is m' diag(s_i) m + trace(diag(s_i) S).
        """
        second_moment = self.belief_means**2 + np.einsum("bdd->bd", self.belief_covs)
        return np.asarray(second_moment @ self.model.item_variances.T)

    def _learn(self, channel: Channel, block: "_Block", rows: IntArray, rewards: FloatArray) -> None:
        """Update the block of all users' vectors that this channel speaks of, and everything that is scored by it."""
        w, steps = absorb(
            self.belief_means,
            self.belief_covs,
            channel.start,
            channel.vectors[rows].astype(np.float64),
            rewards,
            channel.noise_var[rows],
            np.full(self.n_users, channel.link == "logit"),
        )
        for number in block.scored if self._follows else ():
            z = self._z[number]
            if self._scratch is None:
                self._scratch = np.empty_like(z)
            products = np.matmul(w.astype(z.dtype), self._items[number].T, out=self._scratch)
            carry_over_to_many(products, steps, z, self._z_variances[number])

    def _products(self, number: int, user: FloatArray) -> AnyFloatArray:
        """A channel's item vectors times user vectors (users, d), (users, items)."""
        items = self._items[number]
        block = user[:, self.model.channels[number].span].astype(items.dtype)
        if len(block) == 1:  # a matrix-vector product reads the items once, in order
            return np.asarray(items @ block[0])[None]
        return np.asarray(block @ items.T)

    def _variances_of(self, number: int, cov: FloatArray, rows: IntArray | None = None) -> AnyFloatArray:
        span = self.model.channels[number].span
        return variances_of(self._items[number], cov[span, span], rows)


def _block(model: Model, start: int, numbers: tuple[int, ...], items: Mapping[int, AnyFloatArray]) -> _Block:
    channels = tuple(model.channels[number] for number in numbers)
    scored = tuple(number for number in numbers if number in model.scored)
    return _Block(
        start,
        channels,
        scored,
        tuple(channel.vectors for channel in channels),
        tuple(channel.noise_var for channel in channels),
        np.array([channel.link == "logit" for channel in channels]),
        tuple(items[number] for number in scored),
    )


def _for_all(of_prior: Any, n_users: int) -> Any:
    """The same for all users, without a copy."""
    return of_prior[None] if n_users == 1 else np.broadcast_to(of_prior, (n_users, *of_prior.shape))
