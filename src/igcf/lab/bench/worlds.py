"""Inputs of the benchmark: random models, random logs with popular and unpopular items, and the textbook algorithm."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from igcf.arrays import Float32Array, FloatArray, IntArray
from igcf.data.interactions import Interactions
from igcf.encoding import Attribute, Encoder
from igcf.model import Channel, Model, Reward, Term
from igcf.model.attribute_prior import AttributePrior
from igcf.model.channel import Link
from igcf.model.reward import RewardKind
from igcf.online import Ucb

SHIPPED = Ucb(0.0)
"""The policy that training chooses on every data set of this project."""

LEVELS = ("a", "b", "c", "d")
"""Values of the attributes and contexts of random users."""
STARS = Reward("satisfied", threshold=4.0, low=1.0, high=5.0)


def random_vectors(n_items: int, dim: int, *, seed: int = 0) -> Float32Array:
    """Draw item vectors of length about 1."""
    vectors = np.random.default_rng(seed).standard_normal((n_items, dim), dtype=np.float32)
    vectors /= np.float32(np.sqrt(dim))
    return vectors


def random_model(vectors: Float32Array, *, seed: int = 1) -> Model:
    """Build a model with these item vectors and a population that is neither centred nor round."""
    rng = np.random.default_rng(seed)
    n_items, dim = vectors.shape
    root, mean = rng.normal(size=(dim, dim + 2)) / np.sqrt(dim), rng.normal(size=dim)
    prior = {"prior_mean": mean, "prior_cov": root @ root.T, "noise_var": 0.3}
    return Model(item_vectors=vectors, item_ids=list(map(str, range(n_items))), reward=STARS, **prior)


def random_experts(
    n_items: int,
    linear_dim: int,
    logistic_dim: int,
    *,
    seed: int = 1,
    seen: float = -2.0,
    categories: Sequence[tuple[str, ...]] | None = None,
) -> Model:
    """Build a model like the default one: half a linear expert, half the product of two logistic probabilities.

    `seen` is the logit of being seen of an average item.
    """
    kinds: list[tuple[RewardKind, Link, int, int]] = [
        ("satisfied", "identity", linear_dim, 0),
        ("exposed", "identity", linear_dim, 0),
        ("exposed", "logit", logistic_dim, linear_dim),
        ("liked", "logit", logistic_dim, linear_dim),
    ]
    channels = []
    for number, (kind, link, width, start) in enumerate(kinds):
        vectors = random_vectors(n_items, width, seed=seed + number) * np.float32(0.3)
        # meets the constant of the user's vector
        vectors[:, 0] = 0.1 if link == "identity" else seen if kind == "exposed" else -2.0
        if link == "logit":
            vectors[:, 1] = 1.0 if kind == "exposed" else 0.0  # how active the user is
        channels.append(Channel(vectors, np.full(n_items, 0.3), replace(STARS, kind=kind), link, start))
    mean = np.zeros(linear_dim + logistic_dim)
    mean[[0, linear_dim]] = 1.0
    return Model(
        channels=channels,
        terms=[Term(0.5, (0,)), Term(0.5, (2, 3))],
        prior_mean=mean,
        prior_cov=np.diag(1.0 - mean),
        item_ids=[str(row) for row in range(n_items)],
        reward=STARS,
        categories=categories,
    )


def with_random_features(model: Model, n_attributes: int, n_contexts: int, *, seed: int = 6) -> Model:
    """Let categories of users move all of the user's vector, and those of requests its first block, as if trained."""

    def prior(what: str, n: int, span: slice) -> AttributePrior:
        encoder = Encoder(tuple(Attribute(f"{what} {k}", "category", LEVELS, (0.25,) * 4) for k in range(n)), what)
        weights = np.zeros((model.dim, encoder.n_columns))
        weights[span] = 0.02 * np.random.default_rng(seed).standard_normal(weights[span].shape)
        spread = np.eye(encoder.n_columns) / 4.0
        return AttributePrior(encoder, weights, np.abs(weights), spread, {})

    own = model.changed(attribute_prior=prior("attribute", n_attributes, slice(None)))
    return own.changed(context_effect=prior("context", n_contexts, model.blocks[0][0]))


def random_low_pass(n_items: int, rank: int, *, seed: int = 4) -> Float32Array:
    """Draw the directions of a low-pass filter."""
    return np.random.default_rng(seed).standard_normal((n_items, rank), dtype=np.float32) / np.float32(n_items)


def random_truth(n_users: int, n_items: int, *, seed: int = 2) -> Float32Array:
    """Draw the stars of every user for every item."""
    return np.random.default_rng(seed).integers(1, 6, size=(n_users, n_items)).astype(np.float32)


def random_pairs(
    n_users: int, n_items: int, n_pairs: int, *, seed: int = 3
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]:
    """Draw distinct user-item pairs, at most `n_pairs` of them, some users and items far more active than others.

    Ranks are drawn as u^2 x size, which makes the most popular tenth of the items take a third of the pairs.
    """
    rng = np.random.default_rng(seed)
    keys = np.empty(0, dtype=np.int64)
    for _ in range(20):
        missing = n_pairs - len(keys)
        if missing <= 0:
            break
        users = (rng.random(missing + missing // 4) ** 1.5 * n_users).astype(np.int64)
        items = (rng.random(len(users)) ** 2 * n_items).astype(np.int64)
        keys = np.unique(np.concatenate([keys, users * n_items + items]))
    if len(keys) > n_pairs:
        keys = keys[np.sort(rng.permutation(len(keys))[:n_pairs])]
    return (keys // n_items).astype(np.int32), (keys % n_items).astype(np.int32)


def random_log(n_users: int, n_items: int, n_pairs: int, *, seed: int = 3) -> Interactions:
    """Draw a log of such pairs with one to five stars."""
    users, items = random_pairs(n_users, n_items, n_pairs, seed=seed)
    stars = np.random.default_rng(seed + 1).integers(1, 6, size=len(users)).astype(np.float32)
    return Interactions(
        user_ids=tuple(f"u{row}" for row in range(n_users)),
        item_ids=tuple(f"i{row}" for row in range(n_items)),
        user_idx=users,
        item_idx=items,
        values=stars,
        name="random",
    )


class TextbookUser:
    """One user of a linear model by eq:update_dis and eq:UCB2 as printed, in float64.

    Every round inverts the precision and computes all variances anew.
    """

    def __init__(self, model: Model, *, nu: float = 0.5) -> None:
        self.model, self.nu = model, nu
        self.items = model.item_vectors.astype(np.float64)
        self.precision = np.linalg.inv(model.prior_cov)
        self.information = self.precision @ model.prior_mean
        self.is_seen = np.zeros(model.n_items, dtype=np.bool_)

    def moments(self) -> tuple[FloatArray, FloatArray]:
        """Return means and variances of all items."""
        cov = np.linalg.inv(self.precision)
        variances = np.einsum("nd,nd->n", self.items @ cov, self.items)
        return self.items @ (cov @ self.information), np.maximum(variances, 0.0)

    def recommend(self, k: int) -> IntArray:
        """Return the rows of the `k` best items, best first."""
        means, variances = self.moments()
        scores = means + self.nu * np.sqrt(variances)
        scores[self.is_seen] = -np.inf
        best = np.argpartition(scores, len(scores) - k)[-k:]
        return np.asarray(best[np.argsort(-scores[best])])

    def observe(self, row: int, value: float) -> None:
        """Add one reaction."""
        x = self.items[row]
        weight = 1.0 / self.model.item_noise[row]
        self.precision += weight * np.outer(x, x)
        self.information += weight * float(self.model.reward.of(value)) * x
        self.is_seen[row] = True
