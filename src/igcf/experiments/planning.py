"""How many users an experiment takes."""

from dataclasses import dataclass
from math import sqrt

from scipy.stats import norm

from igcf.errors import ConfigError
from igcf.experiments.differences import ALPHA, FEWEST_USERS, radius

MOST_USERS = 10**12


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
    lift: float,
    rate: float,
    *,
    std: float | None = None,
    share: float = 0.5,
    power: float = 0.9,
    alpha: float = ALPHA,
) -> Plan:
    """Find the smallest number of users at which a lift is found with the power asked for.

    It counts what is found at that number of users alone; looks before it find some of it earlier.

    Args:
        lift: relative difference of the means, such as 0.05.
        rate: mean of the metric in the control.
        std: spread of the metric from user to user; None: that of a yes or no with this rate.
        share: share of the arm; the control has the rest.
        power: chance that the difference is found.
        alpha: chance of a false alarm, over all looks.
    """
    checks = {"lift": abs(lift) > 0, "rate": rate > 0, "share": 0 < share < 1, "power": 0 < power < 1}
    given = {"lift": lift, "rate": rate, "share": share, "power": power}
    for name, is_good in checks.items():
        if not is_good:
            wanted = "any number but 0" if name == "lift" else "above 0" if name == "rate" else "between 0 and 1"
            raise ConfigError(f"{name} is {given[name]:g}; expected {wanted}")
    if std is None and rate >= 1:
        raise ConfigError(
            f"rate is {rate:g}; pass the standard deviation by user (--std) for a metric other than yes or no"
        )
    if std is not None and std <= 0:
        raise ConfigError(f"std is {std:g}; expected above 0")
    before = sqrt(rate * (1 - rate)) if std is None else std
    lifted = rate * (1 + lift)
    if std is None and not 0 < lifted < 1:
        raise ConfigError(f"a lift of {lift:g} makes a rate of {rate:g} {lifted:g}; expected one between 0 and 1")
    after = sqrt(lifted * (1 - lifted)) if std is None else std
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
