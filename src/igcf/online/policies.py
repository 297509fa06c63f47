"""How items are ranked: a score per item from the state of the users."""

from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np

from igcf.arrays import AnyFloatArray, BoolArray, FloatArray, covariance_root
from igcf.errors import ConfigError
from igcf.online.engine import ScoringEngine


class Policy(Protocol):
    """Anything that turns the state of all users into scores; larger is recommended first."""

    @property
    def needs_variances(self) -> bool:
        """Whether scores depend on the items' variances, which cost more to keep than the means."""
        ...

    def scores(self, engine: ScoringEngine, available: BoolArray, *, rng: np.random.Generator) -> AnyFloatArray:
        """Return one score per user and item, (users, items): a new array, or `engine.means` itself.

        `available` marks what may be recommended; the scores of these items must be finite.
        """
        ...


def _variances(engine: ScoringEngine, item_uncertainty: bool) -> AnyFloatArray:
    return engine.variances + engine.item_uncertainty() if item_uncertainty else engine.variances


@dataclass(frozen=True)
class Greedy:
    """The item that is expected to please most; never explores on purpose."""

    needs_variances: ClassVar[bool] = False

    def scores(self, engine: ScoringEngine, available: BoolArray, *, rng: np.random.Generator) -> AnyFloatArray:
        """Return the posterior means."""
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
        """Whether scores depend on variances: not without exploration."""
        return self.nu > 0

    def scores(self, engine: ScoringEngine, available: BoolArray, *, rng: np.random.Generator) -> AnyFloatArray:
        """Return the means plus `nu` standard deviations."""
        if self.nu == 0:
            return engine.means
        scores: AnyFloatArray = np.sqrt(_variances(engine, self.item_uncertainty))
        scores *= self.nu
        scores += engine.means
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
        """Return the means plus the information-theoretic widths."""
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

    @staticmethod
    def draw(engine: ScoringEngine, rng: np.random.Generator) -> FloatArray:
        """Draw a vector of each user from the belief, (users, d)."""
        noise = rng.standard_normal(engine.belief_means.shape)
        return np.asarray(engine.belief_means + np.einsum("bij,bj->bi", covariance_root(engine.belief_covs), noise))

    def scores(self, engine: ScoringEngine, available: BoolArray, *, rng: np.random.Generator) -> AnyFloatArray:
        """Return the expected rewards under one draw per user."""
        draw = self.draw(engine, rng)
        scores = engine.model.expected(draw)
        if engine.offsets is not None:
            scores += engine.offsets
        if self.item_uncertainty:
            scores += np.sqrt(engine.item_uncertainty(draw)) * rng.standard_normal(scores.shape)
        return scores


POLICIES = ("ucb", "info-ucb", "thompson", "greedy")


def named_policy(name: str, *, nu: float = 0.5, delta: float = 0.05, item_uncertainty: bool = False) -> Policy:
    """Return the policy called `name`; `nu` is for `ucb`, `delta` for `info-ucb`.

    Example:
        >>> import igcf
        >>> igcf.online.named_policy("ucb", nu=0.2)
        Ucb(nu=0.2, item_uncertainty=False)
    """
    if name == "ucb":
        return Ucb(nu, item_uncertainty)
    if name == "info-ucb":
        return InfoUcb(delta, item_uncertainty)
    if name == "thompson":
        return Thompson(item_uncertainty)
    if name == "greedy":
        return Greedy()
    raise ConfigError(f"policy {name!r} is not known; choose one of {', '.join(POLICIES)}")
