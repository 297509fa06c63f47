"""Simulations with igcf's own beliefs and policies: coverage of the confidence bound, regret, estimated priors."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from scipy.stats import beta

from igcf.arrays import BoolArray, FloatArray, IntArray
from igcf.lab.theory.bounds import ellipsoid_factor, good_event, mutual_information, nu_t, union_factor
from igcf.lab.theory.world import SimulatedWorld
from igcf.online import Belief, InfoUcb, Policy, ScoringEngine, top_k

BLOCK = 250
"""Number of users in lock-step at a time."""
FIT_FROM = 0.1
"""Share of the rounds from which on exponents are fitted, so that the first guesses do not count."""
FIT_POINTS = 30

# coverage


def failure_rate(failed: BoolArray) -> dict[str, float]:
    """Return the share of True with the exact 95 % interval of Clopper and Pearson."""
    n, count = failed.size, int(np.count_nonzero(failed))
    low = float(beta.ppf(0.025, count, n - count + 1)) if count else 0.0
    high = float(beta.ppf(0.975, count + 1, n - count)) if count < n else 1.0
    return {"count": count, "n": n, "rate": count / n, "low": low, "high": high}


def simulate_coverage(
    world: SimulatedWorld,
    *,
    deltas: Sequence[float],
    seen: Sequence[int] = (0, 5, 20),
    n_users: int = 2000,
    prior: Belief | None = None,
    rng: np.random.Generator,
) -> list[dict[str, Any]]:
    """Play users of the population with `InfoUcb(deltas[0])`, no item twice, and look after `seen` reactions each.

    Returns, for each number of reactions and delta, the share of users for whom the score of some item left its
    interval: `information` (thm:ucb), `union` (Gaussian union bound) and `ellipsoid` (chi-square), with the mean factor
    nu of each, and `nu_needed`, the smallest with which mean +- nu std covers all items for 1 - delta of the users.
    """
    engine = ScoringEngine(world.model(prior), dtype=np.float64)
    n_items, dim = world.items.shape
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
                    failed[count, delta][1, rows] = ratio > union_factor(n_items - count, delta)
                    failed[count, delta][2, rows] = ratio > ellipsoid_factor(dim, delta)
            if count < max(seen):
                block.step()
    result = []
    for (count, delta), table in failed.items():
        n_open = n_items - count
        nus = [nu_t(float(var), world.noise_var, n_open, delta) for var in np.concatenate(largest[count])]
        factors = {"theorem": float(np.mean(nus)), "union": union_factor(n_open, delta)}
        factors |= {"ellipsoid": ellipsoid_factor(dim, delta)}
        factors |= {"needed": float(np.quantile(np.concatenate(needed[count]), 1.0 - delta))}
        row = {"dim": dim, "n_items": n_items, "seen": count, "delta": delta}
        row |= zip(("information", "union", "ellipsoid"), map(failure_rate, table), strict=True)
        result.append(row | {f"nu_{name}": factor for name, factor in factors.items()})
    return result


class _Block:
    """Block of users in lock-step: their true scores, their beliefs, the items that are left."""

    def __init__(self, world: SimulatedWorld, engine: ScoringEngine, delta: float, rng: np.random.Generator) -> None:
        self.world, self.engine, self.rng = world, engine, rng
        self.policy = InfoUcb(delta)
        self.truth = world.draw_users(engine.n_users, rng) @ world.items.T
        self.available: BoolArray = np.ones(self.truth.shape, dtype=np.bool_)

    def step(self) -> None:
        """Play one round for everybody."""
        scores = self.policy.scores(self.engine, self.available, rng=self.rng)
        chosen = top_k(scores, self.available, 1, rng=self.rng)[:, 0]
        users = np.arange(len(chosen))
        noise = self.rng.normal(0.0, np.sqrt(self.world.noise_var), len(chosen))
        self.engine.observe(chosen, self.truth[users, chosen] + noise)
        self.available[users, chosen] = False

    def leaves_interval(self, delta: float) -> BoolArray:
        """Return for each user whether the score of any open item is outside the interval of `InfoUcb(delta)`."""
        width = InfoUcb(delta).scores(self.engine, self.available, rng=self.rng) - self.engine.means
        outside = np.abs(self.truth - self.engine.means) > width
        return np.asarray((outside & self.available).any(axis=1))

    def standardised(self) -> tuple[FloatArray, FloatArray]:
        """Return each user's largest |score - mean| / std and largest variance (lambda_t) over the open items."""
        std = np.sqrt(np.maximum(self.engine.variances, np.finfo(np.float64).tiny))
        ratio = np.where(self.available, np.abs(self.truth - self.engine.means) / std, 0.0)
        variances = np.where(self.available, self.engine.variances, 0.0)
        return np.asarray(ratio.max(axis=1)), np.asarray(variances.max(axis=1))


# regret


@dataclass(frozen=True)
class UniformChoice(Policy):
    """Policy that recommends at random."""

    needs_variances: ClassVar[bool] = False

    def scores(self, engine: ScoringEngine, available: BoolArray, *, rng: np.random.Generator) -> FloatArray:
        """Return random numbers as scores."""
        return rng.random(available.shape)


@dataclass(frozen=True, eq=False)
class Crowd:
    """Users and the noise of their rounds; shared between simulations, so that differences are paired."""

    vectors: FloatArray  # (users, d)
    noise: FloatArray  # of each reward, (users, rounds)


@dataclass(frozen=True, eq=False)
class Run:
    """Regret, items shown and information of a crowd."""

    regret: FloatArray  # of each round against its best candidate, (users, rounds)
    shown: IntArray  # rows of the items, (users, rounds)
    information: FloatArray  # sum of the mutual information of the items shown, as the learner believes, (users,)

    @property
    def total(self) -> FloatArray:
        """Regret of each user over all rounds."""
        return np.asarray(self.regret.sum(axis=1))

    @property
    def curve(self) -> FloatArray:
        """Cumulated regret, mean over users, shape (rounds,)."""
        return np.asarray(self.regret.mean(axis=0).cumsum())


def draw_crowd(world: SimulatedWorld, n_users: int, rounds: int, rng: np.random.Generator) -> Crowd:
    """Draw users from the population, and the noise of their rounds."""
    noise = rng.normal(0.0, np.sqrt(world.noise_var), (n_users, rounds))
    return Crowd(world.draw_users(n_users, rng), noise)


def simulate_regret(
    world: SimulatedWorld,
    policy: Policy,
    crowd: Crowd,
    *,
    prior: Belief | Sequence[Belief] | None = None,
    repeats: bool = True,
    rng: np.random.Generator,
) -> Run:
    """Let `policy` choose one item per round for everybody in the crowd.

    `prior` is what the learner believes at first: one belief, or one per user; the correct one by default. Without
    `repeats` no item is shown twice, so that the candidates shrink, as in a recommender.
    """
    n_users, rounds = crowd.noise.shape
    is_one = prior is None or isinstance(prior, Belief)
    engine = ScoringEngine(world.model(prior if is_one else None), n_users, dtype=np.float64)  # type: ignore[arg-type]
    if not is_one:
        for user, belief in zip(range(n_users), prior, strict=True):  # type: ignore[arg-type]
            engine.set_belief(belief, user)
    truth = crowd.vectors @ world.items.T
    available: BoolArray = np.ones(truth.shape, dtype=np.bool_)
    best = truth.max(axis=1)
    everyone = np.arange(n_users)
    run = Run(np.empty((n_users, rounds)), np.empty((n_users, rounds), dtype=np.int32), np.zeros(n_users))
    for t in range(rounds):
        if not repeats:
            best = np.where(available, truth, -np.inf).max(axis=1)
        chosen = top_k(policy.scores(engine, available, rng=rng), available, 1, rng=rng)[:, 0]
        signal = truth[everyone, chosen]
        run.regret[:, t], run.shown[:, t] = best - signal, chosen
        run.information[:] += mutual_information(engine.variances[everyone, chosen], world.noise_var)
        engine.observe(chosen, signal + crowd.noise[:, t])
        available[everyone, chosen] = repeats
    return run


def fit_exponent(run: Run, rng: np.random.Generator, n_bootstrap: int = 200) -> dict[str, float]:
    """Fit regret ~ T^value over the last nine tenths of the rounds, with a 95 % bootstrap interval over users."""
    rounds = run.regret.shape[1]
    times = np.unique(np.geomspace(rounds * FIT_FROM, rounds, FIT_POINTS).astype(int))
    curves = run.regret.cumsum(axis=1)[:, times - 1]
    n_users = len(curves)
    weights = rng.multinomial(n_users, np.full(n_users, 1.0 / n_users), n_bootstrap) / n_users
    low, high = np.quantile([fitted_slope(times, curve) for curve in weights @ curves], [0.025, 0.975])
    return {"value": fitted_slope(times, curves.mean(axis=0)), "low": float(low), "high": float(high)}


def fitted_slope(x: npt.ArrayLike, y: npt.ArrayLike) -> float:
    """Fit the exponent p of y ~ x^p, by least squares in logarithms over the positive y; 0 if no y is positive."""
    x, y = np.asarray(x), np.asarray(y)
    is_positive = y > 0  # a policy that was never wrong has no regret, and that does not grow
    if is_positive.sum() < 2:
        return 0.0
    return float(np.polyfit(np.log(x[is_positive]), np.log(y[is_positive]), 1)[0])


# priors that are estimated from M users, against lemma:event


def meta_belief(vectors: FloatArray, widening: float = 0.0) -> Belief:
    """Estimate the prior from user vectors (M, d): their mean, their covariance (divisor M - 1) + widening I."""
    d = vectors.shape[1]
    cov = np.cov(vectors, rowvar=False).reshape(d, d) + widening * np.eye(d)
    return Belief(vectors.mean(axis=0), cov)


def simulate_meta_prior(
    world: SimulatedWorld, *, sizes: Sequence[int], rounds: int, repeats: int, rng: np.random.Generator
) -> list[dict[str, Any]]:
    """Estimate the prior `repeats` times from M exact user vectors, for every M in `sizes`.

    Returns mean and worst errors (norm of the mean's, operator norm of the covariance's before widening) beside the
    bounds of the lemma, `mean_expected`, the root of the exact mean square, and the draws in which E_1 or E_2 failed.
    """
    rows = []
    for n_meta in sizes:
        event = good_event(len(world.mean), world.assumptions.cov_high, n_meta, rounds)
        errors = np.empty((2, repeats))
        failures = 0
        for repeat in range(repeats):
            estimate = meta_belief(world.draw_users(n_meta, rng))
            errors[:, repeat] = (
                np.linalg.norm(estimate.mean - world.mean),
                np.linalg.norm(estimate.cov - world.cov, 2),
            )
            widened = estimate.cov + event.gamma * np.eye(len(world.mean)) - world.cov
            spread = np.linalg.eigvalsh(widened)
            good = errors[0, repeat] <= event.mean_error and spread[0] >= 0 and spread[-1] <= event.cov_error
            failures += not good
        (mean_error, cov_error), (mean_worst, cov_worst) = errors.mean(axis=1).tolist(), errors.max(axis=1).tolist()
        rows.append(
            {
                "n_meta": n_meta,
                "repeats": repeats,
                "mean_error": mean_error,
                "mean_expected": float(np.sqrt(np.trace(world.cov) / n_meta)),
                "mean_worst": mean_worst,
                "mean_bound": event.mean_error,
                "cov_error": cov_error,
                "cov_worst": cov_worst,
                "cov_bound": event.gamma,
                "condition_holds": event.holds,
                "failures": failures,
            }
        )
    return rows
