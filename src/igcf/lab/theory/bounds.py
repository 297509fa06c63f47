"""Bounds of the paper as functions, in their corrected forms (docs/theory.md says where they differ).

Every bound is a function of `Assumptions`, which refuse what the theorems do not cover.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.stats import chi2

from igcf.arrays import FloatArray
from igcf.lab.theory.world import Assumptions


def mutual_information(var: npt.ArrayLike, noise_var: float) -> FloatArray:
    """Return I(user; item, reward) = log(1 + var / noise_var) / 2 in nats, var = e' cov e (lemma:m_info)."""
    return np.asarray(np.log1p(np.asarray(var, dtype=np.float64) / noise_var) / 2.0)


def max_information_gain(assumed: Assumptions, rounds: int) -> float:
    """Return the most that `rounds` items can reveal: (d / 2) log(1 + a^2 lambda-bar T / (d noise_var)).

    Deviation: a^2 (the paper has 1) and the division by d (arithmetic and geometric mean of the eigenvalues).
    """
    d, trace = assumed.dim, assumed.radius**2 * assumed.cov_high * rounds
    return float(d / 2 * np.log1p(trace / (d * assumed.noise_var)))


def gamma_t(lambda_t: float, noise_var: float, n_items: int, delta: float) -> float:
    """Return Gamma_t of thm:ucb, 4 sqrt(lambda_t / log(1 + lambda_t / noise_var) * log(2 |A| / delta))."""
    log_term = np.log1p(lambda_t / noise_var)
    ratio = lambda_t / log_term if log_term > 0 else noise_var  # its limit at 0
    return float(4.0 * np.sqrt(ratio * np.log(2.0 * n_items / delta)))


def nu_t(lambda_t: float, noise_var: float, n_items: int, delta: float) -> float:
    """Return nu_t of eq:UCB2, Gamma_t / (2 sqrt(2) sigma_noise): the factor of the standard deviation."""
    return float(gamma_t(lambda_t, noise_var, n_items, delta) / (2.0 * np.sqrt(2.0 * noise_var)))


def union_factor(n_items: int, delta: float) -> float:
    """Return the standard deviations of the plain Gaussian union bound, sqrt(2 log(2 |A| / delta))."""
    return float(np.sqrt(2.0 * np.log(2.0 * n_items / delta)))


def ellipsoid_factor(dim: int, delta: float) -> float:
    """Return the standard deviations that cover every direction at once: |e . z| <= |e| |z| with |z|^2 ~ chi2(d)."""
    return float(np.sqrt(chi2.ppf(1.0 - delta, dim)))


class GoodEvent(NamedTuple):
    """Constants of lemma:event for the prior estimated from M users, delta = 1 / M; M - 1 where the paper has M.

    `gamma` is added to the diagonal of the covariance; sqrt(c_1 / M) bounds the error of the mean (E_1), sqrt(c_2 / M)
    = 2 gamma that of the widened covariance (E_2), either fails with probability `failure`. `holds` tells whether M is
    large enough for the lemma.
    """

    gamma: float
    c_1: float
    c_2: float
    mean_error: float
    cov_error: float
    failure: float
    holds: bool


def good_event(dim: int, cov_high: float, n_meta: int, rounds: int) -> GoodEvent:
    """Compute the constants of eq:choose_f; M centred vectors carry M - 1 independent ones (Cochran), hence M - 1."""
    complexity = 5.0 * dim + 2.0 * max(np.log(dim * n_meta * rounds / 3.0), 0.0)
    gamma = float(32.0 * cov_high * np.sqrt(complexity / (n_meta - 1)))  # eq:choose_f
    c_1 = float(cov_high * (2.0 * dim + 3.0 * np.log(float(dim) * n_meta * rounds)))
    return GoodEvent(
        gamma,
        c_1,
        c_2=(2.0 * gamma) ** 2 * n_meta,
        mean_error=float(np.sqrt(c_1 / n_meta)),
        cov_error=2.0 * gamma,
        failure=9.0 / (float(n_meta) * dim * rounds),
        holds=bool(n_meta - 1 >= complexity),
    )


class RegretBound(NamedTuple):
    """Bound on the Bayesian regret after T rounds, term by term.

    `correct_prior` is the proven bound gamma sqrt(T information) + failure for UCB that starts from the correct prior,
    `printed` the paper's, without a^2, which holds only if a <= 1, and `trivial` what any policy satisfies; a bound
    that does not improve on it is `vacuous`.
    """

    rounds: int
    gamma: float
    information: float
    failure: float
    correct_prior: float
    printed: float
    trivial: float
    vacuous: bool


def regret_bound(assumed: Assumptions, rounds: int) -> RegretBound:
    """Bound the regret of InfoUcb(delta = 1 / (2 T)) with the correct prior (lemma:bayesian regret, a^2 corrected)."""
    delta, noise_var, n_items = 1.0 / (2.0 * rounds), assumed.noise_var, assumed.n_items
    gamma = gamma_t(assumed.radius**2 * assumed.cov_high, noise_var, n_items, delta)
    information = max_information_gain(assumed, rounds)
    failure = assumed.radius * user_norm(assumed)
    bound = float(gamma * np.sqrt(rounds * information) + failure)
    printed_information = assumed.dim / 2.0 * np.log1p(assumed.cov_high * rounds / noise_var)
    root = np.sqrt(rounds * printed_information)
    printed = float(gamma_t(assumed.cov_high, noise_var, n_items, delta) * root + failure)
    trivial = 2.0 * failure * rounds
    return RegretBound(rounds, gamma, information, failure, bound, printed, trivial, bound >= trivial)


def informative_from(assumed: Assumptions) -> int:
    """Return the T from which on the bound for the correct prior beats the trivial one, at most 2^60."""
    low, high = 0, 2**60
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if regret_bound(assumed, middle).vacuous else (low, middle)
    return high


def user_norm(assumed: Assumptions) -> float:
    """Return m + sqrt(d lambda-bar), an upper bound of E|user| (eq:tau2)."""
    return float(assumed.mean_norm + np.sqrt(assumed.dim * assumed.cov_high))
