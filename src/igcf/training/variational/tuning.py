"""Choice of the graph model's online settings on validation users."""

from collections.abc import Callable
from dataclasses import replace

from igcf.config import GraphConfig
from igcf.training.variational.population import OnlineSettings

NOISE_FACTORS = (0.25, 0.5, 2.0)
"""Candidates for the noise variance, as multiples of the estimate."""
GAMMA_FACTORS = (0.1, 10.0, 100.0)
"""Candidates for gamma, as multiples of the setting."""


def tuned_online_settings(
    start: OnlineSettings, score: Callable[[OnlineSettings], float], config: GraphConfig
) -> tuple[OnlineSettings, float]:
    """Search the noise variance first, then gamma; return the settings with the largest score, and that score."""
    best, best_score = start, score(start)
    factors = NOISE_FACTORS if config.online_noise_var is None else ()
    for candidate in [replace(start, noise_var=start.noise_var * factor) for factor in factors]:
        if (candidate_score := score(candidate)) > best_score:
            best, best_score = candidate, candidate_score
    for candidate in [replace(best, gamma=(start.gamma or 1e-3) * factor) for factor in GAMMA_FACTORS]:
        if (candidate_score := score(candidate)) > best_score:
            best, best_score = candidate, candidate_score
    return best, best_score
