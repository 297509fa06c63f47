"""Baselines of "liked, if seen": the share of likes, and a factor model of what a user likes more than others do."""

from copy import deepcopy
from typing import Any

import numpy as np
import scipy.sparse as sp

from igcf.arrays import FloatArray
from igcf.lab.baselines.task import Settings, Task
from igcf.model import Model
from igcf.model.usage import Usage
from igcf.online import Greedy, ModelLearner, replay

SHARE_WEIGHT = 5.0
"""Reactions of the population's own share of likes that are added to every item's."""
SWEEPS = 12
DIMS, PENALTIES, NOISES = (8, 16, 32), (2.0, 5.0, 10.0), (0.05, 0.1, 0.2, 0.5)
"""Values that the factor model tries on validation users, one setting after the other."""


def like_shares(task: Task) -> FloatArray:
    """Return the share of likes among the reactions to each item, drawn toward that of all reactions."""
    train = task.train
    is_liked = (train.values >= task.satisfied).astype(np.float64)
    count = np.bincount(train.item_idx, minlength=train.n_items)
    likes = np.bincount(train.item_idx, is_liked, minlength=train.n_items)
    return np.asarray((likes + SHARE_WEIGHT * is_liked.mean()) / (count + SHARE_WEIGHT))


def liked_factors(
    task: Task, dim: int, penalty: float, *, rng: np.random.Generator
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Factorise 1[liked] - share over all reactions by alternating least squares.

    A user has a constant and `dim` factors, penalised alike; so have the items' factors.

    Returns:
        Shares of likes, users' vectors (users, 1 + dim) and items' vectors (items, 1 + dim), whose first entry is 1.
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
    """Tune size, penalty and noise of the factor model one after the other on the validation users."""
    truth = task.validation_truth()[0]
    rounds = min(task.rounds, int((~np.isnan(truth)).sum(axis=1).min()))
    fits: dict[tuple[int, float], Any] = {}
    scores: dict[tuple[int, float, float], float] = {}

    def model_of(point: tuple[int, float, float]) -> Model:
        dim, penalty, noise = point
        if (dim, penalty) not in fits:
            fits[dim, penalty] = liked_factors(task, dim, penalty, rng=deepcopy(rng))  # all fits start alike
        return liked_factors_model(task, fits[dim, penalty], noise)

    def score(point: tuple[int, float, float]) -> float:
        if point not in scores:
            learner = ModelLearner(model_of(point), Greedy())
            shown = replay(learner, truth, rounds=rounds, rng=np.random.default_rng(0), only_reacted=True)
            scores[point] = float((shown.values >= task.satisfied).sum(axis=(1, 2)).mean())
        return scores[point]

    dim = max(DIMS, key=lambda each: score((each, 5.0, 0.1)))
    penalty = max(PENALTIES, key=lambda each: score((dim, each, 0.1)))
    noise = max(NOISES, key=lambda each: score((dim, penalty, each)))
    return ModelLearner(model_of((dim, penalty, noise)), Greedy())
