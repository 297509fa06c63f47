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

from igcf.arrays import FloatArray
from igcf.errors import ConfigError

ALPHA = 0.05
PLANNED_USERS = 10_000
"""Number of users at which the interval is narrowest, where a plan does not name one."""
FEWEST_USERS = 50
"""Users that each arm needs before anything is said: the sequence is asymptotic."""
MISMATCH = 0.001
"""Chance at which an assignment that is as it should be is ever reported as broken."""
PRIOR_STRENGTH = 100.0
"""Users that the alternative of the check of the assignment counts for."""
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

    Args:
        arm: a number for each user of the arm.
        control: the same for the users of the control.
        planned_users: users of both at which the interval is narrowest; chosen before one looks.
        alpha: chance that the interval ever leaves the true difference out.
    """
    found = [float(each.mean()) if len(each) else 0.0 for each in (arm, control)]
    difference, wide = found[0] - found[1], inf
    if min(len(arm), len(control)) >= FEWEST_USERS:
        error = sqrt(arm.var(ddof=1) / len(arm) + control.var(ddof=1) / len(control))
        if error > 0:
            wide = radius(error, len(arm) + len(control), planned_users=planned_users, alpha=alpha)
    return Difference(found[0], found[1], difference, difference - wide, difference + wide)


def mismatch_evidence(counts: Sequence[int], shares: Sequence[float]) -> float:
    """Return the e-value against the assignment: `1 / MISMATCH` is ever reached with probability `MISMATCH` at most.

    Args:
        counts: users per arm.
        shares: the share that each arm should have; they add up to 1.
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
