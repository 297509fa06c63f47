"""How the next items are chosen: a score per item from the belief, and the best available ones."""

from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np

from igcf.arrays import AnyFloatArray, BoolArray, IntArray
from igcf.errors import ConfigError
from igcf.online.engine import ScoringEngine

BLOCKS, BLOCKS_PER_ITEM, LEAST_WIDTH = 32, 4, 4
"""The best items of so many blocks of the catalogue, in which the k best of all rarely meet, are scored first."""
ROUNDING = 1e-5
"""More than what single precision can change in a score."""
TOO_MANY = 4
"""All scores are computed where more than one in so many items could be among the best."""


class Policy(Protocol):
    """Turns the state of all users into scores; larger is recommended first."""

    @property
    def needs_variances(self) -> bool:
        """Whether scores depend on the items' variances, which cost more to keep than the means."""
        ...

    def scores(self, engine: ScoringEngine, available: BoolArray, *, rng: np.random.Generator) -> AnyFloatArray:
        """One score per user and item, (users, items): a new array, or `engine.means` itself.

        `available` marks what may be recommended.
        """
        ...


def _variances(engine: ScoringEngine, item_uncertainty: bool) -> AnyFloatArray:
    return engine.variances + engine.item_uncertainty() if item_uncertainty else engine.variances


@dataclass(frozen=True)
class Greedy:
    """The item that is expected to please most; never explores on purpose."""

    needs_variances: ClassVar[bool] = False

    def scores(self, engine: ScoringEngine, available: BoolArray, *, rng: np.random.Generator) -> AnyFloatArray:
        """The posterior means."""
        return engine.means


@dataclass(frozen=True)
class Ucb:
    """Optimism: mean + nu * std (eq:UCB2)."""

    nu: float = 0.5
    item_uncertainty: bool = False
    """Also count the uncertainty of the item vectors themselves."""

    def __post_init__(self) -> None:
        """Refuse pessimism and nonsense."""
        if not 0 <= self.nu < float("inf"):
            raise ConfigError(f"nu must be zero or more, got {self.nu}")

    @property
    def needs_variances(self) -> bool:
        """Not without exploration."""
        return self.nu > 0

    def scores(self, engine: ScoringEngine, available: BoolArray, *, rng: np.random.Generator) -> AnyFloatArray:
        """Mean plus `nu` standard deviations."""
        if self.nu == 0:
            return engine.means
        return self.scores_from(engine.means, _variances(engine, self.item_uncertainty))

    def contenders(self, engine: ScoringEngine, available: BoolArray, k: int) -> IntArray | None:
        """Some items of the only user, the `k` best available ones among them; None where all must be scored.

        An item whose bound, its mean plus `nu` standard deviations of the population, is below the k-th best mean of
        any items cannot be among the k best.
        """
        n_blocks = BLOCKS_PER_ITEM * k + BLOCKS
        width = available.shape[1] // n_blocks
        if width < LEAST_WIDTH or self.item_uncertainty or self.nu == 0:
            return None
        bound: AnyFloatArray = np.sqrt(engine.variance_bounds())
        bound *= self.nu * (1.0 + ROUNDING)
        bound += engine.means[0]
        bound[~available[0]] = -np.inf
        heads = bound[: n_blocks * width].reshape(n_blocks, width).argmax(axis=1)
        heads += np.arange(0, n_blocks * width, width)
        heads = heads[bound[heads] > -np.inf]
        if len(heads) < k:
            return None
        means = engine.means[0, heads]  # no more than their scores
        means.partition(len(heads) - k)
        least = means[len(heads) - k]
        rows = (bound >= least - ROUNDING * abs(least)).nonzero()[0]
        return rows if len(rows) * TOO_MANY < available.shape[1] else None

    def scores_from(self, means: AnyFloatArray, variances: AnyFloatArray) -> AnyFloatArray:
        """Mean plus `nu` standard deviations."""
        scores: AnyFloatArray = np.sqrt(variances)
        scores *= self.nu
        scores += means
        return scores


@dataclass(frozen=True)
class InfoUcb:
    """Optimism by information (eq:UCB): mean + Gamma_t / 2 * sqrt(I), I = log(1 + var / noise) / 2.

    With probability 1 - delta the bound holds for all available items at once (thm:ucb).
    """

    delta: float = 0.05
    item_uncertainty: bool = False
    needs_variances: ClassVar[bool] = True

    def __post_init__(self) -> None:
        """Refuse what is no probability."""
        if not 0 < self.delta < 1:
            raise ConfigError(f"delta must lie strictly between 0 and 1, got {self.delta}")

    def scores(self, engine: ScoringEngine, available: BoolArray, *, rng: np.random.Generator) -> AnyFloatArray:
        """Mean plus the information-theoretic width."""
        var = _variances(engine, self.item_uncertainty)
        log_term = np.log1p(var / engine.model.item_noise)  # twice the mutual information
        with np.errstate(invalid="ignore", divide="ignore"):
            ratio = np.where(log_term > 0, var / log_term, engine.model.item_noise)
        largest = np.where(available, ratio, 0.0).max(axis=1, keepdims=True)
        n_available = np.maximum(available.sum(axis=1, keepdims=True), 1)
        gamma = 4.0 * np.sqrt(largest * np.log(2.0 * n_available / self.delta))  # Gamma_t of thm:ucb
        return np.asarray(engine.means + gamma / 2.0 * np.sqrt(log_term / 2.0))


@dataclass(frozen=True)
class Thompson:
    """Posterior sampling: draw one user vector from the belief and believe it for this round."""

    item_uncertainty: bool = False
    needs_variances: ClassVar[bool] = False

    def scores(self, engine: ScoringEngine, available: BoolArray, *, rng: np.random.Generator) -> AnyFloatArray:
        """Scores of all items under one draw per user."""
        size, axes = np.linalg.eigh(engine.belief_covs)  # the covariance may be singular, so no Cholesky
        spread = np.sqrt(np.maximum(size, 0.0)) * rng.standard_normal(size.shape)
        draw = engine.belief_means + np.einsum("bij,bj->bi", axes, spread)
        scores = engine.model.expected(draw)
        if self.item_uncertainty:
            scores += np.sqrt(draw**2 @ engine.model.item_variances.T) * rng.standard_normal(scores.shape)
        return scores


LEAST = float(np.finfo(np.float32).min)
"""Any score is at least this; what is not available has less."""
POLICIES = ("ucb", "info-ucb", "thompson", "greedy")


def named_policy(name: str, *, nu: float = 0.5, delta: float = 0.05, item_uncertainty: bool = False) -> Policy:
    """The policy called `name`; `nu` is for `ucb`, `delta` for `info-ucb`."""
    if name == "ucb":
        return Ucb(nu, item_uncertainty)
    if name == "info-ucb":
        return InfoUcb(delta, item_uncertainty)
    if name == "thompson":
        return Thompson(item_uncertainty)
    if name == "greedy":
        return Greedy()
    raise ConfigError(f"policy {name!r} is not known; choose one of {', '.join(POLICIES)}")


def best(
    policy: Policy, engine: ScoringEngine, available: BoolArray, k: int, *, rng: np.random.Generator
) -> tuple[IntArray, AnyFloatArray, AnyFloatArray]:
    """The `k` best available items of the only user, best first, their scores, and the variances of their means."""
    if engine.is_behind and isinstance(policy, Ucb):
        rows = policy.contenders(engine, available, k)
        if rows is not None:
            variances = engine.variances_at(rows)
            scores = policy.scores_from(engine.means[0, rows], variances)
            order = _top_k_of_one(scores, k, rng)
            return rows[order], scores[order], variances[order]
    masked = policy.scores(engine, available, rng=rng)[0].copy()
    masked[~available[0]] = -np.inf
    chosen = _top_k_of_one(masked, k, rng)
    return chosen, masked[chosen], engine.variances_at(chosen)


def top_k(
    scores: AnyFloatArray, available: BoolArray, k: int, *, rng: np.random.Generator, overwrite: bool = False
) -> IntArray:
    """The `k` best available items of each user, best first, (users, k); equal scores are ordered by lot.

    Every row must have at least `k` available items. `overwrite` allows to spoil `scores`, which saves a copy.
    """
    masked = scores if overwrite and scores.flags.c_contiguous else np.array(scores, order="C")
    masked.ravel()[np.flatnonzero(~available)] = -np.inf  # few are not, so this is faster than `where`
    if k == 1:
        return _best_of_each(masked, rng)[:, None]
    return np.stack([_top_k_of_one(row, k, rng) for row in masked])


def _best_of_each(masked: AnyFloatArray, rng: np.random.Generator) -> IntArray:
    users, chosen = np.arange(len(masked)), masked.argmax(axis=1)
    highest = masked[users, chosen]
    masked[users, chosen] = -np.inf
    for user in np.flatnonzero(masked.max(axis=1) == highest):  # these have several best items
        masked[user, chosen[user]] = highest[user]
        chosen[user] = rng.choice(np.flatnonzero(masked[user] == highest[user]))
    return np.asarray(chosen)


def _top_k_of_one(masked: AnyFloatArray, k: int, rng: np.random.Generator) -> IntArray:
    parted = masked.copy()
    parted.partition(len(masked) - k)
    least = parted.item(len(masked) - k)
    rows = (masked >= max(least, LEAST)).nonzero()[0]
    order = np.lexsort((rng.random(len(rows)), -masked[rows]))
    return rows[order[:k]]
