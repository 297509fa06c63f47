"""Guarantees of the paper, corrected and checked by simulation (docs/theory.md); never torch."""

from igcf.lab.theory.bounds import (
    GoodEvent,
    ellipsoid_factor,
    gamma_t,
    good_event,
    information_gain,
    information_width,
    max_information_gain,
    mutual_information,
    nu_t,
    union_factor,
)
from igcf.lab.theory.coverage import Coverage, Rate, simulate_coverage
from igcf.lab.theory.meta_prior import MetaError, ShrunkenError, meta_belief, simulate_meta_prior, simulate_shrunken
from igcf.lab.theory.regret import (
    Crowd,
    Exponent,
    Run,
    UniformChoice,
    draw_crowd,
    fit_exponent,
    simulate_regret,
    sufficient_rounds,
)
from igcf.lab.theory.regret_bound import (
    MetaRegretBound,
    RegretBound,
    informative_from,
    meta_regret_bound,
    regret_bound,
)
from igcf.lab.theory.report import run_theory
from igcf.lab.theory.world import Assumptions, SimulatedWorld, TheorySettings, draw_world

__all__ = [
    "Assumptions",
    "Coverage",
    "Crowd",
    "Exponent",
    "GoodEvent",
    "MetaError",
    "MetaRegretBound",
    "Rate",
    "RegretBound",
    "Run",
    "ShrunkenError",
    "SimulatedWorld",
    "TheorySettings",
    "UniformChoice",
    "draw_crowd",
    "draw_world",
    "ellipsoid_factor",
    "fit_exponent",
    "gamma_t",
    "good_event",
    "information_gain",
    "information_width",
    "informative_from",
    "max_information_gain",
    "meta_belief",
    "meta_regret_bound",
    "mutual_information",
    "nu_t",
    "regret_bound",
    "run_theory",
    "simulate_coverage",
    "simulate_meta_prior",
    "simulate_regret",
    "simulate_shrunken",
    "sufficient_rounds",
    "union_factor",
]
