"""What differs between two arms, said so that it stays valid however often one looks.

The interval is the asymptotic confidence sequence of Waudby-Smith, Arbour, Sinha, Kennedy and Ramdas, "Time-uniform
central limit theory and asymptotic confidence sequences" (2021), for the difference of two means: users are the
observations, one number each, and at all numbers of users at once the interval contains the true difference with
probability 1 - alpha, asymptotically. The check of the assignment is the sequential multinomial test of Lindon and
Malek, "Anytime-valid inference for multinomial count data" (2022).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf, log, sqrt
from typing import Literal

import numpy as np
from scipy.special import gammaln
from scipy.stats import norm

from igcf.arrays import FloatArray
from igcf.errors import ConfigError

ALPHA = 0.05
PLANNED_USERS = 10_000  # number of users at which the interval is narrowest, where a plan does not name one
FEWEST_USERS = 50  # users that each arm needs before there is an interval: the sequence is asymptotic
MISMATCH = 0.001  # chance at which an assignment that is as it should be is ever reported as broken
PRIOR_STRENGTH = 100.0  # users that the alternative of the check of the assignment counts for
MOST_USERS = 10**12  # users beyond which there is no plan
Verdict = Literal["better", "worse", "undecided"]


def tuning(planned_users: float, alpha: float = ALPHA) -> float:
    """Return rho squared, for which the interval is narrowest at `planned_users` (their equation for rho)."""
    return (-2 * log(alpha) + log(-2 * log(alpha)) + 1) / planned_users


def radius(std_error: float, n: int, *, planned_users: float = PLANNED_USERS, alpha: float = ALPHA) -> float:
    """Return half the width of the confidence sequence at `n` users, for an estimate with this standard error.

    The boundary sigma * sqrt(2 (n rho^2 + 1) / (n^2 rho^2) * log(sqrt(n rho^2 + 1) / alpha)) with
    sigma = std_error * sqrt(n).
    """
    scaled = n * tuning(planned_users, alpha)
    return std_error * sqrt(2 * (scaled + 1) / scaled * log(sqrt(scaled + 1) / alpha))


@dataclass(frozen=True)
class Difference:
    """What an arm has more than the control, of one metric, with an interval that is valid at every look."""

    mean: float
    control: float
    difference: float
    low: float
    high: float

    @property
    def verdict(self) -> Verdict:
        """Better or worse where the interval leaves zero out."""
        return "better" if self.low > 0 else "worse" if self.high < 0 else "undecided"


def compare(
    arm: FloatArray, control: FloatArray, *, planned_users: float = PLANNED_USERS, alpha: float = ALPHA
) -> Difference:
    """Compare one number per user between two arms.

    The interval is narrowest at `planned_users` of both, chosen before one looks; `alpha` is the chance that it ever
    leaves the true difference out.
    """
    found = [float(each.mean()) if len(each) else 0.0 for each in (arm, control)]
    difference, wide = found[0] - found[1], inf
    if min(len(arm), len(control)) >= FEWEST_USERS:
        error = sqrt(arm.var(ddof=1) / len(arm) + control.var(ddof=1) / len(control))
        if error > 0:
            wide = radius(error, len(arm) + len(control), planned_users=planned_users, alpha=alpha)
    return Difference(found[0], found[1], difference, difference - wide, difference + wide)


def mismatch_evidence(counts: Sequence[int], shares: Sequence[float]) -> float:
    """Return the e-value against the assignment of users (`counts` per arm) by shares that add up to 1.

    `1 / MISMATCH` is ever reached with probability `MISMATCH` at most.
    """
    n, share = np.asarray(counts, dtype=np.float64), np.asarray(shares, dtype=np.float64)
    if n.shape != share.shape or abs(share.sum() - 1) > 1e-6:
        raise ConfigError(f"{n.size} counts and shares that add up to {share.sum():g}; expected one share per count")
    live = share > 0
    if n[~live].any():
        return inf
    n, prior = n[live], PRIOR_STRENGTH * share[live]
    gain = gammaln(prior.sum()) - gammaln((prior + n).sum()) + (gammaln(prior + n) - gammaln(prior)).sum()
    return float(np.exp(min(gain - (n * np.log(share[live])).sum(), 700.0)))


@dataclass(frozen=True)
class Plan:
    """Users of arm and control together, and what they suffice for."""

    users: int
    rate: float
    lift: float
    difference: float
    std: float
    share: float
    power: float
    alpha: float


def plan(
    lift: float, rate: float, *, std: float | None = None, share: float = 0.5, power: float = 0.9, alpha: float = ALPHA
) -> Plan:
    """Find the smallest number of users at which a lift is found with the power asked for.

    `lift` is the relative difference of the means, `rate` the mean in the control, `std` the spread from user to user
    (None: that of a yes or no), `share` that of the arm, `power` the chance that the difference is found at that number
    of users (looks before it find some earlier), `alpha` the chance of a false alarm over all looks.
    """
    for name, value, is_good, wanted in (
        ("lift", lift, abs(lift) > 0, "any number but 0"),
        ("rate", rate, rate > 0, "above 0"),
        ("share", share, 0 < share < 1, "between 0 and 1"),
        ("power", power, 0 < power < 1, "between 0 and 1"),
        ("std", std, std is None or std > 0, "above 0"),
    ):
        if not is_good:
            raise ConfigError(f"{name} is {value:g}; expected {wanted}")
    lifted = rate * (1 + lift)
    if std is None and rate >= 1:
        raise ConfigError(
            f"rate is {rate:g}; pass a share between 0 and 1, or for a metric that is not yes or no also its standard "
            "deviation from user to user (--std)"
        )
    if std is None and not 0 < lifted < 1:
        raise ConfigError(f"a lift of {lift:g} makes a rate of {rate:g} {lifted:g}; expected one between 0 and 1")
    before, after = (sqrt(mean * (1 - mean)) if std is None else std for mean in (rate, lifted))
    difference = abs(lifted - rate)

    def is_enough(n: int) -> bool:
        error = sqrt(after**2 / (n * share) + before**2 / (n * (1 - share)))
        return difference >= radius(error, n, planned_users=n, alpha=alpha) + float(norm.ppf(power)) * error

    low, high = 0, int(FEWEST_USERS / min(share, 1 - share))
    while not is_enough(high):
        low, high = high, high * 2
        if high > MOST_USERS:
            raise ConfigError(f"a lift of {lift:g} of {rate:g} takes more than {MOST_USERS:g} users")
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if is_enough(middle) else (middle, high)
    return Plan(high, rate, lift, difference, before, share, power, alpha)
