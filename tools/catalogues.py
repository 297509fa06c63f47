"""Catalogues of a million items for `tools.retrieval`, and beliefs about simulated users of them."""

from dataclasses import dataclass

import numpy as np

from igcf.arrays import Float32Array, FloatArray, IntArray, covariance_root
from igcf.model import Model
from igcf.online import Belief

NU = 0.5
STAGES = (0, 10, 100)
"""Numbers of reactions of the users that are simulated."""
JITTER = 0.3
"""Standard deviation of the noise on replicated vectors, as a share of each column's own."""
MET = 20_000
"""Number of items among which a simulated user's next one is chosen, so that histories look like recommendations."""


@dataclass(frozen=True, eq=False)
class SimulatedCatalogue:
    """Items and a population of users; rewards are linear in the user's vector."""

    name: str
    vectors: Float32Array
    prior: Belief
    noise_var: float


def mixture(n_items: int, dim: int, *, seed: int = 0) -> SimulatedCatalogue:
    """Draw items in a thousand groups, in a space whose directions matter less and less; lengths differ."""
    rng = np.random.default_rng(seed)
    spectrum = np.arange(1, dim + 1) ** -0.4
    spectrum /= np.linalg.norm(spectrum)
    centres = rng.standard_normal((1000, dim)) * spectrum
    group = (rng.random(n_items) ** 1.5 * len(centres)).astype(np.int64)
    vectors = np.empty((n_items, dim), dtype=np.float32)
    for start in range(0, n_items, 100_000):
        part = slice(start, min(start + 100_000, n_items))
        size = (part.stop - part.start, dim)
        vectors[part] = centres[group[part]] + 0.5 * rng.standard_normal(size) * spectrum
        vectors[part] *= rng.lognormal(0.0, 0.3, size=(size[0], 1))
    mean = rng.standard_normal(dim) * spectrum
    basis = rng.standard_normal((dim, dim)) / np.sqrt(dim)
    return SimulatedCatalogue(
        "mixture", vectors, Belief(mean, 0.5 * np.diag(spectrum * 4) + 0.1 * basis @ basis.T), 0.2
    )


def replicated(model: Model, n_items: int, *, seed: int = 0) -> SimulatedCatalogue:
    """Repeat the items of a model with some noise, for its population."""
    rng = np.random.default_rng(seed)
    spread = (JITTER * model.item_vectors.std(axis=0)).astype(np.float32)
    vectors = np.empty((n_items, model.dim), dtype=np.float32)
    for start in range(0, n_items, 100_000):
        rows = np.arange(start, min(start + 100_000, n_items))
        noise = rng.standard_normal((len(rows), model.dim), dtype=np.float32)
        vectors[rows] = model.item_vectors[rows % model.n_items] + spread * noise
    prior = Belief(np.asarray(model.prior_mean), np.asarray(model.prior_cov))
    return SimulatedCatalogue("replicated model", vectors, prior, float(np.median(model.item_noise)))


def beliefs(catalogue: SimulatedCatalogue, n_users: int, *, seed: int = 1) -> list[tuple[int, Belief]]:
    """Return numbers of reactions and beliefs of simulated users who reacted to what the exact bound shows."""
    found = [(0, catalogue.prior)] if STAGES[0] == 0 else []
    for user in range(n_users):
        rng = np.random.default_rng([seed, user])
        taste = catalogue.prior.mean + covariance_root(catalogue.prior.cov) @ rng.standard_normal(
            catalogue.prior.mean.size
        )
        belief = catalogue.prior
        for t in range(1, max(STAGES) + 1):
            rows = rng.integers(0, len(catalogue.vectors), min(MET, len(catalogue.vectors)))
            _, order = scored(catalogue.vectors, rows, belief)
            x = catalogue.vectors[rows[order[0]]].astype(np.float64)
            belief = belief.updated(
                x, float(x @ taste + np.sqrt(catalogue.noise_var) * rng.standard_normal()), catalogue.noise_var
            )
            if t in STAGES:
                found.append((t, belief))
    return found


def scored(vectors: Float32Array, rows: IntArray | slice, belief: Belief) -> tuple[FloatArray, IntArray]:
    """Return the exact upper confidence bounds of some rows, and their order, best first."""
    X = vectors[rows]
    var = np.einsum("nd,nd->n", X @ belief.cov.astype(np.float32), X)
    scores = X @ belief.mean.astype(np.float32) + NU * np.sqrt(np.maximum(var, 0.0))
    return scores.astype(np.float64), np.argsort(-scores, kind="stable")
