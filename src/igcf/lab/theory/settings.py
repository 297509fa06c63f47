"""Settings of `igcf theory`: one world and how much of it to simulate."""

from dataclasses import dataclass

from igcf.errors import ConfigError
from igcf.lab.theory.world import Assumptions, check_count, check_delta, check_positive


@dataclass(frozen=True, kw_only=True)
class TheorySettings:
    """Constants of the world and size of the simulation; the defaults finish within a minute on one core."""

    dim: int = 8
    """Size d of user and item vectors."""
    n_items: int = 500
    """Size N of the catalogue."""
    rounds: int = 400
    """Number of rounds T per user."""
    n_users: int = 200
    """Number of simulated users per regret curve; coverage uses five times as many."""
    delta: float = 0.05
    """Failure probability of the confidence bound."""
    noise_var: float = 0.25
    """Variance of the noise on a reward."""
    cov_low: float = 0.1
    """Smallest eigenvalue of the population covariance."""
    cov_high: float = 1.0
    """Largest eigenvalue of the population covariance."""
    mean_norm: float = 1.0
    """Norm m of the population mean."""
    radius: float = 1.5
    """Largest norm a of an item vector; the mean square norm is about 1."""
    seed: int = 0
    """Seed that makes everything repeatable."""

    def __post_init__(self) -> None:
        """Refuse settings that the theorems or the simulation cannot use."""
        check_delta(self.delta)
        check_positive("noise_var", self.noise_var)
        check_count("dim", self.dim)
        check_count("rounds", self.rounds, 20)
        check_count("n_users", self.n_users, 10)
        check_count("n_items", self.n_items)
        check_count("seed", self.seed, 0)
        if self.n_items <= self.rounds:
            raise ConfigError(
                f"n_items must be more than rounds, so that no item is shown twice, got {self.n_items} items "
                f"and {self.rounds} rounds"
            )
        self.assumptions()  # refuses a singular covariance and vectors that cannot exist

    def assumptions(self, dim: int | None = None, n_items: int | None = None) -> Assumptions:
        """Return the constants of the world, in another size if asked for; item variance 1 / d per axis or less."""
        d = dim or self.dim
        return Assumptions(
            dim=d,
            n_items=n_items or self.n_items,
            noise_var=self.noise_var,
            radius=self.radius,
            mean_norm=self.mean_norm,
            cov_low=self.cov_low,
            cov_high=self.cov_high,
            items_low=min(1.0 / d, 0.8 * self.radius**2 / (d + 2)),
        )
