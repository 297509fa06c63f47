"""Small worlds with known answers, shared by the tests."""

from typing import Any

import numpy as np

from igcf.arrays import FloatArray
from igcf.encoding import TIME_LEVELS, Attribute, Encoder
from igcf.model import Channel, Model, Reward, Term
from igcf.model.attribute_prior import AttributePrior, Worth
from igcf.model.channel import Link
from igcf.model.reward import RewardKind


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
        reward=Reward("raw", threshold=0.5, low=-5.0, high=5.0),
    )


def two_channel_model(n_items: int = 30, dim: int = 5, *, seed: int = 1) -> Model:
    """A model whose reactions reveal a success and, apart from it, that there was a reaction at all."""
    rng = np.random.default_rng(seed)
    channels = [
        Channel(
            rng.normal(size=(n_items, dim)).astype(np.float32),
            rng.uniform(0.1, 0.4, n_items),
            Reward(kind, threshold=4.0, low=1.0, high=5.0),
        )
        for kind in ("satisfied", "exposed")
    ]
    return Model(
        prior_mean=rng.normal(size=dim),
        prior_cov=np.eye(dim) * 0.7,
        channels=channels,
        **catalogue(n_items),
    )


def ensemble_model(n_items: int = 30, dim: int = 4, *, seed: int = 2) -> Model:
    """Half a linear model, half the product of two logistic ones, on blocks of their own of the user's vector."""
    rng = np.random.default_rng(seed)
    kinds: list[tuple[RewardKind, Link, int]] = [
        ("satisfied", "identity", 0),
        ("exposed", "identity", 0),
        ("exposed", "logit", dim),
        ("liked", "logit", dim),
    ]
    channels = [
        Channel(
            rng.normal(size=(n_items, dim)).astype(np.float32),
            rng.uniform(0.3, 1.0, n_items),
            Reward(kind, threshold=4.0, low=1.0, high=5.0),
            link,
            start,
        )
        for kind, link, start in kinds
    ]
    return Model(
        prior_mean=rng.normal(size=2 * dim) * 0.3,
        prior_cov=np.diag(rng.uniform(0.3, 1.0, 2 * dim)),
        channels=channels,
        terms=[Term(0.5, (0,)), Term(0.5, (2, 3))],
        **catalogue(n_items),
    )


def catalogue(n_items: int) -> dict[str, Any]:
    """Ids, titles, categories and a reward in stars."""
    return {
        "item_ids": [f"item-{i}" for i in range(n_items)],
        "titles": [f"Title {i}" for i in range(n_items)],
        "categories": [("odd",) if i % 2 else ("even", "small") for i in range(n_items)],
        "reward": Reward("satisfied", threshold=4.0, low=1.0, high=5.0),
    }


def direct_posterior(
    mean: FloatArray, cov: FloatArray, X: FloatArray, rewards: FloatArray, noise_var: FloatArray | float
) -> tuple[FloatArray, FloatArray]:
    """The posterior by explicit inverses, as eq:update_dis is printed."""
    weight = 1.0 / np.broadcast_to(noise_var, len(X))
    prior_precision = np.linalg.inv(cov)
    posterior_cov = np.asarray(np.linalg.inv(prior_precision + X.T @ (weight[:, None] * X)), dtype=np.float64)
    return posterior_cov @ (prior_precision @ mean + X.T @ (weight * rewards)), posterior_cov


def batch_posterior(
    mean: FloatArray, cov: FloatArray, x: FloatArray, rewards: FloatArray, noise: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Posterior mean and covariance after linear rewards, rows of `x` (n, d): all at once, eq:update_dis.

    The covariance S may be singular: S - S X' (X S X' + N)^-1 X S, or, the same, (I + S X' N^-1 X)^-1 S.
    """
    n, d = x.shape
    left: FloatArray
    surprise = rewards - x @ mean
    if n <= d:
        c = cov @ x.T  # (d, n)
        gain = np.linalg.solve(x @ c + np.diag(noise), c.T).T  # (d, n)
        left, shift = cov - gain @ c.T, gain @ surprise
    else:
        weighted = x / noise[:, None]
        left = np.asarray(np.linalg.solve(np.eye(d) + cov @ (weighted.T @ x), cov), dtype=np.float64)
        left = (left + left.T) / 2
        shift = left @ (surprise @ weighted)
    return mean + shift, (left + left.T) / 2


def attributed(model: Model, *, seed: int = 3) -> Model:
    """The model with a prior by gender, country and income, whose weights are random."""
    encoder = Encoder(
        (
            Attribute("gender", "category", ("f", "m"), (0.4, 0.6)),
            Attribute("country", "category", ("(other)", "de", "nz"), (0.2, 0.5, 0.3), pooled=("fr", "it")),
            Attribute("income", "number", ("income",), (100.0,), scale=50.0),
        )
    )
    rng = np.random.default_rng(seed)
    weights = rng.normal(size=(model.dim, encoder.n_columns)) * 0.3 * np.sqrt(np.diagonal(model.prior_cov))[:, None]
    spread = np.diag([0.24, 0.24, 0.16, 0.25, 0.21, 1.0])
    worth = {name: Worth(100.0, 0.5, 0.1) for name in encoder.names}
    return model.changed(attribute_prior=AttributePrior(encoder, weights, np.full_like(weights, 0.1), spread, worth))


def contextual(model: Model, *, seed: int = 5) -> Model:
    """The model with an effect of the device and the time of a request, whose weights are random."""
    day = tuple(float(n == 6) for n in range(7))
    encoder = Encoder(
        (
            Attribute("device", "category", ("desk", "phone"), (0.5, 0.5)),
            Attribute("time", "time", TIME_LEVELS, (0.0, 0.0, 0.0, 0.0, *day)),
        ),
        what="context",
    )
    weights = np.random.default_rng(seed).normal(size=(model.dim, encoder.n_columns)) * 0.3
    worth = {name: Worth(100.0, 0.5, 0.1) for name in encoder.names}
    p = encoder.n_columns
    return model.changed(context_effect=AttributePrior(encoder, weights, np.full_like(weights, 0.1), np.eye(p), worth))
