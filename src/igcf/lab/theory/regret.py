"""Bayesian regret by simulation: many users at once, the product's beliefs and policies, any prior."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from igcf.arrays import BoolArray, FloatArray, IntArray
from igcf.errors import ConfigError
from igcf.lab.theory.bounds import mutual_information
from igcf.lab.theory.meta_prior import fitted_slope
from igcf.lab.theory.world import SimulatedWorld, check_count
from igcf.online import Belief, Policy, ScoringEngine, top_k

FIT_FROM = 0.1
"""Share of the rounds from which on exponents are fitted, so that the first guesses do not count."""
FIT_POINTS = 30


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

    vectors: FloatArray
    """User vectors, shape (users, d)."""
    noise: FloatArray
    """Noise of each reward, shape (users, rounds)."""


@dataclass(frozen=True, eq=False)
class Run:
    """Regret, items shown and information of a crowd."""

    regret: FloatArray
    """Regret of each round against its best candidate, shape (users, rounds)."""
    shown: IntArray
    """Rows of the items shown, shape (users, rounds)."""
    information: FloatArray
    """Sum of the mutual information of the items shown, as the learner believes, shape (users,)."""

    @property
    def total(self) -> FloatArray:
        """Regret of each user over all rounds."""
        return np.asarray(self.regret.sum(axis=1))

    @property
    def curve(self) -> FloatArray:
        """Cumulated regret, mean over users, shape (rounds,)."""
        return np.asarray(self.regret.mean(axis=0).cumsum())


@dataclass(frozen=True)
class Exponent:
    """Exponent of regret ~ T^value, with a 95 % bootstrap interval over users."""

    value: float
    low: float
    high: float


def draw_crowd(world: SimulatedWorld, n_users: int, rounds: int, rng: np.random.Generator) -> Crowd:
    """Draw users from the population, and the noise of their rounds."""
    check_count("n_users", n_users)
    check_count("rounds", rounds)
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
    """Let `policy` meet the crowd.

    Args:
        world: the truth.
        policy: chooses one item per round.
        crowd: users and noise.
        prior: what the learner believes at first: one belief, or one per user; the correct one by default.
        repeats: whether an item may be shown again; otherwise the candidates shrink, as in a recommender.
        rng: the policy's draws and ties.
    """
    n_users, rounds = crowd.noise.shape
    if not repeats and rounds > len(world.items):
        raise ConfigError(f"{rounds} rounds without repeats need as many items, there are {len(world.items)}")
    engine = _engine(world, prior, n_users)
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


def sufficient_rounds(world: SimulatedWorld, shown: IntArray) -> IntArray:
    """Return tau of def:tau per user: the first t with lambda_min(V_t) >= lambda_Sigma_A d / 2; rounds + 1 if never.

    lambda_min(V_t) never falls, so each user's t is found by bisection.
    """
    vectors = world.items[shown]  # (users, rounds, d)
    n_users, rounds, d = vectors.shape
    threshold = world.items_low * d / 2.0
    low, high = np.zeros(n_users, dtype=np.int64), np.full(n_users, rounds + 1, dtype=np.int64)
    while (high - low > 1).any():
        middle = (low + high) // 2
        past = vectors * (np.arange(rounds) < middle[:, None])[..., None]
        enough = np.linalg.eigvalsh(np.einsum("utd,ute->ude", past, vectors))[:, 0] >= threshold
        enough &= middle <= rounds
        low, high = np.where(enough, low, middle), np.where(enough, middle, high)
    return high


def fit_exponent(run: Run, rng: np.random.Generator, n_bootstrap: int = 200) -> Exponent:
    """Fit the exponent of the mean regret in T over the last nine tenths of the rounds."""
    rounds = run.regret.shape[1]
    if rounds < 20:
        raise ConfigError(f"an exponent needs at least 20 rounds, got {rounds}")
    times = np.unique(np.geomspace(rounds * FIT_FROM, rounds, FIT_POINTS).astype(int))
    curves = run.regret.cumsum(axis=1)[:, times - 1]
    n_users = len(curves)
    weights = rng.multinomial(n_users, np.full(n_users, 1.0 / n_users), n_bootstrap) / n_users
    slopes = [_slope(times, curve) for curve in weights @ curves]
    low, high = np.quantile(slopes, [0.025, 0.975])
    return Exponent(_slope(times, curves.mean(axis=0)), float(low), float(high))


def _slope(times: IntArray, curve: FloatArray) -> float:
    positive = curve > 0  # a policy that was never wrong has no regret, and that does not grow
    return fitted_slope(times[positive], curve[positive]) if positive.sum() > 1 else 0.0


def _engine(world: SimulatedWorld, prior: Belief | Sequence[Belief] | None, n_users: int) -> ScoringEngine:
    if prior is None or isinstance(prior, Belief):
        return ScoringEngine(world.model(prior), n_users, dtype=np.float64)
    if len(prior) != n_users:
        raise ConfigError(f"got {len(prior)} priors for {n_users} users; expected one for each")
    engine = ScoringEngine(world.model(), n_users, dtype=np.float64)
    for user, belief in enumerate(prior):
        engine.set_belief(belief, user)
    return engine
