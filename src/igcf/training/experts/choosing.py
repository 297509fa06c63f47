"""Choice of the experts' settings on validation users."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from igcf.arrays import Float32Array
from igcf.config import ExpertsConfig
from igcf.training.experts.fitting import Choice, Fits
from igcf.training.experts.linear import FULL_COMPONENTS

TEMPERATURES = (0.7, 1.0, 2.0, 4.0, 8.0)
ACTIVITIES = (0.0, 0.5, -0.5)
LINEAR_DIMS = (FULL_COMPONENTS, 24)
WIDE_DIM = 250
"""Number of components that is tried too where the caller allows it."""
ITEM_AGE_CORRECTIONS = (False, True)


def first_choice(config: ExpertsConfig) -> Choice:
    """Return where the search begins, which is also the choice when there is nobody to choose on."""
    return Choice(
        dim=LINEAR_DIMS[0] if config.linear_dim is None else config.linear_dim,
        activity=ACTIVITIES[0] if config.activity is None else config.activity,
        likelihood_temperature=1.0 if config.likelihood_temperature is None else config.likelihood_temperature,
        item_age_correction=bool(config.item_age_correction),
    )


def best_choice(fits: Fits, truth: Float32Array) -> tuple[Choice, float]:
    """Search the settings that are left open one after the other; return the best choice and its precision.

    Of equally good candidates the earlier one is taken.

    Args:
        fits: Experts of users other than the validation users.
        truth: Reactions of the validation users, shape (users, items), NaN where there is none.
    """
    config, scores = fits.config, dict[Choice, float]()
    best = first_choice(config)
    temperatures = _candidates(config.likelihood_temperature, TEMPERATURES)
    activities = _candidates(config.activity, ACTIVITIES)
    dims = _candidates(config.linear_dim, (*LINEAR_DIMS, WIDE_DIM) if config.wide else LINEAR_DIMS)
    corrections: Sequence[bool] = (best.item_age_correction,)
    if fits.growth is not None:
        corrections = _candidates(config.item_age_correction, ITEM_AGE_CORRECTIONS)
    total = len(temperatures) + len(activities) + len(dims) + len(corrections) - 3

    kept = fits.kept.stage("scores")
    before = {} if kept is None else kept.load() or {}

    def best_of(choices: list[Choice]) -> Choice:
        new = [choice for choice in dict.fromkeys(choices) if choice not in scores]
        scores.update({choice: float(before[str(choice)]) for choice in new if str(choice) in before})
        new = [choice for choice in new if choice not in scores]
        models = [fits.model(choice) for choice in new]
        scores.update(zip(new, fits.players.precisions(models, truth, config.validate_rounds), strict=True))
        if kept is not None and new:
            kept.save({str(choice): np.array(score) for choice, score in scores.items()})
        fits.say("choosing on validation users", len(scores), max(total, len(scores)))
        return max(choices, key=scores.__getitem__)

    best = best_of([replace(best, likelihood_temperature=each) for each in temperatures])
    best = best_of([best, *(replace(best, activity=each) for each in activities)])
    best = best_of([best, *(replace(best, dim=each) for each in dims)])
    # the best temperature of other components need not be the best of these
    neighbours = _neighbours(best.likelihood_temperature, temperatures)
    best = best_of([best, *(replace(best, likelihood_temperature=each) for each in neighbours)])
    best = best_of([best, *(replace(best, item_age_correction=each) for each in corrections)])
    return best, scores[best]


def _neighbours(temperature: float, temperatures: Sequence[float]) -> list[float]:
    """Return the next smaller and the next larger candidate."""
    place = temperatures.index(temperature)
    return [*temperatures[max(place - 1, 0) : place], *temperatures[place + 1 : place + 2]]


def _candidates(fixed: Any, candidates: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return all candidates of a setting, or only its value where the caller fixed it."""
    return candidates if fixed is None else (fixed,)
