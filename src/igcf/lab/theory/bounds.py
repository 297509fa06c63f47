"""Bounds of the paper as functions, in their corrected forms (docs/theory.md says where they differ).

Every bound is a function of `Assumptions`, which refuse what the theorems do not cover.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.stats import chi2

from igcf.arrays import FloatArray
from igcf.lab.theory.world import Assumptions

LARGEST_M = 1e300
"""Number of users at which the search for a sufficient number gives up."""


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
    = 2 gamma that of the widened covariance (E_2), either fails with probability `failure`. The lemma holds from
    `least_users` on.
    """

    gamma: float
    c_1: float
    c_2: float
    mean_error: float
    cov_error: float
    failure: float
    least_users: float
    holds: bool


def good_event(dim: int, cov_high: float, n_meta: int, rounds: int) -> GoodEvent:
    """Compute the constants of eq:choose_f; M centred vectors carry M - 1 independent ones (Cochran), hence M - 1."""
    complexity = _complexity(dim, n_meta, rounds)
    gamma = float(32.0 * cov_high * np.sqrt(complexity / (n_meta - 1)))  # eq:choose_f
    c_1 = float(cov_high * (2.0 * dim + 3.0 * np.log(float(dim) * n_meta * rounds)))
    return GoodEvent(
        gamma,
        c_1,
        c_2=(2.0 * gamma) ** 2 * n_meta,
        mean_error=float(np.sqrt(c_1 / n_meta)),
        cov_error=2.0 * gamma,
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


class MetaRegretBound(NamedTuple):
    """Bound of the paper for a prior estimated from M users (lemma:meta); not proven for this algorithm.

    `bad_event` is the regret where the estimated prior is far off, `exploration` that of the rounds before every
    direction is explored. The theorem asks for M >= `c_delta`, a condition that the paper drops; `users_needed` is the
    smallest M that satisfies it, infinite if none below 1e300 does.
    """

    rounds: int
    n_meta: int
    tau: float
    k_1: float
    bad_event: float
    exploration: float
    total: float
    c_delta: float
    users_needed: float
    condition_holds: bool
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


def meta_regret_bound(
    assumed: Assumptions, rounds: int, n_meta: int, tau: float, tau_norm: float | None = None
) -> MetaRegretBound:
    """Compute the whole bound of thm:regret for a prior from `n_meta` users.

    `tau` are the sufficient rounds of def:tau, `tau_norm` is E[tau |user|] where it is known, for instance from a
    simulation; otherwise tau (m + sqrt(d lambda-bar)), which holds only for a `tau` that is never exceeded.
    """
    event = good_event(assumed.dim, assumed.cov_high, n_meta, rounds)
    base = regret_bound(assumed, rounds)
    log_term = np.log(float(assumed.dim) ** 2 * n_meta * rounds)
    c_bad = 22.0 * assumed.radius * (assumed.mean_norm + np.sqrt(4.0 * assumed.cov_high * log_term))
    bad_event = c_bad / n_meta / np.sqrt(assumed.dim)
    exploration = 2.0 * assumed.radius * (tau * user_norm(assumed) if tau_norm is None else tau_norm)
    k_1, c_delta = meta_constants(assumed, rounds, n_meta, tau)
    total = (1.0 + k_1) * base.correct_prior + bad_event + exploration
    holds = event.holds and n_meta >= c_delta
    needed = least_users(lambda m: max(meta_constants(assumed, rounds, m, tau)[1], event.least_users))
    terms = (float(tau), k_1, float(bad_event), float(exploration), float(total), c_delta, needed)
    return MetaRegretBound(rounds, n_meta, *terms, bool(holds), bool(not holds or total >= base.trivial))


def meta_constants(assumed: Assumptions, rounds: int, n_meta: float, tau: float) -> tuple[float, float]:
    """Return k_1 and c_delta of lemma:meta at delta = 1 / M; its sigma is sigma_noise, its c_1 not the events'."""
    d, delta = assumed.dim, 1.0 / n_meta
    event = good_event(d, assumed.cov_high, int(n_meta), rounds)
    f_m, f_s = event.c_1, event.c_2
    c_s = 2.0 * assumed.noise_var / (assumed.cov_low**2 * assumed.items_low)
    c_xi2 = assumed.noise_var * 5.0 * np.log(d * rounds / delta)
    c_1 = 2.0 / assumed.cov_low * np.log(d**2 * rounds / delta)
    k_1 = 12.0 * np.sqrt(c_xi2 * c_s * f_m * delta)
    k_1 += (c_s * tau + 12.0 * np.sqrt(c_xi2 * c_s * c_1 * d) + 2.0 * c_xi2 * c_s) * np.sqrt(f_s * delta)
    c_delta = max(3.0, c_s**2 * tau**2 * f_s, 18.0 * c_xi2 * c_s * (f_m + (c_1 * d + c_xi2 * c_s / 36.0) * f_s))
    return float(k_1), float(c_delta)


def user_norm(assumed: Assumptions) -> float:
    """Return m + sqrt(d lambda-bar), an upper bound of E|user| (eq:tau2)."""
    return float(assumed.mean_norm + np.sqrt(assumed.dim * assumed.cov_high))
