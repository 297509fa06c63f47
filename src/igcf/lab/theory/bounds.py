"""Bounds of the paper as functions, in their corrected forms (docs/theory.md says where they differ)."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.stats import chi2

from igcf.arrays import FloatArray
from igcf.errors import ConfigError
from igcf.lab.theory.world import Assumptions, check_count, check_delta, check_positive

LARGEST_M = 1e300
"""Number of users at which the search for a sufficient number gives up."""


def mutual_information(var: npt.ArrayLike, noise_var: float) -> FloatArray:
    """Return I(user; item, reward) = log(1 + var / noise_var) / 2 in nats, var = e' cov e (lemma:m_info)."""
    check_positive("noise_var", noise_var)
    spread = np.asarray(var, dtype=np.float64)
    if not (spread >= 0).all():
        raise ConfigError("var must not be negative; a covariance has no negative eigenvalues")
    return np.asarray(np.log1p(spread / noise_var) / 2.0)


def information_gain(cov: FloatArray, X: FloatArray, noise_var: float) -> float:
    """Return what all rows of `X` reveal together: log det(I + cov X'X / noise_var) / 2, the sum of I_t over rounds."""
    check_positive("noise_var", noise_var)
    return float(np.linalg.slogdet(np.eye(len(X)) + X @ cov @ X.T / noise_var)[1] / 2.0)


def max_information_gain(assumed: Assumptions, rounds: int) -> float:
    """Return the most that `rounds` items can reveal: (d / 2) log(1 + a^2 lambda-bar T / (d noise_var)).

    Deviation: a^2 (the paper has 1) and the division by d (arithmetic and geometric mean of the eigenvalues).
    """
    check_count("rounds", rounds)
    d, trace = assumed.dim, assumed.radius**2 * assumed.cov_high * rounds
    return float(d / 2 * np.log1p(trace / (d * assumed.noise_var)))


def gamma_t(lambda_t: float, noise_var: float, n_items: int, delta: float) -> float:
    """Return Gamma_t of thm:ucb, 4 sqrt(lambda_t / log(1 + lambda_t / noise_var) * log(2 |A| / delta))."""
    check_positive("noise_var", noise_var)
    check_count("n_items", n_items)
    check_delta(delta)
    if not 0 <= lambda_t < np.inf:
        raise ConfigError(f"lambda_t must be zero or more, got {lambda_t!r}")
    log_term = np.log1p(lambda_t / noise_var)
    ratio = lambda_t / log_term if log_term > 0 else noise_var  # its limit at 0
    return float(4.0 * np.sqrt(ratio * np.log(2.0 * n_items / delta)))


def nu_t(lambda_t: float, noise_var: float, n_items: int, delta: float) -> float:
    """Return nu_t of eq:UCB2, Gamma_t / (2 sqrt(2) sigma_noise): the factor of the standard deviation."""
    return float(gamma_t(lambda_t, noise_var, n_items, delta) / (2.0 * np.sqrt(2.0 * noise_var)))


def information_width(var: npt.ArrayLike, noise_var: float, delta: float) -> FloatArray:
    """Return the half-width Gamma_t / 2 * sqrt(I) of thm:ucb; the last axis of `var` runs over the candidates."""
    info = mutual_information(var, noise_var)
    n_items = info.shape[-1]
    largest = np.max(np.asarray(var, dtype=np.float64), axis=-1)
    gammas = [gamma_t(float(each), noise_var, n_items, delta) for each in np.ravel(largest)]
    return np.asarray(np.reshape(gammas, largest.shape)[..., None] / 2.0 * np.sqrt(info))


def union_factor(n_items: int, delta: float) -> float:
    """Return the standard deviations of the plain Gaussian union bound, sqrt(2 log(2 |A| / delta))."""
    check_count("n_items", n_items)
    check_delta(delta)
    return float(np.sqrt(2.0 * np.log(2.0 * n_items / delta)))


def ellipsoid_factor(dim: int, delta: float) -> float:
    """Return the standard deviations that cover every direction at once: |e . z| <= |e| |z| with |z|^2 ~ chi2(d)."""
    check_count("dim", dim)
    check_delta(delta)
    return float(np.sqrt(chi2.ppf(1.0 - delta, dim)))


@dataclass(frozen=True)
class GoodEvent:
    """Constants of lemma:event for the prior estimated from M users, delta = 1 / M; M - 1 where the paper has M."""

    gamma: float
    """Number added to the diagonal of the estimated covariance."""
    c_1: float
    c_2: float
    mean_error: float
    """Bound sqrt(c_1 / M) on the error of the estimated mean (event E_1)."""
    cov_error: float
    """Bound sqrt(c_2 / M) = 2 gamma on the error of the widened covariance, in operator norm (event E_2)."""
    failure: float
    """Probability 9 / (M d T) that one of the events fails."""
    least_users: float
    """Smallest number of users M for which the lemma holds at this d and T."""
    holds: bool
    """True if M is at least that."""


def good_event(dim: int, cov_high: float, n_meta: int, rounds: int) -> GoodEvent:
    """Compute the constants of eq:choose_f; M centred vectors carry M - 1 independent ones (Cochran), hence M - 1."""
    check_count("dim", dim)
    check_count("n_meta", n_meta, 2)
    check_count("rounds", rounds)
    check_positive("cov_high", cov_high)
    complexity = _complexity(dim, n_meta, rounds)
    gamma = 32.0 * cov_high * np.sqrt(complexity / (n_meta - 1))  # eq:choose_f
    c_1 = cov_high * (2.0 * dim + 3.0 * np.log(float(dim) * n_meta * rounds))
    c_2 = (2.0 * gamma) ** 2 * n_meta
    return GoodEvent(
        gamma=float(gamma),
        c_1=float(c_1),
        c_2=float(c_2),
        mean_error=float(np.sqrt(c_1 / n_meta)),
        cov_error=float(2.0 * gamma),
        failure=9.0 / (float(n_meta) * dim * rounds),
        least_users=least_users(lambda m: 1.0 + _complexity(dim, m, rounds)),
        holds=n_meta - 1 >= complexity,
    )


def least_users(needed: Callable[[float], float]) -> float:
    """Return the smallest M with M >= needed(M), for a `needed` that grows slower than M; inf beyond all reason."""
    users = 2.0
    while users < LARGEST_M:
        wanted = float(np.ceil(needed(users)))
        if wanted <= users:
            return users
        users = wanted
    return float("inf")


def _complexity(dim: int, n_meta: float, rounds: int) -> float:
    return float(5.0 * dim + 2.0 * max(np.log(dim * n_meta * rounds / 3.0), 0.0))
