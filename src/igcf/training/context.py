"""Fit of the context effect: how features of the moment move users' vectors, by generalised least squares.

A reward of the linear channel in a context with the numbers f is x.(u + W f) + noise. Over the unknown u ~ N(m0, S)
the rewards r of a user have the covariance V = X S X' + N, and with Z the rows x_i f_i' as vectors

    vec(W) = (sum over users of Z'V^-1 Z + Lambda)^-1 sum over users of Z'V^-1 (r - X m0)

in closed form. The stated covariance is that inverse times the variance of what W leaves unexplained, relative to V
(docs/maths.md, section Who and when).
"""

from dataclasses import dataclass

import numpy as np

from igcf.arrays import FloatArray, IntArray, covariance_root
from igcf.data.interactions import Interactions
from igcf.model import Model
from igcf.model.attribute_prior import AttributePrior
from igcf.training.attribute_prior import choose_penalties, encoded, identified

FOLDS = 10
MOST_REACTIONS = 100_000  # reactions that are regressed; of more, those of a random part of the users
FREE = 1e-6  # penalty of what all moments have in common, which the effect does not contain


def with_context(model: Model, data: Interactions, *, seed: int = 0) -> Model:
    """Return the model with the effect of the context of reactions, learned from its log."""
    linear = next((channel for channel in model.channels if channel.link == "identity"), None)
    if data.context is None or linear is None:
        return model
    encoder = data.context.encoder()
    F = encoded(encoder, data.context.columns.__getitem__, len(data))
    span = linear.span
    live = np.flatnonzero(np.diagonal(model.prior_cov[span, span]) > 0)
    problem = _Sums.from_log(model, data, F, live, np.random.default_rng(seed))
    penalties, worth, used = choose_penalties(problem.gains, encoder, data.context.kinds)
    found, covs = problem.fit(penalties)
    projection, own = identified(used), F[:, np.isfinite(penalties)]
    weights, errors = np.zeros((model.dim, used.n_columns)), np.zeros((model.dim, used.n_columns))
    weights[span.start + live] = found
    errors[span.start + live] = np.sqrt(np.einsum("pq,kqr,pr->kp", projection, covs, projection))
    return model.changed(context_effect=AttributePrior(used, weights, errors, own.T @ own / max(len(own), 1), worth))


@dataclass(frozen=True, eq=False)
class _Sums:
    """Sums over the users of each fold; a number per live direction and column, the constant last."""

    squares: FloatArray  # sum of Z'V^-1 Z, shape (folds, n, n)
    products: FloatArray  # sum of Z'V^-1 (r - X m0), shape (folds, n)
    sizes: IntArray  # users of each fold, shape (folds,)
    variances: FloatArray  # prior variances of the live directions
    n_reactions: int  # number of reactions in the sums, whose mean square relative to V is 1

    @classmethod
    def from_log(
        cls, model: Model, data: Interactions, F: FloatArray, live: IntArray, rng: np.random.Generator
    ) -> "_Sums":
        channel = next(each for each in model.channels if each.link == "identity")
        mean, cov = model.prior_mean[channel.span], model.prior_cov[channel.span, channel.span]
        root, item_rows = covariance_root(cov), np.array(model.item_rows(data.item_ids))
        order = np.argsort(data.user_idx, kind="stable")
        ends = np.searchsorted(data.user_idx[order], np.arange(data.n_users + 1))
        n = len(live) * (F.shape[1] + 1)
        squares, products = np.zeros((FOLDS, n, n)), np.zeros((FOLDS, n))
        sizes, spread, n_seen = np.zeros(FOLDS, dtype=np.int64), 0.0, 0
        for number, user in enumerate(rng.permutation(np.flatnonzero(np.diff(ends))).tolist()):
            own = order[ends[user] : ends[user + 1]]
            rewards = channel.reward.of(data.values[own])
            own, rewards = own[~np.isnan(rewards)], rewards[~np.isnan(rewards)]
            if n_seen + len(own) > MOST_REACTIONS:
                break
            rows = item_rows[data.item_idx[own]]
            X, noise = channel.vectors[rows].astype(np.float64), channel.noise_var[rows]
            f = np.column_stack([F[own], np.ones(len(own))])
            Z = (X[:, live, None] * f[:, None, :]).reshape(len(own), n)
            known = np.column_stack([Z, rewards - X @ mean])
            half = (X @ root) / noise[:, None]
            weighted = known / noise[:, None]
            weighted -= half @ np.linalg.solve(np.eye(root.shape[1]) + half.T @ (X @ root), half.T @ known)
            squares[number % FOLDS] += Z.T @ weighted[:, :-1]
            products[number % FOLDS] += Z.T @ weighted[:, -1]
            spread += float(known[:, -1] @ weighted[:, -1])
            sizes[number % FOLDS] += 1
            n_seen += len(own)
        scale = max(spread / max(n_seen, 1), 1e-12)  # the model's noise is not that of residuals
        return cls(squares / scale, products / scale, sizes, np.diagonal(cov)[live], n_seen)

    def _ridge(self, penalties: FloatArray) -> FloatArray:
        """Penalties of all numbers: of a column, relative to the spread of users in each direction."""
        whole = np.append(penalties, FREE)
        return np.asarray((whole[None, :] / self.variances[:, None]).ravel())

    def gains(self, penalties: FloatArray) -> FloatArray:
        """Log-likelihood per user of each fold beside that without weights, fitted on the other folds, (folds,)."""
        ridge, nothing = self._ridge(penalties), self._ridge(np.full(len(penalties), np.inf))
        return np.array([self._gain(fold, ridge) - self._gain(fold, nothing) for fold in range(FOLDS)])

    def _gain(self, fold: int, ridge: FloatArray) -> float:
        kept = np.flatnonzero(np.isfinite(ridge))
        square, product = self.squares[fold][np.ix_(kept, kept)], self.products[fold][kept]
        rest = self.squares.sum(axis=0)[np.ix_(kept, kept)] - square + np.diag(ridge[kept])
        weights = np.linalg.solve(rest, self.products.sum(axis=0)[kept] - product)
        return float(weights @ product - 0.5 * weights @ square @ weights) / max(int(self.sizes[fold]), 1)

    def fit(self, penalties: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the weights, (directions, used columns), and their covariances, (directions, columns, columns)."""
        ridge = self._ridge(penalties)
        kept, n = np.flatnonzero(np.isfinite(ridge)), int(np.isfinite(penalties).sum())
        squares, products = self.squares.sum(axis=0)[np.ix_(kept, kept)], self.products.sum(axis=0)[kept]
        inverse = np.linalg.inv(squares + np.diag(ridge[kept]))
        solved = inverse @ products
        unexplained = 1.0 - float(solved @ (2.0 * products - squares @ solved)) / max(self.n_reactions, 1)
        weights = solved.reshape(-1, n + 1)
        covs = unexplained * np.einsum("kpkq->kpq", inverse.reshape(len(weights), n + 1, len(weights), n + 1))
        return weights[:, :n], np.asarray(covs[:, :n, :n])
