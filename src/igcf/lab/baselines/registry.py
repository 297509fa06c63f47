"""All methods by name: how they are fitted and played, their settings, and what tuning tries."""

import hashlib
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from igcf.config import imported
from igcf.errors import ConfigError
from igcf.lab.baselines import igcf
from igcf.lab.baselines.agent import Agent, agent_method
from igcf.lab.baselines.als import fit_als, fit_ials
from igcf.lab.baselines.bandits import (
    fit_egreedy_ease,
    fit_latent_bandit,
    fit_linucb,
    fit_linucb_hybrid,
    play_egreedy,
    play_linucb,
)
from igcf.lab.baselines.by_attributes import ATTRIBUTE_METHODS
from igcf.lab.baselines.factors import fit_icf, fit_liked_factors, fit_pca_gp, play_icf, play_pca_gp
from igcf.lab.baselines.graph_models import GRAPH_METHODS
from igcf.lab.baselines.history import fit_ease, fit_filter, fit_item_knn, play_filter
from igcf.lab.baselines.implicit_models import fit_bm25
from igcf.lab.baselines.simple import RandomItems, RankedItems, interaction_counts, like_shares, satisfied_counts
from igcf.lab.baselines.task import Method, Settings, Task
from igcf.lab.baselines.trend import with_trend
from igcf.online import Learner

PMF_GRID = {"penalty": (5.0, 10.0, 20.0, 30.0, 50.0)}
NICF_DEFAULTS = {
    "dim": 50,
    "epochs": 1000,
    "steps": 3,
    "learning_rate": 1e-3,
    "mask_target": False,
    "patience": 4,
    "check_every": 50,
}


def _as_fitted(learner: Any, settings: Settings) -> Learner:
    return learner  # type: ignore[no-any-return]


def _loaded_late(module: str, function: str) -> Callable[[Task, Settings, np.random.Generator], Any]:
    """Return a fit from a module that imports torch or numba, loaded when it is called."""
    return lambda *arguments: getattr(import_module(f"igcf.lab.baselines.{module}"), function)(*arguments)


def _ranked(name: str, counts: Callable[..., Any], **more: Any) -> Method:
    """Return a method that shows everybody the same list."""
    return Method(
        name,
        lambda task, settings, rng: counts(task, **settings),
        lambda counts, settings: RankedItems(counts),
        **more,
    )


def _by_factors(name: str, defaults: Settings, grid: Settings) -> Method:
    """Return a method of interactive collaborative filtering.

    The paper searches the size only; without the penalty the comparison would not be fair.
    """
    return Method(
        name,
        fit_icf,
        play_icf,
        {"dim": 32, "penalty": 20.0, "rounds": 20, "reward": None, "forgetting": 1.0, **defaults},
        online=frozenset({"forgetting", *defaults}),
        grid={**PMF_GRID, **grid},
        paper_grid={**PMF_GRID, "dim": (32, 64, 128, 256), **grid},
        is_refitted=True,
        fits_to="log",
    )


def _by_history(name: str, fit: Any, defaults: Settings, grid: Settings, play: Any = _as_fitted, **more: Any) -> Method:
    """Return a method that scores by what satisfied the user before."""
    return Method(name, fit, play, defaults, grid=grid, uses_logged=True, needs_logged=True, is_refitted=True, **more)


_ALL = (
    Method("random", lambda *_: None, lambda fitted, settings: RandomItems(), uses_logged=True),
    _ranked("pop", interaction_counts, uses_logged=True),
    _ranked("pop-satisfied", satisfied_counts, uses_logged=True),
    _ranked(
        "pop-recent",
        satisfied_counts,
        defaults={"days": 30.0},
        grid={"days": (1.0, 3.0, 7.0, 14.0, 30.0, 60.0, 120.0, 365.0)},
        uses_logged=True,
        is_refitted=True,
    ),
    _ranked("share", like_shares),
    Method("liked-factors", fit_liked_factors, _as_fitted),
    _by_factors("mf", {}, {}),
    _by_factors("icf-ucb", {"nu": 0.5}, {"nu": (0.1, 0.5, 1.0)}),
    _by_factors("icf-ts", {"sample_items": False}, {}),
    Method("nicf", _loaded_late("nicf", "fit_nicf"), _as_fitted, NICF_DEFAULTS, packages=("torch",)),
    _by_history(
        "item-knn",
        fit_item_knn,
        {"k": 100, "shrink": 10.0},
        {"k": (20, 50, 100, 200, 400), "shrink": (0.0, 10.0, 50.0, 200.0)},
    ),
    _by_history(
        "ease",
        fit_ease,
        {"penalty": 300.0},
        {"penalty": (10.0, 30.0, 100.0, 300.0, 600.0, 1000.0, 2000.0, 4000.0, 10000.0, 30000.0)},
    ),
    _by_history(
        "slim",
        _loaded_late("slim", "fit_slim"),
        {"l1": 1.0, "l2": 300.0},
        {"l1": (1.0, 5.0), "l2": (30.0, 100.0, 300.0, 1000.0)},
        packages=("numba",),
    ),
    _by_history(
        "graph-filter",
        fit_filter,
        {
            "user_exponent": 0.4,
            "item_exponent": 0.5,
            "rank": 256,
            "low_pass": 0.2,
            "sharpening": 0.8,
            "popularity": 0.1,
        },
        {
            "user_exponent": (0.2, 0.3, 0.4, 0.5),
            "item_exponent": (0.3, 0.4, 0.5),
            "rank": (64, 128, 256, 512),
            "low_pass": (0.0, 0.1, 0.2, 0.4),
            "sharpening": (0.0, 0.5, 0.8, 1.0),
            "popularity": (0.0, 0.1, 0.2),
        },
        play_filter,
        online=frozenset({"low_pass", "sharpening", "popularity"}),
    ),
    _by_history(
        "als",
        fit_als,
        {"factors": 64, "regularization": 20.0, "alpha": 5.0, "iterations": 12},
        {"factors": (32, 128, 256), "regularization": (20.0, 60.0, 150.0), "alpha": (3.0, 6.0, 10.0, 20.0)},
    ),
    _by_history(
        "ials",
        fit_ials,
        {"factors": 64, "regularization": 0.01, "unobserved": 0.1, "exponent": 1.0, "iterations": 12},
        {"regularization": (0.003, 0.01, 0.03), "unobserved": (0.1, 0.3)},
    ),
    _by_history(
        "mult-vae",
        _loaded_late("vae", "fit_mult_vae"),
        {"hidden": 300, "dim": 100, "dropout": 0.5, "kl_weight": 0.2, "steps": 1500, "learning_rate": 1e-3},
        {"steps": (300, 1500), "learning_rate": (1e-3, 3e-3), "dropout": (0.3, 0.5)},
        packages=("torch",),
    ),
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
        fits_to="log",
    ),
    *(
        Method(
            name,
            fit,
            play_linucb,
            {"dim": 16, "penalty": 0.3, "alpha": 0.01},
            online=frozenset({"alpha"}),
            grid={"dim": (16, 48), "penalty": (0.1, 0.3, 1.0, 10.0), "alpha": (0.0, 0.01, 0.1, 0.5)},
            is_refitted=True,
        )
        for name, fit in (("linucb", fit_linucb), ("linucb-hybrid", fit_linucb_hybrid))
    ),
    Method(
        "latent-bandit",
        fit_latent_bandit,
        _as_fitted,
        {"clusters": 32, "dim": 16, "smoothing": 3.0, "sample": False},
        grid={"clusters": (8, 16, 32, 64), "smoothing": (1.0, 3.0, 10.0, 30.0), "sample": (True, False)},
        is_refitted=True,
    ),
    Method(
        "egreedy-ease",
        fit_egreedy_ease,
        play_egreedy,
        {"penalty": 300.0, "epsilon": 0.01},
        online=frozenset({"epsilon"}),
        grid={"penalty": (30.0, 100.0, 300.0, 1000.0, 4000.0), "epsilon": (0.01, 0.05, 0.2)},
        is_refitted=True,
    ),
    *ATTRIBUTE_METHODS,
    _by_history("implicit-bm25", fit_bm25, {"K": 100}, {"K": (20, 50, 100, 200)}, packages=("implicit",)),
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
        logged_settings={"known_users": True},
        known_grid={},
        fits_to="length",
    ),
)
METHODS: dict[str, Method] = {method.name: method for method in _ALL}
METHODS |= {each.name: each for each in (with_trend(METHODS[name]) for name in ("ease", "als", "igcf"))}


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
    if isinstance(found, type) and issubclass(found, Agent):
        return agent_method(found, path)
    if not isinstance(found, Method):
        raise ConfigError(
            f"{path} is a {type(found).__name__}; expected an igcf.lab.baselines.Method or a class of "
            "igcf.lab.agents.Agent"
        )
    return replace(found, name=path)


def method_source(name: str) -> str:
    """Return a hash of the module that a method of one's own comes from; of others, the code of igcf has its own."""
    if name in METHODS:
        return ""
    imported_method(name)
    file = sys.modules[name.partition(":")[0]].__file__
    return hashlib.sha256(Path(file).read_bytes()).hexdigest() if file else ""
