"""All methods by name: how they are fitted and played, their settings, and what tuning tries."""

import hashlib
import sys
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from igcf.config import imported
from igcf.errors import ConfigError
from igcf.lab.baselines import als, ease, graph_filter, igcf, item_knn
from igcf.lab.baselines.graph_models import GRAPH_METHODS
from igcf.lab.baselines.icf import fit_icf, play_mf, play_thompson, play_ucb
from igcf.lab.baselines.liked import fit_liked_factors, like_shares
from igcf.lab.baselines.pca import fit_pca_gp, play_pca_gp
from igcf.lab.baselines.simple import RandomItems, RankedItems, interaction_counts, recent_counts, satisfied_counts
from igcf.lab.baselines.task import Method, Settings, Task
from igcf.online import Learner

PMF_DEFAULTS = {"dim": 32, "penalty": 20.0, "rounds": 20, "estimate": "map", "reward": None, "forgetting": 1.0}
PMF_GRID = {"penalty": (5.0, 10.0, 20.0, 30.0, 50.0)}
DIMS = (32, 64, 128, 256)
PAPER_PMF_GRID = {**PMF_GRID, "dim": DIMS}
"""The paper searches the size only; without the penalty the comparison would not be fair."""
NICF_DEFAULTS = {
    "dim": 50,
    "blocks": 2,
    "attention": False,
    "dropout": 0.1,
    "epochs": 1000,
    "steps": 3,
    "learning_rate": 1e-3,
    "mask_target": False,
    "patience": 4,
    "check_every": 50,
}


def _nothing(task: Task, settings: Settings, rng: np.random.Generator) -> None:
    """Fit nothing: random items need no fit."""


def _fit_nicf(task: Task, settings: Settings, rng: np.random.Generator) -> Any:
    from igcf.lab.baselines.nicf import fit_nicf  # torch

    return fit_nicf(task, settings, rng)


def _as_fitted(learner: Any, settings: Settings) -> Learner:
    return learner  # type: ignore[no-any-return]


def _by_history(name: str, fit: Any, defaults: Settings, grid: Any) -> Method:
    """Return a method that scores by what satisfied the user before."""
    return Method(name, fit, _as_fitted, defaults, grid=grid, uses_logged=True, needs_logged=True, is_refitted=True)


_ALL = (
    Method("random", _nothing, lambda fitted, settings: RandomItems(), uses_logged=True),
    Method(
        "pop",
        lambda task, settings, rng: interaction_counts(task),
        lambda counts, settings: RankedItems(counts),
        uses_logged=True,
    ),
    Method(
        "pop-satisfied",
        lambda task, settings, rng: satisfied_counts(task),
        lambda counts, settings: RankedItems(counts),
        uses_logged=True,
    ),
    Method(
        "pop-recent",
        lambda task, settings, rng: recent_counts(task, settings["days"]),
        lambda counts, settings: RankedItems(counts),
        {"days": 30.0},
        grid={"days": (1.0, 3.0, 7.0, 14.0, 30.0, 60.0, 120.0, 365.0)},
        uses_logged=True,
        is_refitted=True,
    ),
    Method("share", lambda task, settings, rng: like_shares(task), lambda shares, settings: RankedItems(shares)),
    Method("liked-factors", fit_liked_factors, _as_fitted),
    Method(
        "mf",
        fit_icf,
        play_mf,
        PMF_DEFAULTS,
        online=frozenset({"forgetting"}),
        grid=PMF_GRID,
        paper_grid=PAPER_PMF_GRID,
        is_refitted=True,
    ),
    Method(
        "icf-ucb",
        fit_icf,
        play_ucb,
        {**PMF_DEFAULTS, "nu": 0.5},
        online=frozenset({"nu", "forgetting"}),
        grid={**PMF_GRID, "nu": (0.1, 0.5, 1.0)},
        paper_grid={**PAPER_PMF_GRID, "nu": (0.1, 0.5, 1.0)},
        is_refitted=True,
    ),
    Method(
        "icf-ts",
        fit_icf,
        play_thompson,
        {**PMF_DEFAULTS, "sample_items": False},
        online=frozenset({"sample_items", "forgetting"}),
        grid=PMF_GRID,
        paper_grid=PAPER_PMF_GRID,
        is_refitted=True,
    ),
    Method("nicf", _fit_nicf, _as_fitted, NICF_DEFAULTS, packages=("torch",)),
    _by_history("item-knn", item_knn.fit_item_knn, item_knn.DEFAULTS, item_knn.GRID),
    _by_history("ease", ease.fit_ease, ease.DEFAULTS, ease.GRID),
    _by_history("graph-filter", graph_filter.fit_filter, graph_filter.DEFAULTS, graph_filter.GRID),
    _by_history("als", als.fit_als, als.DEFAULTS, als.GRID),
    Method(
        "pca-gp",
        fit_pca_gp,
        play_pca_gp,
        {"dim": 48, "noise_var": 0.09, "nu": 0.0, "forgetting": 1.0},
        online=frozenset({"noise_var", "nu", "forgetting"}),
        grid={"dim": (12, 24, 48), "noise_var": (0.06, 0.09, 0.13, 0.2, 0.4, 0.8, 1.6)},
        uses_logged=True,
        is_refitted=True,
        known_grid={"dim": (48, 100, 200), "noise_var": (0.03, 0.06, 0.13, 0.25, 0.5, 1.0)},
    ),
    *GRAPH_METHODS,
    Method(
        "igcf",
        igcf.fit_igcf,
        igcf.play_igcf,
        igcf.DEFAULTS,
        online=frozenset(set(igcf.DEFAULTS) - {*igcf.FIT, *igcf.OF_THE_PROTOCOL}),
        grid={"nu": (0.0, 0.1)},
        variants=igcf.VARIANTS,
        uses_logged=True,
        logged_settings={"neighbours": True},
        known_grid={},
    ),
)
METHODS: dict[str, Method] = {method.name: method for method in _ALL}


def method_named(name: str) -> Method:
    """Return the method called `name`, or the one at an import path such as `my.module:METHOD`."""
    if name in METHODS:
        return METHODS[name]
    if ":" not in name:
        known = ", ".join(METHODS)
        raise ConfigError(f"unknown method {name!r}; known are {known}, and my.module:NAME for one of your own")
    return imported_method(name)


@cache
def imported_method(path: str) -> Method:
    """Import the method at `module:NAME`; it is known by that path, so that every process finds it again."""
    found = imported(path)
    if not isinstance(found, Method):
        raise ConfigError(f"{path} is a {type(found).__name__}; expected an igcf.lab.baselines.Method")
    return replace(found, name=path)


def method_source(name: str) -> str:
    """Return a hash of the module that a method of one's own comes from; of others, the code of igcf has its own."""
    if name in METHODS:
        return ""
    imported_method(name)
    file = sys.modules[name.partition(":")[0]].__file__
    return hashlib.sha256(Path(file).read_bytes()).hexdigest() if file else ""
