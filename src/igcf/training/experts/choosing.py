"""Choice of the likelihood temperature on validation users."""

import numpy as np

from igcf.arrays import Float32Array
from igcf.training.experts.fitting import Fits

TEMPERATURES = (1.0, 2.0, 4.0, 8.0)
"""Candidates, tried in this order until one is worse than the one before; the first is the default."""


def best_temperature(fits: Fits, truth: Float32Array) -> tuple[float, float]:
    """Return the likelihood temperature that is best on validation users, and its precision.

    Args:
        fits: Experts of users other than the validation users.
        truth: Reactions of the validation users, shape (users, items), NaN where there is none.
    """
    fixed = fits.config.likelihood_temperature
    candidates = TEMPERATURES if fixed is None else (fixed,)
    kept = fits.kept.stage("scores")
    scores = {} if kept is None else {float(name): float(score) for name, score in (kept.load() or {}).items()}
    best = candidates[0]
    for number, temperature in enumerate(candidates):
        if temperature not in scores:
            model = fits.model(temperature)
            [scores[temperature]] = fits.players.precisions([model], truth, fits.config.validate_rounds)
            if kept is not None:
                kept.save({str(each): np.array(score) for each, score in scores.items()})
        fits.say("choosing on validation users", number + 1, len(candidates))
        if scores[temperature] > scores[best]:
            best = temperature
        elif number:
            break
    return best, scores[best]
