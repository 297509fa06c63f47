"""Calculator of thm:regret with its corrections; it says when its answer means nothing (docs/theory.md)."""

from dataclasses import dataclass

import numpy as np

from igcf.errors import ConfigError
from igcf.lab.theory.bounds import gamma_t, good_event, least_users, max_information_gain
from igcf.lab.theory.world import Assumptions, check_count


@dataclass(frozen=True)
class RegretBound:
    """Bound on the Bayesian regret after T rounds, term by term."""

    rounds: int
    gamma: float
    """Factor Gamma with delta = 1 / (2 T) and a^2 lambda-bar."""
    information: float
    """Largest information that T rounds can reveal, in nats."""
    failure: float
    """Term B: regret of the rounds in which the confidence bound fails."""
    correct_prior: float
    """Proven bound Gamma sqrt(T information) + B, for UCB that starts from the correct prior."""
    printed: float
    """Bound as the paper prints it, without a^2; it holds only if a <= 1."""
    trivial: float
    """Bound 2 a (m + sqrt(d lambda-bar)) T that any policy satisfies."""
    vacuous: bool
    """True if `correct_prior` is no better than `trivial`."""


@dataclass(frozen=True)
class MetaRegretBound:
    """Bound of the paper for a prior estimated from M users (lemma:meta); not proven for this algorithm."""

    rounds: int
    n_meta: int
    tau: float
    k_1: float
    bad_event: float
    """Term c_bad delta / sqrt(d): regret where the estimated prior is far off."""
    exploration: float
    """Term 2 a E[tau |user|]: regret of the rounds before every direction is explored."""
    total: float
    c_delta: float
    """Smallest M that the theorem asks for at this M, a condition that the paper drops."""
    users_needed: float
    """Smallest M that satisfies the condition; infinite if none below 1e300 does."""
    condition_holds: bool
    vacuous: bool
    """True if the condition fails or `total` is no better than the trivial bound."""


def regret_bound(assumed: Assumptions, rounds: int) -> RegretBound:
    """Bound the regret of InfoUcb(delta = 1 / (2 T)) with the correct prior (lemma:bayesian regret, a^2 corrected)."""
    check_count("rounds", rounds)
    delta = 1.0 / (2.0 * rounds)
    gamma = gamma_t(assumed.radius**2 * assumed.cov_high, assumed.noise_var, assumed.n_items, delta)
    information = max_information_gain(assumed, rounds)
    failure = assumed.radius * user_norm(assumed)
    bound = gamma * np.sqrt(rounds * information) + failure
    printed_gamma = gamma_t(assumed.cov_high, assumed.noise_var, assumed.n_items, delta)
    printed_information = assumed.dim / 2.0 * np.log1p(assumed.cov_high * rounds / assumed.noise_var)
    trivial = 2.0 * failure * rounds
    return RegretBound(
        rounds=rounds,
        gamma=gamma,
        information=information,
        failure=failure,
        correct_prior=float(bound),
        printed=float(printed_gamma * np.sqrt(rounds * printed_information) + failure),
        trivial=trivial,
        vacuous=bool(bound >= trivial),
    )


def informative_from(assumed: Assumptions) -> int:
    """Return the T from which on the bound for the correct prior beats the trivial one, at most 2^60."""
    rounds = 2**60
    while rounds > 1 and not regret_bound(assumed, rounds // 2).vacuous:
        rounds //= 2
    low = rounds // 2  # vacuous, or 0
    while rounds - low > 1:
        middle = (low + rounds) // 2
        low, rounds = (middle, rounds) if regret_bound(assumed, middle).vacuous else (low, middle)
    return rounds


def meta_regret_bound(
    assumed: Assumptions, rounds: int, n_meta: int, tau: float, tau_norm: float | None = None
) -> MetaRegretBound:
    """Compute the whole bound of thm:regret for a prior from `n_meta` users.

    Args:
        assumed: the constants.
        rounds: T.
        n_meta: M.
        tau: the sufficient rounds of def:tau; T or more if some direction is never explored.
        tau_norm: E[tau |user|] where it is known, for instance from a simulation; otherwise the calculator takes
            tau (m + sqrt(d lambda-bar)), which holds only for a `tau` that is never exceeded.
    """
    if not 0 <= tau < np.inf:
        raise ConfigError(f"tau must be zero or more and finite, got {tau!r}; use rounds if it is never reached")
    event = good_event(assumed.dim, assumed.cov_high, n_meta, rounds)
    base = regret_bound(assumed, rounds)
    log_term = np.log(float(assumed.dim) ** 2 * n_meta * rounds)
    c_bad = 22.0 * assumed.radius * (assumed.mean_norm + np.sqrt(4.0 * assumed.cov_high * log_term))
    bad_event = c_bad / n_meta / np.sqrt(assumed.dim)
    exploration = 2.0 * assumed.radius * (tau * user_norm(assumed) if tau_norm is None else tau_norm)
    k_1, c_delta = meta_constants(assumed, rounds, n_meta, tau)
    total = (1.0 + k_1) * base.correct_prior + bad_event + exploration
    holds = event.holds and n_meta >= c_delta
    return MetaRegretBound(
        rounds=rounds,
        n_meta=n_meta,
        tau=float(tau),
        k_1=k_1,
        bad_event=float(bad_event),
        exploration=float(exploration),
        total=float(total),
        c_delta=c_delta,
        users_needed=least_users(lambda m: max(meta_constants(assumed, rounds, m, tau)[1], event.least_users)),
        condition_holds=bool(holds),
        vacuous=bool(not holds or total >= base.trivial),
    )


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
    """Return m + sqrt(d lambda-bar), which is no less than E|user| (eq:tau2)."""
    return float(assumed.mean_norm + np.sqrt(assumed.dim * assumed.cov_high))
