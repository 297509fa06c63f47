"""Small worlds for the tests of the theory."""

from typing import Any

import numpy as np

from igcf.lab.theory.world import Assumptions, SimulatedWorld, draw_world


def small_assumptions(**changes: Any) -> Assumptions:
    values: dict[str, Any] = {
        "dim": 4,
        "n_items": 60,
        "noise_var": 0.25,
        "radius": 1.5,
        "mean_norm": 1.0,
        "cov_low": 0.1,
        "cov_high": 1.0,
        "items_low": 0.2,
    }
    return Assumptions(**{**values, **changes})


def small_world(seed: int = 0, **changes: Any) -> SimulatedWorld:
    return draw_world(small_assumptions(**changes), np.random.default_rng(seed))
