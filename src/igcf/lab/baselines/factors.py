"""Linear factor models with a Bayesian user on top: `mf`, `icf-ucb`, `icf-ts`, `pca-gp` and `liked-factors`."""

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import LinearOperator, eigsh

from igcf.arrays import AnyFloatArray, BoolArray, FloatArray
from igcf.errors import ConfigError
from igcf.lab.baselines.history import Logged
from igcf.lab.baselines.simple import like_shares
from igcf.lab.baselines.task import Settings, Task
from igcf.model import Model
from igcf.model.usage import Usage
from igcf.online import Greedy, ModelLearner, Policy, ScoringEngine, Thompson, Ucb, replay
from igcf.online.evidence import belief_from_logged

DENSE_FROM = 0.2  # share of observed pairs from which a dense product is faster than a sparse one
BLOCK_BYTES = 2**27  # size of the Gram matrices that are held at a time
SWEEPS = 12
DIMS, PENALTIES, NOISES = (8, 16, 32), (2.0, 5.0, 10.0), (0.05, 0.1, 0.2, 0.5)
"""Values that `liked-factors` tries on validation users, one setting after the other."""


class LoggedModelLearner(ModelLearner):
    """Learner of a model for users with or without a logged history."""

    def know(self, logged: Sequence[Logged]) -> None:
        """Start each user from the belief that the whole record leads to, in which absence counts."""
        for user, each in enumerate(logged):
            if len(each.rows):
                belief, offset = belief_from_logged(self.model, each.rows, each.values)
                self.engine.set_belief(belief, user, offset=offset)


# interactive collaborative filtering (Zhao et al., 2013)


@dataclass(frozen=True, eq=False)
class Factors:
    """Result of a factorisation."""

    users: FloatArray  # user vectors, shape (users, d)
    items: FloatArray  # item vectors, shape (items, d)
    item_variances: FloatArray  # diagonals of the items' conditional covariances for noise variance 1, shape (items, d)


class _Side:
    """Ratings in one direction, prepared for many half-sweeps."""

    def __init__(self, ratings: sp.csr_array) -> None:
        mask = ratings.copy()
        mask.data = np.ones(len(ratings.data), dtype=np.float32)
        share = len(ratings.data) / max(ratings.shape[0] * ratings.shape[1], 1)
        self.mask = mask.toarray() if share > DENSE_FROM else mask
        self.ratings = ratings.astype(np.float64)

    def sweep(self, fixed: FloatArray, penalty: float, *, spread: bool = False) -> tuple[FloatArray, FloatArray]:
        """Return A^-1 Y'r with A = Y'Y + penalty I over each row's observed pairs and, with `spread`, diag(A^-1)."""
        d = fixed.shape[1]
        upper = np.triu_indices(d)
        products = (fixed[:, upper[0]] * fixed[:, upper[1]]).astype(np.float32)  # (n, d (d + 1) / 2)
        targets = np.asarray(self.ratings @ fixed)
        means, variances = (np.zeros((len(targets), d)) for _ in range(2))
        block = max(1, BLOCK_BYTES // (8 * d * d))
        for start in range(0, len(targets), block):
            rows = slice(start, start + block)
            packed = self.mask[rows] @ products
            gram = np.empty((len(packed), d, d))
            gram[:, upper[0], upper[1]] = packed
            gram[:, upper[1], upper[0]] = packed
            gram[:, np.arange(d), np.arange(d)] += penalty
            means[rows] = np.linalg.solve(gram, targets[rows][..., None])[..., 0]
            if spread:
                variances[rows] = np.einsum("bdd->bd", np.linalg.inv(gram))
        return means, variances


def factorise(ratings: sp.csr_array, *, dim: int, penalty: float, rounds: int, rng: np.random.Generator) -> Factors:
    """Factorise users x items by alternating least squares; stored entries are observed, also where they are zero.

    `penalty` is the noise variance over the prior variance, the same for users and items; the noise variance is 1.
    """
    if dim < 1 or rounds < 1 or not penalty > 0:
        raise ConfigError(f"dim and rounds must be at least 1 and penalty positive, got {dim}, {rounds}, {penalty}")
    by_user, by_item = _Side(ratings), _Side(ratings.T.tocsr())
    items = rng.normal(0.0, 0.1, (ratings.shape[1], dim))
    for number in range(rounds):
        users, _ = by_user.sweep(items, penalty)
        items, variances = by_item.sweep(users, penalty, spread=number == rounds - 1)
    return Factors(users, items, variances)


def fit_icf(task: Task, settings: Settings, rng: np.random.Generator) -> Model:
    """Build a model from the item vectors of a factorisation, with prior N(0, I / penalty) and noise variance 1."""
    train, reward = task.train, task.reward_of(settings["reward"])
    chosen = {name: settings[name] for name in ("dim", "penalty", "rounds")}
    factors = factorise(train.matrix(reward.of(train.values)), **chosen, rng=rng)
    dim = factors.items.shape[1]
    return Model(
        item_vectors=factors.items,
        item_variances=factors.item_variances,
        item_ids=train.item_ids,
        prior_mean=np.zeros(dim),
        prior_cov=np.eye(dim) / settings["penalty"],
        noise_var=1.0,
        reward=reward,
    )


def play_icf(model: Model, settings: Settings) -> ModelLearner:
    """Play upper confidence bounds where there is a `nu`, Thompson sampling with `sample_items`, or else greedily.

    A greedy first item is a tie of all items, which is broken at random.
    """
    policy: Policy = Greedy()
    if "nu" in settings:
        policy = Ucb(settings["nu"])
    elif "sample_items" in settings:
        policy = ThompsonOfItems() if settings["sample_items"] else Thompson()
    return ModelLearner(model, policy, forgetting=settings["forgetting"])


class ThompsonOfItems(Thompson):
    """Thompson sampling that also draws every item's vector by its variances."""

    def scores(self, engine: ScoringEngine, available: BoolArray, *, rng: np.random.Generator) -> AnyFloatArray:
        """Return the rewards under one draw of each user and item."""
        draw = self.draw(engine, rng)[:, 0]
        scores = engine.model.expected(draw)
        return scores + np.sqrt(engine.item_uncertainty(draw)) * rng.standard_normal(scores.shape)


# principal components of the satisfaction matrix with a standard normal prior; no training loop


def fit_pca_gp(task: Task, settings: Settings, rng: np.random.Generator) -> Model:
    """Build a model with item vectors [mean, components]; the first coordinate of every user is known to be 1."""
    train = task.train
    satisfied = train.matrix((train.values >= task.satisfied).astype(np.float64))
    satisfied.eliminate_zeros()
    mean, loadings = principal_components(satisfied, settings["dim"], rng=rng)
    dim = loadings.shape[1] + 1
    return Model(
        item_vectors=np.column_stack([mean, loadings]),
        item_ids=train.item_ids,
        prior_mean=np.eye(dim)[0],
        prior_cov=np.diag(np.r_[0.0, np.ones(dim - 1)]),
        noise_var=1.0,  # replaced by `play_pca_gp`
        reward=task.reward_of("satisfied"),
        titles=train.titles,
        categories=train.categories,
        attributes=train.attributes,
    )


def play_pca_gp(model: Model, settings: Settings) -> LoggedModelLearner:
    """Play greedily, or with upper confidence bounds where `nu` is not 0."""
    played = model.with_prior(model.prior_mean, model.prior_cov, settings["noise_var"])
    policy = Ucb(settings["nu"]) if settings["nu"] else Greedy()
    return LoggedModelLearner(played, policy, forgetting=settings["forgetting"])


def principal_components(
    matrix: sp.csr_array, n_components: int, *, rng: np.random.Generator
) -> tuple[FloatArray, FloatArray]:
    """Return column means (items,) and the leading components of the rows, (items, components).

    The components are scaled so that `loadings @ loadings.T` approximates the covariance of the columns.
    """
    n_rows, n_columns = matrix.shape
    mean = np.asarray(matrix.sum(axis=0)).ravel() / n_rows
    n_components = min(n_components, min(n_rows, n_columns) - 1)

    def covariance(v: FloatArray) -> FloatArray:
        scores = matrix @ v - mean @ v
        return np.asarray((matrix.T @ scores - mean * scores.sum()) / n_rows)

    operator = LinearOperator((n_columns, n_columns), matvec=covariance, dtype=np.float64)
    size, axes = eigsh(operator, k=n_components, which="LA", v0=rng.standard_normal(n_columns))
    order = np.argsort(-size)
    return mean, axes[:, order] * np.sqrt(np.maximum(size[order], 0.0))


# factors of what a user likes more than others do, among what was seen


def liked_factors(
    task: Task, dim: int, penalty: float, *, rng: np.random.Generator
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Factorise 1[liked] - share over all reactions by alternating least squares.

    A user has a constant and `dim` factors, penalised alike; so have the items' factors.

    Returns:
        Shares of likes, users' vectors (users, 1 + dim) and items' vectors (items, 1 + dim) with a first entry of 1.
    """
    train, shares = task.train, like_shares(task)
    rest = (train.values >= task.satisfied) - shares[train.item_idx]
    shape = (train.n_users, train.n_items)
    by_user = sp.csr_array((rest, (train.user_idx, train.item_idx)), shape=shape)
    by_item = sp.csr_array(by_user.T)
    items = np.column_stack([np.ones(train.n_items), rng.normal(0.0, 0.1, (train.n_items, dim))])
    users = np.zeros((train.n_users, dim + 1))
    for _ in range(SWEEPS):
        for user in range(train.n_users):
            part = slice(*by_user.indptr[user : user + 2])
            x = items[by_user.indices[part]]
            users[user] = np.linalg.solve(x.T @ x + penalty * np.eye(dim + 1), x.T @ by_user.data[part])
        for item in range(train.n_items):
            part = slice(*by_item.indptr[item : item + 2])
            x = users[by_item.indices[part]]
            target = x[:, 1:].T @ (by_item.data[part] - x[:, 0])
            items[item, 1:] = np.linalg.solve(x[:, 1:].T @ x[:, 1:] + penalty * np.eye(dim), target)
    return shares, users, items


def liked_factors_model(task: Task, fitted: tuple[FloatArray, FloatArray, FloatArray], noise_var: float) -> Model:
    """Build the linear model of these factors with the users' own mean and covariance as its prior."""
    shares, users, items = fitted
    d = items.shape[1]
    cov = np.zeros((d + 1, d + 1))
    cov[1:, 1:] = np.cov(users.T) + 1e-4 * np.eye(d)
    return Model(
        item_vectors=np.column_stack([shares, items]),
        noise_var=noise_var,
        item_ids=task.train.item_ids,
        prior_mean=np.r_[1.0, users.mean(axis=0)],
        prior_cov=cov,
        reward=task.reward_of("satisfied"),
        usage=Usage(),
    )


def fit_liked_factors(task: Task, settings: Settings, rng: np.random.Generator) -> ModelLearner:
    """Choose size, penalty and noise of the factor model, in this order, on the validation users."""
    truth = task.validation_truth()[0]
    rounds = min(task.rounds, int((~np.isnan(truth)).sum(axis=1).min()))
    fits: dict[tuple[int, float], Any] = {}

    def model_of(dim: int, penalty: float, noise: float) -> Model:
        if (dim, penalty) not in fits:
            fits[dim, penalty] = liked_factors(task, dim, penalty, rng=deepcopy(rng))  # all fits start alike
        return liked_factors_model(task, fits[dim, penalty], noise)

    def score(*point: Any) -> float:
        learner = ModelLearner(model_of(*point), Greedy())
        shown = replay(learner, truth, rounds=rounds, rng=np.random.default_rng(0), available=~np.isnan(truth))
        return float((shown.values >= task.satisfied).sum(axis=(1, 2)).mean())

    dim = max(DIMS, key=lambda each: score(each, 5.0, 0.1))
    penalty = max(PENALTIES, key=lambda each: score(dim, each, 0.1))
    noise = max(NOISES, key=lambda each: score(dim, penalty, each))
    return ModelLearner(model_of(dim, penalty, noise), Greedy())
