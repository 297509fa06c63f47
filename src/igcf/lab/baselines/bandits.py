"""Bandits: `linucb`, `linucb-hybrid`, `latent-bandit` and `egreedy-ease`."""

import numpy as np

from igcf.arrays import BoolArray, Float32Array, FloatArray, IntArray
from igcf.errors import ConfigError
from igcf.lab.baselines.factors import principal_components
from igcf.lab.baselines.history import HistoryLearner, ease_weights, training_successes
from igcf.lab.baselines.task import Settings, Task
from igcf.model import Model
from igcf.online import ModelLearner, Ucb, top_k

LLOYD_STEPS = 30  # steps of k-means at most


def fit_linucb(task: Task, settings: Settings, rng: np.random.Generator) -> Model:
    """LinUCB (Li et al., 2010): ridge regression of rewards on item features, one for each user.

    The features are the principal components of the training users' successes and their mean, which is all that a log
    says about an item; every user starts from zero (`disjoint`).
    """
    mean, loadings = principal_components(training_successes(task), settings["dim"], rng=rng)
    features = np.column_stack([mean, loadings])
    dim = features.shape[1]
    return _linear(task, features, np.zeros(dim), np.eye(dim) / settings["penalty"])


def fit_linucb_hybrid(task: Task, settings: Settings, rng: np.random.Generator) -> Model:
    """LinUCB with coefficients that all users share beside their own (`hybrid`).

    The rewards of the training users, 0 where nothing satisfied, give the shared coefficients b of z = (1, mean,
    components) in closed form: with M = I - X (X'X + penalty I)^-1 X', which takes out what users' own coefficients
    explain, b = (penalty I + n Z'MZ)^-1 Z'M sum_u r_u. So many users leave no doubt in b; z'b has weight 1.
    """
    successes, penalty = training_successes(task), settings["penalty"]
    mean, x = principal_components(successes, settings["dim"], rng=rng)
    z, n = np.column_stack([np.ones(len(mean)), mean, x]), successes.shape[0]
    rest = z - x @ np.linalg.solve(x.T @ x + penalty * np.eye(x.shape[1]), x.T @ z)  # M z
    shared = np.linalg.solve(penalty * np.eye(z.shape[1]) + n * z.T @ rest, n * rest.T @ mean)
    dim = x.shape[1] + 1
    return _linear(
        task, np.column_stack([z @ shared, x]), np.eye(dim)[0], np.diag(np.r_[0.0, np.full(dim - 1, 1.0 / penalty)])
    )


def _linear(task: Task, features: FloatArray, mean: FloatArray, cov: FloatArray) -> Model:
    reward = task.reward_of("satisfied")
    return Model(
        item_vectors=features,
        item_ids=task.train.item_ids,
        prior_mean=mean,
        prior_cov=cov,
        noise_var=1.0,
        reward=reward,
    )


def play_linucb(model: Model, settings: Settings) -> ModelLearner:
    """Show what has the largest upper confidence bound."""
    return ModelLearner(model, Ucb(settings["alpha"]))


class LatentBandit:
    """Every user is one of the clusters of training users; which one is inferred from what satisfied them.

    Thompson sampling over the clusters, or the items with the largest expected share (Hong et al., 2020).
    """

    def __init__(self, shares: FloatArray, weights: FloatArray, satisfied: float, *, is_sampled: bool) -> None:
        self._shares, self._prior, self._satisfied, self._is_sampled = shares, np.log(weights), satisfied, is_sampled

    def begin(self, n_users: int, *, rng: np.random.Generator) -> None:
        """Start `n_users` users from the sizes of the clusters."""
        self._rng, self._log = rng, np.tile(self._prior, (n_users, 1))

    def select(self, available: BoolArray, k: int) -> IntArray:
        """Select the best items of a cluster that is drawn, or of the mixture."""
        weights = np.exp(self._log - self._log.max(axis=1, keepdims=True))
        weights /= weights.sum(axis=1, keepdims=True)
        if self._is_sampled:
            drawn = (weights.cumsum(axis=1) < self._rng.random((len(weights), 1))).sum(axis=1)
            weights = np.eye(weights.shape[1])[np.minimum(drawn, weights.shape[1] - 1)]
        return top_k(weights @ self._shares, available, k, rng=self._rng)

    def observe(self, rows: IntArray, values: Float32Array) -> None:
        """Weigh the clusters by how likely they make the successes and failures."""
        likely = self._shares[:, rows]  # (clusters, users, slate)
        found = np.where(values >= self._satisfied, np.log(likely), np.log1p(-likely))
        self._log += found.sum(axis=2).T


def fit_latent_bandit(task: Task, settings: Settings, rng: np.random.Generator) -> LatentBandit:
    """Cluster the training users by their principal components; smooth the shares of each cluster by all users'."""
    successes, n = training_successes(task), settings["clusters"]
    if n < 1:
        raise ConfigError(f"the number of clusters must be at least 1, got {n}")
    mean, loadings = principal_components(successes, settings["dim"], rng=rng)
    places = np.asarray(successes @ loadings - mean @ loadings)
    own = k_means(places / np.maximum(places.std(axis=0), 1e-12), min(n, len(places)), rng=rng)
    member = np.eye(own.max() + 1)[own]
    sizes, smooth = member.sum(axis=0), settings["smoothing"]
    shares = (member.T @ successes + smooth * mean) / (sizes[:, None] + smooth)
    return LatentBandit(
        np.clip(shares, 1e-4, 1 - 1e-4), sizes / sizes.sum(), task.satisfied, is_sampled=settings["sample"]
    )


def k_means(points: FloatArray, n: int, *, rng: np.random.Generator) -> IntArray:
    """Return the cluster of each point by Lloyd's algorithm; clusters that lose all points are gone."""
    centres, own = points[rng.choice(len(points), n, replace=False)], np.zeros(len(points), dtype=np.int64)
    for _ in range(LLOYD_STEPS):
        before, own = own, ((centres**2).sum(axis=1) - 2.0 * points @ centres.T).argmin(axis=1)
        own = np.unique(own, return_inverse=True)[1]
        centres = np.array([points[own == each].mean(axis=0) for each in range(own.max() + 1)])
        if np.array_equal(before, own):
            break
    return np.asarray(own)


class EpsilonGreedy(HistoryLearner):
    """The scores of a history method, and with probability epsilon a user's whole slate at random."""

    epsilon: float = 0.0

    def select(self, available: BoolArray, k: int) -> IntArray:
        """Select the best items, or any."""
        best, is_random = super().select(available, k), self._rng.random(len(available)) < self.epsilon
        any_ = top_k(self._rng.random(available.shape), available, k, rng=self._rng)
        return np.where(is_random[:, None], any_, best)


def fit_egreedy_ease(task: Task, settings: Settings, rng: np.random.Generator) -> EpsilonGreedy:
    """Fit EASE to the training users' successes."""
    weights = ease_weights(training_successes(task), settings["penalty"]).astype(np.float32)
    return EpsilonGreedy(lambda successes: np.asarray(successes @ weights), task)


def play_egreedy(learner: EpsilonGreedy, settings: Settings) -> EpsilonGreedy:
    """Explore with this probability."""
    learner.epsilon = settings["epsilon"]
    return learner
