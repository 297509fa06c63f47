"""Small worlds with known answers, shared by the tests."""

import numpy as np

from igcf.arrays import FloatArray
from igcf.model import Channel, Model, Reward


def random_model(
    n_items: int = 40, dim: int = 6, *, seed: int = 0, noise_var: float = 0.3, singular: bool = False
) -> Model:
    """A model with random vectors and a prior that is neither centred nor the identity."""
    rng = np.random.default_rng(seed)
    root = rng.normal(size=(dim, dim - 1 if singular else dim + 2)) / np.sqrt(dim)
    return Model(
        item_vectors=rng.normal(size=(n_items, dim)),
        item_variances=rng.random((n_items, dim)) * 0.1,
        prior_mean=rng.normal(size=dim),
        prior_cov=root @ root.T,
        noise_var=noise_var,
        item_ids=[f"item-{i}" for i in range(n_items)],
        reward=Reward("raw", threshold=0.5, low=-3.0, high=3.0),
    )


def two_channel_model(n_items: int = 30, dim: int = 5, *, seed: int = 1) -> Model:
    """A model whose reactions reveal a success and, apart from it, that there was a reaction at all."""
    rng = np.random.default_rng(seed)
    exposure = Channel(
        rng.normal(size=(n_items, dim)).astype(np.float32),
        rng.uniform(0.2, 0.4, n_items),
        Reward("exposed", threshold=4.0, low=1.0, high=5.0),
    )
    return Model(
        item_vectors=rng.normal(size=(n_items, dim)),
        prior_mean=rng.normal(size=dim),
        prior_cov=np.eye(dim) * 0.7,
        noise_var=rng.uniform(0.1, 0.3, n_items),
        item_ids=[f"item-{i}" for i in range(n_items)],
        titles=[f"Title {i}" for i in range(n_items)],
        categories=[("odd",) if i % 2 else ("even", "small") for i in range(n_items)],
        reward=Reward("satisfied", threshold=4.0, low=1.0, high=5.0),
        evidence=[exposure],
    )


def direct_posterior(
    mean: FloatArray, cov: FloatArray, X: FloatArray, rewards: FloatArray, noise_var: FloatArray | float
) -> tuple[FloatArray, FloatArray]:
    """The posterior by explicit inverses, as eq:update_dis is printed."""
    weight = 1.0 / np.broadcast_to(noise_var, len(X))
    prior_precision = np.linalg.inv(cov)
    posterior_cov: FloatArray = np.linalg.inv(prior_precision + X.T @ (weight[:, None] * X))
    return posterior_cov @ (prior_precision @ mean + X.T @ (weight * rewards)), posterior_cov
