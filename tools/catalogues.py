"""Catalogues of any size for `tools.retrieval`, and beliefs about users of a log."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import scipy.sparse as sp

from igcf.arrays import Float32Array
from igcf.data.interactions import Interactions
from igcf.model import Model, Reward
from igcf.online import Belief, Policy, Recommender, prior_belief
from igcf.training.experts.linear import fit_linear

JITTER = 0.3
"""Standard deviation of the noise on replicated vectors, as a share of each column's own."""
GROUPS = 1_000
CHUNK = 50_000


def linear_model(log: Interactions, dim: int) -> Model:
    """Fit a linear model of successes to a log: their means and `dim` - 1 principal components."""
    reward = Reward("satisfied", threshold=4.0, low=1.0, high=5.0)
    is_success = log.values >= reward.threshold
    places = log.user_idx[is_success], log.item_idx[is_success]
    successes = sp.csr_array((np.ones(len(places[0])), places), shape=(log.n_users, log.n_items))
    expert = fit_linear([successes], dim - 1)
    mean = np.zeros(dim)
    mean[0] = 1.0
    return Model(
        item_ids=log.item_ids,
        item_vectors=np.column_stack([expert.means, expert.loadings]),
        noise_var=np.maximum(expert.residuals, 1e-4),
        prior_mean=mean,
        prior_cov=np.diag(1.0 - mean),
        reward=reward,
    )


def replicated(model: Model, n_items: int, *, seed: int = 0) -> Model:
    """Repeat the items of a model with some noise, for its population."""
    rng = np.random.default_rng(seed)
    vectors = []
    for channel in model.channels:
        spread = (JITTER * channel.vectors.std(axis=0)).astype(np.float32)
        own = np.empty((n_items, channel.vectors.shape[1]), dtype=np.float32)
        for rows in _chunks(n_items):
            noise = rng.standard_normal((len(rows), own.shape[1]), dtype=np.float32)
            own[rows] = channel.vectors[rows % model.n_items] + spread * noise
        vectors.append(own)
    return _with_vectors(model, vectors, np.arange(n_items) % model.n_items)


def clustered(model: Model, n_items: int, *, seed: int = 0) -> Model:
    """Draw items in a thousand groups, with the moments of a model's own: most variance between groups."""
    rng = np.random.default_rng(seed)
    joint = np.concatenate([channel.vectors for channel in model.channels], axis=1).astype(np.float64)
    size, axes = np.linalg.eigh(np.cov(joint.T))
    root = (axes * np.sqrt(np.maximum(size, 0.0))).T.astype(np.float32)
    groups = joint.mean(axis=0) + np.sqrt(0.8) * rng.standard_normal((GROUPS, len(root))) @ root
    group = (rng.random(n_items) ** 1.5 * GROUPS).astype(np.int64)
    ends = np.cumsum([channel.vectors.shape[1] for channel in model.channels])
    vectors = [np.empty((n_items, channel.vectors.shape[1]), dtype=np.float32) for channel in model.channels]
    for rows in _chunks(n_items):
        noise = rng.standard_normal((len(rows), len(root)), dtype=np.float32) @ root
        drawn = groups[group[rows]] + np.sqrt(0.2) * noise
        for own, part in zip(vectors, np.split(drawn, ends[:-1], axis=1), strict=True):
            own[rows] = part
    return _with_vectors(model, vectors, rng.integers(model.n_items, size=n_items))


def replayed_beliefs(
    model: Model, log: Interactions, policy: Policy, stages: Sequence[int], n_users: int
) -> list[tuple[int, Belief]]:
    """Return numbers of reactions and beliefs of users of a log who were shown one item after the other.

    An item that a user has no reaction to in the log was shown without one.
    """
    found = [(0, prior_belief(model))]
    for user in np.random.default_rng(1).permutation(log.n_users)[:n_users].tolist():
        own = log.user_idx == user
        known = {
            log.item_ids[row]: value for row, value in zip(log.item_idx[own], log.values[own].tolist(), strict=True)
        }
        session = Recommender(model, policy).session()
        for number in range(1, max(stages) + 1):
            item_id = session.recommend()[0].item_id
            session.observe(item_id, known.get(item_id))
            if number in stages:
                found.append((number, session.belief))
    return found


def _chunks(n_items: int) -> list[np.ndarray]:
    return [np.arange(first, min(first + CHUNK, n_items)) for first in range(0, n_items, CHUNK)]


def _with_vectors(model: Model, vectors: list[Float32Array], originals: np.ndarray) -> Model:
    pairs = zip(model.channels, vectors, strict=True)
    return Model(
        channels=[replace(channel, vectors=own, noise_var=channel.noise_var[originals]) for channel, own in pairs],
        terms=model.terms,
        item_ids=[str(row) for row in range(len(originals))],
        prior_mean=model.prior_mean,
        prior_cov=model.prior_cov,
        reward=model.reward,
        usage=model.usage,
    )
