"""Linear-Gaussian worlds that satisfy the assumptions of the theory (sec:thm, ass:bound), to simulate in."""

from dataclasses import dataclass

import numpy as np
from scipy.stats import chi2

from igcf.arrays import FloatArray
from igcf.errors import ConfigError
from igcf.model import Model
from igcf.online import Belief

SINGULAR = 1e-12
"""Ratio of the smallest to the largest eigenvalue below which a covariance counts as singular."""


@dataclass(frozen=True, kw_only=True)
class Assumptions:
    """Constants of ass:bound and of the catalogue; every bound is a function of these."""

    dim: int
    n_items: int
    noise_var: float  # sigma_noise squared
    radius: float  # largest norm a of an item vector
    mean_norm: float  # largest norm m of the population mean
    cov_low: float  # smallest eigenvalue of the population covariance
    cov_high: float  # the largest, lambda-bar
    items_low: float  # smallest eigenvalue of the covariance of the item vectors, lambda_Sigma_A

    def __post_init__(self) -> None:
        """Refuse what the theorems do not cover."""
        for name in ("dim", "n_items"):
            check_count(name, getattr(self, name))
        for name in ("noise_var", "radius", "items_low", "cov_high"):
            if not 0 < getattr(self, name) < np.inf:
                raise ConfigError(f"{name} must be positive and finite, got {getattr(self, name)!r}")
        if not 0 <= self.mean_norm < np.inf:
            raise ConfigError(f"mean_norm must be zero or more, got {self.mean_norm}")
        if not SINGULAR * self.cov_high < self.cov_low <= self.cov_high:
            raise ConfigError(
                f"the eigenvalues of the covariance must satisfy 0 < cov_low <= cov_high, got {self.cov_low:g} and "
                f"{self.cov_high:g}; a singular covariance has no regret bound"
            )


@dataclass(frozen=True, eq=False)
class SimulatedWorld:
    """Simulated catalogue and population: user ~ N(mean, cov), reward = item . user + N(0, noise_var)."""

    items: FloatArray
    """Item vectors, shape (N, d)."""
    mean: FloatArray
    cov: FloatArray
    noise_var: float
    radius: float
    items_low: float

    @property
    def assumptions(self) -> Assumptions:
        """Constants of this world, as small as they may be."""
        low, *_, high = np.linalg.eigvalsh(self.cov)[[0, -1]]
        n_items, dim = self.items.shape
        same = {"noise_var": self.noise_var, "radius": self.radius, "items_low": self.items_low}
        mean_norm = float(np.linalg.norm(self.mean))
        return Assumptions(
            dim=dim, n_items=n_items, mean_norm=mean_norm, cov_low=float(low), cov_high=float(high), **same
        )

    @property
    def prior(self) -> Belief:
        """Correct prior: the population."""
        return Belief(self.mean, self.cov)

    def draw_users(self, n_users: int, rng: np.random.Generator) -> FloatArray:
        """Draw independent users from the population, shape (n_users, d)."""
        return self.mean + rng.standard_normal((n_users, len(self.mean))) @ np.linalg.cholesky(self.cov).T

    def model(self, prior: Belief | None = None) -> Model:
        """Build the model of a learner that knows the items and believes `prior`; the correct one by default."""
        prior = prior or self.prior
        return Model(
            item_vectors=self.items,
            item_ids=[str(row) for row in range(len(self.items))],
            prior_mean=prior.mean,
            prior_cov=prior.cov,
            noise_var=self.noise_var,
        )


def draw_world(assumed: Assumptions, rng: np.random.Generator) -> SimulatedWorld:
    """Draw a world with exactly these constants: eigenvalues evenly spaced in logarithm, random axes, truncated items.

    Items are N(0, s I) cut off at norm `radius`, as ass:bound wants, with s such that the covariance that remains has
    the eigenvalue `items_low`.
    """
    d = assumed.dim
    axes = np.linalg.qr(rng.standard_normal((d, d)))[0]
    size = np.geomspace(assumed.cov_low, assumed.cov_high, d) if d > 1 else np.array([assumed.cov_high])
    cov = (axes * size) @ axes.T
    direction = rng.standard_normal(d)
    mean = direction * (assumed.mean_norm / np.linalg.norm(direction))
    items = _truncated_items(assumed, rng)
    return SimulatedWorld(items, mean, (cov + cov.T) / 2, assumed.noise_var, assumed.radius, assumed.items_low)


def truncated_variance(scale: float, radius: float, dim: int) -> float:
    """Return the variance per axis of N(0, scale I) cut off at norm `radius`."""
    cut = radius**2 / scale
    return float(scale * chi2.cdf(cut, dim + 2) / chi2.cdf(cut, dim))


def _truncated_items(assumed: Assumptions, rng: np.random.Generator) -> FloatArray:
    d, a = assumed.dim, assumed.radius
    most = a**2 / (d + 2)  # variance per axis of the uniform distribution in the ball, the limit of wide Gaussians
    if assumed.items_low >= 0.95 * most:
        raise ConfigError(
            f"items_low {assumed.items_low:g} is too large for vectors no longer than {a:g} in {d} dimensions; "
            f"expected less than {0.95 * most:g}"
        )
    low, high = assumed.items_low, assumed.items_low * 1e3
    for _ in range(100):  # truncated_variance grows with the scale
        middle = np.sqrt(low * high)
        low, high = (middle, high) if truncated_variance(middle, a, d) < assumed.items_low else (low, middle)
    direction = rng.standard_normal((assumed.n_items, d))
    direction /= np.linalg.norm(direction, axis=1, keepdims=True)
    share = rng.random((assumed.n_items, 1)) * chi2.cdf(a**2 / low, d)  # the norm by inversion, no rejection
    items = direction * np.sqrt(low * chi2.ppf(share, d))
    return np.asarray(items, dtype=np.float32).astype(np.float64)  # what a model stores


def check_count(name: str, value: int, least: int = 1) -> None:
    """Refuse what is not a whole number of at least `least`."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
        raise ConfigError(f"{name} must be a whole number of at least {least}, got {value!r}")


@dataclass(frozen=True, kw_only=True)
class TheorySettings:
    """Constants of the world and size of the simulation; the defaults finish within a minute on one core."""

    dim: int = 8
    n_items: int = 500
    rounds: int = 400
    n_users: int = 200  # per regret curve; coverage uses five times as many
    delta: float = 0.05  # failure probability of the confidence bound
    noise_var: float = 0.25
    cov_low: float = 0.1
    cov_high: float = 1.0
    mean_norm: float = 1.0
    radius: float = 1.5  # the mean square norm is about 1
    seed: int = 0

    def __post_init__(self) -> None:
        """Refuse settings that the theorems or the simulation cannot use."""
        if not 0 < self.delta < 1:
            raise ConfigError(f"delta must be strictly between 0 and 1, got {self.delta!r}")
        for name, least in (("dim", 1), ("rounds", 20), ("n_users", 10), ("n_items", 1), ("seed", 0)):
            check_count(name, getattr(self, name), least)
        if self.n_items <= self.rounds:
            raise ConfigError(
                f"n_items must be more than rounds, so that no item is shown twice, got {self.n_items} items "
                f"and {self.rounds} rounds"
            )
        self.assumptions()  # refuses a singular covariance and vectors that cannot exist

    def assumptions(self, dim: int | None = None, n_items: int | None = None) -> Assumptions:
        """Return the constants of the world, in another size if asked for; item variance 1 / d per axis or less."""
        d = dim or self.dim
        shared = {name: getattr(self, name) for name in ("noise_var", "radius", "mean_norm", "cov_low", "cov_high")}
        items_low = min(1.0 / d, 0.8 * self.radius**2 / (d + 2))
        return Assumptions(dim=d, n_items=n_items or self.n_items, items_low=items_low, **shared)
