"""Coverage of the confidence bound of thm:ucb: users drawn from the prior, all items at once, igcf's own code."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.stats import beta

from igcf.arrays import BoolArray, FloatArray
from igcf.errors import ConfigError
from igcf.lab.theory.bounds import ellipsoid_factor, nu_t, union_factor
from igcf.lab.theory.world import SimulatedWorld, check_count, check_delta
from igcf.online import Belief, InfoUcb, ScoringEngine, top_k

BLOCK = 250
"""Number of users in lock-step at a time."""


@dataclass(frozen=True)
class Rate:
    """Frequency of an event, with the exact 95 % interval of Clopper and Pearson."""

    count: int
    n: int
    rate: float
    low: float
    high: float


@dataclass(frozen=True)
class Coverage:
    """Share of users for whom some item's score left its interval after `seen` reactions, for three bounds."""

    dim: int
    n_items: int
    seen: int
    delta: float
    information: Rate
    """Failure rate of thm:ucb, as `InfoUcb` computes it."""
    union: Rate
    """Failure rate of the plain Gaussian union bound."""
    ellipsoid: Rate
    """Failure rate of the chi-square ellipsoid."""
    nu_theorem: float
    """Mean over users of nu_t of eq:UCB2."""
    nu_union: float
    nu_ellipsoid: float
    nu_needed: float
    """Smallest nu, as measured, with which mean +- nu std covers all items for a share 1 - delta of the users."""


def failure_rate(failed: BoolArray) -> Rate:
    """Return the share of True with its exact confidence interval."""
    n, count = failed.size, int(np.count_nonzero(failed))
    low = float(beta.ppf(0.025, count, n - count + 1)) if count else 0.0
    high = float(beta.ppf(0.975, count + 1, n - count)) if count < n else 1.0
    return Rate(count, n, count / n, low, high)


def simulate_coverage(
    world: SimulatedWorld,
    *,
    deltas: Sequence[float],
    seen: Sequence[int] = (0, 5, 20),
    n_users: int = 2000,
    prior: Belief | None = None,
    rng: np.random.Generator,
) -> list[Coverage]:
    """Meet `n_users` from the population with `InfoUcb`, no item twice, and look after `seen` reactions each.

    Args:
        world: the truth.
        deltas: failure probabilities to test; the first one drives the choice of items.
        seen: numbers of reactions after which to look.
        n_users: simulated users.
        prior: what the learner believes; the correct prior by default.
        rng: users, noise and ties.
    """
    check_count("n_users", n_users)
    for delta in deltas:
        check_delta(delta)
    if not deltas or not seen or min(seen) < 0 or max(seen) >= len(world.items):
        raise ConfigError(
            f"coverage needs at least one delta and numbers of reactions from 0 to {len(world.items) - 1}, "
            f"got deltas {list(deltas)} and seen {list(seen)}"
        )
    engine = ScoringEngine(world.model(prior), dtype=np.float64)
    failed = {(count, delta): np.zeros((3, n_users), dtype=np.bool_) for count in seen for delta in deltas}
    largest: dict[int, list[FloatArray]] = {count: [] for count in seen}
    needed: dict[int, list[FloatArray]] = {count: [] for count in seen}
    for start in range(0, n_users, BLOCK):
        rows = np.arange(start, min(start + BLOCK, n_users))
        block = _Block(world, engine.fresh(len(rows)), deltas[0], rng)
        for count in range(max(seen) + 1):
            if count in largest:
                ratio, top_var = block.standardised()
                largest[count].append(top_var)
                needed[count].append(ratio)
                for delta in deltas:
                    failed[count, delta][0, rows] = block.leaves_interval(delta)
                    failed[count, delta][1, rows] = ratio > union_factor(block.n_open, delta)
                    failed[count, delta][2, rows] = ratio > ellipsoid_factor(len(world.mean), delta)
            if count < max(seen):
                block.step()
    result = []
    for (count, delta), table in failed.items():
        n_open = len(world.items) - count
        nus = [nu_t(float(var), world.noise_var, n_open, delta) for var in np.concatenate(largest[count])]
        result.append(
            Coverage(
                dim=len(world.mean),
                n_items=len(world.items),
                seen=count,
                delta=delta,
                information=failure_rate(table[0]),
                union=failure_rate(table[1]),
                ellipsoid=failure_rate(table[2]),
                nu_theorem=float(np.mean(nus)),
                nu_union=union_factor(n_open, delta),
                nu_ellipsoid=ellipsoid_factor(len(world.mean), delta),
                nu_needed=float(np.quantile(np.concatenate(needed[count]), 1.0 - delta)),
            )
        )
    return result


class _Block:
    """Block of users in lock-step: their true scores, their beliefs, the items that are left."""

    def __init__(self, world: SimulatedWorld, engine: ScoringEngine, delta: float, rng: np.random.Generator) -> None:
        self.world, self.engine, self.rng = world, engine, rng
        self.policy = InfoUcb(delta)
        self.truth = world.draw_users(engine.n_users, rng) @ world.items.T
        self.available: BoolArray = np.ones(self.truth.shape, dtype=np.bool_)
        self.n_open = len(world.items)

    def step(self) -> None:
        """Play one round for everybody."""
        scores = self.policy.scores(self.engine, self.available, rng=self.rng)
        chosen = top_k(scores, self.available, 1, rng=self.rng)[:, 0]
        users = np.arange(len(chosen))
        noise = self.rng.normal(0.0, np.sqrt(self.world.noise_var), len(chosen))
        self.engine.observe(chosen, self.truth[users, chosen] + noise)
        self.available[users, chosen] = False
        self.n_open -= 1

    def leaves_interval(self, delta: float) -> BoolArray:
        """Tell for each user whether the score of any open item lies outside the interval of `InfoUcb(delta)`."""
        width = InfoUcb(delta).scores(self.engine, self.available, rng=self.rng) - self.engine.means
        outside = np.abs(self.truth - self.engine.means) > width
        return np.asarray((outside & self.available).any(axis=1))

    def standardised(self) -> tuple[FloatArray, FloatArray]:
        """Return each user's largest |score - mean| / std and largest variance (lambda_t) over the open items."""
        std = np.sqrt(np.maximum(self.engine.variances, np.finfo(np.float64).tiny))
        ratio = np.where(self.available, np.abs(self.truth - self.engine.means) / std, 0.0)
        variances = np.where(self.available, self.engine.variances, 0.0)
        return np.asarray(ratio.max(axis=1)), np.asarray(variances.max(axis=1))
