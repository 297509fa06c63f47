"""Means and variances of all items, for one user or many at once, kept up to date in O(items x d) per reaction."""

import numpy as np
import numpy.typing as npt

from igcf.arrays import AnyFloatArray, FloatArray, IntArray
from igcf.model import Model
from igcf.online.belief import Belief

RESYNC_EVERY = 100
"""Updates after which means and variances are computed anew from the belief, so that rounding cannot pile up."""
CHUNK = 16_384
"""Items per block when all variances are computed: the product stays in the cache."""


class ScoringEngine:
    """The state of `n_users` users in lock-step: beliefs (float64) and, for every item, mean and variance (float64).

    After a reward on item j (reference: eq:update_dis carried over to every item):

        w = cov x_j;  c = E w;  den = noise_j + x_j . w;  g = (reward - x_j . mean) / den
        item means += g c;  item variances -= c * c / den;  mean += g w;  cov -= w w' / den

    `dtype` is that of the products with the item matrix: float32 is fast, float64 is exact to rounding.
    """

    def __init__(self, model: Model, n_users: int = 1, *, dtype: npt.DTypeLike = np.float32) -> None:
        self.model = model
        self.items: AnyFloatArray = np.ascontiguousarray(model.item_vectors, dtype=dtype)
        self.prior = Belief(model.prior_mean, model.prior_cov)
        self._prior_means = self._item_means(model.prior_mean[None])
        self._prior_variances = self._item_variances(model.prior_cov)
        self._begin(n_users)

    def _begin(self, n_users: int) -> None:
        self.n_users = n_users
        self.belief_means: FloatArray = np.repeat(self.prior.mean[None], n_users, axis=0)
        self.belief_covs: FloatArray = np.repeat(self.prior.cov[None], n_users, axis=0)
        self.means: FloatArray = np.repeat(self._prior_means, n_users, axis=0)
        self.variances: FloatArray = np.repeat(self._prior_variances[None], n_users, axis=0)
        self._updates = 0

    def fresh(self, n_users: int = 1) -> "ScoringEngine":
        """A new engine at the prior that shares the item matrix and the prior's moments with this one."""
        other = object.__new__(ScoringEngine)
        other.model, other.items, other.prior = self.model, self.items, self.prior
        other._prior_means, other._prior_variances = self._prior_means, self._prior_variances
        other._begin(n_users)
        return other

    def belief(self, user: int = 0) -> Belief:
        """A copy of the belief about one user."""
        return Belief(self.belief_means[user].copy(), self.belief_covs[user].copy())

    def set_belief(self, belief: Belief, user: int = 0) -> None:
        """Take over a belief computed elsewhere, for instance from a stored history."""
        self.belief_means[user], self.belief_covs[user] = belief.mean, belief.cov
        self.means[user] = self._item_means(belief.mean[None])[0]
        self.variances[user] = self._item_variances(belief.cov)

    def observe(self, rows: IntArray, values: npt.ArrayLike) -> None:
        """Learn from one reaction per user, `rows` and `values` (users,), or from slates of them (users, k).

        Values are in the units of the log; NaN is an item that was shown without a reaction.
        """
        shape = (self.n_users, -1)
        X, rewards, noise = self.model.observations(
            np.asarray(rows).reshape(shape), np.asarray(values, dtype=np.float64).reshape(shape)
        )
        X = X.reshape(self.n_users, -1, self.model.dim)  # (users, k * channels, d)
        rewards, noise = rewards.reshape(shape), noise.reshape(shape)
        for j in range(X.shape[1]):
            self._learn(X[:, j], rewards[:, j], noise[:, j])
        self._updates += X.shape[1]
        if self._updates >= RESYNC_EVERY:
            self.resync()

    def forget(self, keep: float) -> None:
        """Let every user's evidence decay toward the population by the factor `keep`."""
        if keep < 1.0:
            for user in range(self.n_users):
                self.set_belief(self.belief(user).decayed(self.prior, keep), user)

    def resync(self) -> None:
        """Compute all means and variances anew from the beliefs."""
        self._updates = 0
        self.means[:] = self._item_means(self.belief_means)
        for user in range(self.n_users):
            self.variances[user] = self._item_variances(self.belief_covs[user])

    def item_uncertainty(self) -> FloatArray:
        """What the items' own variances s_i add to the variance of a score, (users, items).

        For independent e_i ~ N(x_i, diag s_i) and user ~ N(m, S) it is m' diag(s_i) m + trace(diag(s_i) S).
        """
        second_moment = self.belief_means**2 + np.einsum("bdd->bd", self.belief_covs)
        return np.asarray(second_moment @ self.model.item_variances.T)

    def _learn(self, x: FloatArray, reward: FloatArray, noise: FloatArray) -> None:
        w = np.einsum("bij,bj->bi", self.belief_covs, x)
        den = noise + np.einsum("bd,bd->b", x, w)
        gain = (reward - np.einsum("bd,bd->b", x, self.belief_means)) / den
        self.belief_means += gain[:, None] * w
        self.belief_covs -= np.einsum("bi,bj->bij", w / den[:, None], w)
        c = self._products(w)
        self.means += gain[:, None] * c
        c *= c
        c /= den[:, None].astype(c.dtype)
        self.variances -= c
        np.maximum(self.variances, 0.0, out=self.variances)

    def _products(self, w: FloatArray) -> AnyFloatArray:
        """(users, d) -> (users, items)."""
        w = w.astype(self.items.dtype)
        if len(w) == 1:  # a matrix-vector product reads the items once, in order
            return np.asarray(self.items @ w[0])[None]
        return np.asarray(w @ self.items.T)

    def _item_means(self, belief_means: FloatArray) -> FloatArray:
        return self._products(belief_means).astype(np.float64)

    def _item_variances(self, cov: FloatArray) -> FloatArray:
        cov = cov.astype(self.items.dtype)
        variances = np.empty(len(self.items))
        for start in range(0, len(self.items), CHUNK):
            block = self.items[start : start + CHUNK]
            variances[start : start + CHUNK] = np.einsum("nd,nd->n", block @ cov, block)
        return np.maximum(variances, 0.0)
