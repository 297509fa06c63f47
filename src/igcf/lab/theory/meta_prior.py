"""Errors of the prior that is estimated from M users, against lemma:event."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from igcf.arrays import FloatArray
from igcf.errors import ConfigError
from igcf.lab.theory.bounds import good_event
from igcf.lab.theory.world import SimulatedWorld, check_count
from igcf.online import Belief, ScoringEngine


@dataclass(frozen=True)
class MetaError:
    """Errors of the prior estimated from M users, over repeated draws of the M users."""

    n_meta: int
    repeats: int
    mean_error: float
    """Mean of |estimated mean - mean|."""
    mean_expected: float
    """Expected error sqrt(trace(cov) / M), the root of its exact mean square."""
    mean_worst: float
    mean_bound: float
    """Bound sqrt(c_1 / M) of the lemma on the error of the mean."""
    cov_error: float
    """Mean of |estimated covariance - covariance| in operator norm, before widening."""
    cov_worst: float
    cov_bound: float
    """Bound gamma of the lemma on the error of the covariance."""
    condition_holds: bool
    failures: int
    """Number of draws in which E_1 or E_2 failed."""


@dataclass(frozen=True)
class ShrunkenError:
    """Errors of the prior estimated from posterior means after a few ratings each, which the lemma does not cover."""

    n_meta: int
    repeats: int
    cov_error: float
    cov_floor: float
    """Operator norm of the mean posterior covariance: what remains for M -> infinity."""
    repaired_error: float
    """Error after adding the mean posterior covariance (law of total variance)."""


def meta_belief(vectors: FloatArray, widening: float = 0.0) -> Belief:
    """Estimate the prior from user vectors (M, d): their mean, their covariance (divisor M - 1) + widening I."""
    if vectors.ndim != 2 or len(vectors) < 2:
        raise ConfigError(f"a prior needs the vectors of at least 2 users as (M, d), got shape {vectors.shape}")
    if not 0 <= widening < np.inf:
        raise ConfigError(f"widening must be zero or more, got {widening!r}")
    d = vectors.shape[1]
    cov = np.cov(vectors, rowvar=False).reshape(d, d) + widening * np.eye(d)
    return Belief(vectors.mean(axis=0), cov)


def simulate_meta_prior(
    world: SimulatedWorld, *, sizes: Sequence[int], rounds: int, repeats: int, rng: np.random.Generator
) -> list[MetaError]:
    """Estimate the prior `repeats` times from M exact user vectors, for every M in `sizes`."""
    check_count("repeats", repeats)
    rows = []
    for n_meta in sizes:
        event = good_event(len(world.mean), world.assumptions.cov_high, n_meta, rounds)
        errors = np.empty((repeats, 2))
        failures = 0
        for repeat in range(repeats):
            estimate = meta_belief(world.draw_users(n_meta, rng))
            errors[repeat] = _errors(estimate, world)
            widened = estimate.cov + event.gamma * np.eye(len(world.mean)) - world.cov
            spread = np.linalg.eigvalsh(widened)
            good = errors[repeat, 0] <= event.mean_error and spread[0] >= 0 and spread[-1] <= event.cov_error
            failures += not good
        rows.append(
            MetaError(
                n_meta=n_meta,
                repeats=repeats,
                mean_error=float(errors[:, 0].mean()),
                mean_expected=float(np.sqrt(np.trace(world.cov) / n_meta)),
                mean_worst=float(errors[:, 0].max()),
                mean_bound=event.mean_error,
                cov_error=float(errors[:, 1].mean()),
                cov_worst=float(errors[:, 1].max()),
                cov_bound=event.gamma,
                condition_holds=event.holds,
                failures=failures,
            )
        )
    return rows


def simulate_shrunken(
    world: SimulatedWorld, *, sizes: Sequence[int], n_ratings: int, most_repeats: int, rng: np.random.Generator
) -> list[ShrunkenError]:
    """Estimate the covariance from posterior means after `n_ratings` random items, computed with the correct prior.

    Each size uses as many disjoint groups of users as a pool of twice the largest size holds, `most_repeats` at most.
    """
    check_count("n_ratings", n_ratings)
    check_count("most_repeats", most_repeats)
    pool = 2 * max(sizes)
    users = world.draw_users(pool, rng)
    rated = rng.random((pool, len(world.items))).argpartition(n_ratings - 1, axis=1)[:, :n_ratings]
    signal = np.einsum("ukd,ud->uk", world.items[rated], users)
    engine = ScoringEngine(world.model(), pool, dtype=np.float64)
    engine.observe(rated, signal + rng.normal(0.0, np.sqrt(world.noise_var), signal.shape))
    floor = float(np.linalg.norm(engine.belief_covs.mean(axis=0), 2))
    rows = []
    for n_meta in sizes:
        groups = [np.arange(start, start + n_meta) for start in range(0, pool - n_meta + 1, n_meta)][:most_repeats]
        raw, repaired = [], []
        for group in groups:
            estimate = meta_belief(engine.belief_means[group])
            missing = engine.belief_covs[group].mean(axis=0)
            raw.append(_errors(estimate, world)[1])
            repaired.append(_errors(Belief(estimate.mean, estimate.cov + missing), world)[1])
        rows.append(ShrunkenError(n_meta, len(groups), float(np.mean(raw)), floor, float(np.mean(repaired))))
    return rows


def fitted_slope(x: npt.ArrayLike, y: npt.ArrayLike) -> float:
    """Fit the exponent p of y ~ x^p, by least squares in logarithms."""
    return float(np.polyfit(np.log(x), np.log(y), 1)[0])


def _errors(estimate: Belief, world: SimulatedWorld) -> tuple[float, float]:
    return (
        float(np.linalg.norm(estimate.mean - world.mean)),
        float(np.linalg.norm(estimate.cov - world.cov, 2)),
    )
