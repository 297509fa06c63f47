"""The paper's graph model in all its forms (`igcf-paper...`), and `igcf-graph`, learned from all pairs."""

import warnings
from typing import Any

import numpy as np

from igcf.config import GraphConfig
from igcf.data.interactions import Interactions
from igcf.data.splits import has_all_times
from igcf.errors import ConfigError, TrainingDivergedError
from igcf.graph import GraphWarning
from igcf.lab.baselines.factors import LoggedModelLearner
from igcf.lab.baselines.task import Method, Settings, Task
from igcf.model import Model
from igcf.online import Policy, Ucb, named_policy
from igcf.training import pretrain

GRAPH_FIT = ("feedback", "dim", "graph", "layers", "edges", "missing", "prior_std")
GRAPH_DEFAULTS = {
    "feedback": "continuous",
    "dim": 64,
    "graph": "lightgcn",
    "layers": 2,
    "edges": None,
    "missing": "zero",
    "prior_std": 1.0,
    "meta": True,
    "policy": "ucb",
    "nu": 0.0,
    "delta": 0.05,
    "forgetting": 1.0,
}
RATES = (10.0, 5.0, 1.0, 0.5, 0.1, 0.01)  # the learning rates of the paper's grid, largest first
PRINTED_GRID = {"gamma": (0.01, 0.1, 1.0), "nu": (0.1, 0.5, 1.0, 5.0, 10.0), "policy": ("ucb", "info-ucb")}
"""The paper's values of gamma and nu, and its two rules: eq:UCB2 and eq:UCB."""
PAPER_GRID = {"dim": (32, 64, 128, 256), "learning_rate": RATES[::-1], **PRINTED_GRID}
PAPER_FIT = ("dim", "graph", "layers", "teleport", "optimiser", "batch_size", "epochs", "kl_weight", "prior_std")
"""Settings of the paper's model that are passed on to training as they are."""
PAPER_DEFAULTS = {
    "feedback": "continuous",
    "dim": 64,
    "graph": "lightgcn",
    "layers": 3,
    "teleport": 0.6,
    "edges": None,
    "optimiser": "sgd",
    "learning_rate": 5.0,
    "batch_size": 200,
    "epochs": 1,
    "kl_weight": 1.0,
    "prior_std": 1.0,
    "reward": None,
    "meta": True,
    "gamma": 1.0,
    "policy": "ucb",
    "nu": 1.0,
    "delta": 0.05,
    "noise_var": 0.5,
    "item_uncertainty": False,
    "forgetting": 1.0,
}
"""The paper's algorithm as printed, for one epoch; `noise_var` is that of the online phase."""
FREE = {"kl_weight": 0.0, "noise_var": 0.25}  # what the freely tuned rows start from instead
FREE_GRID = {"gamma": (0.01, 0.1, 1.0), "nu": (0.1, 0.5, 1.0), "noise_var": (0.25, 1.0, 4.0)}
PAPER_ONLINE = frozenset(
    {"meta", "gamma", "policy", "nu", "delta", "noise_var", "item_uncertainty", "forgetting"}
)  # a change of these needs no new fit
WITHOUT: dict[str, Settings] = {
    "- meta": {"meta": False},
    "- exploration": {"nu": 0.0},
    "- meta & exploration": {"meta": False, "nu": 0.0},
}
"""Rows of the paper's ablation table that change the online phase."""
OTHER_GRAPHS: dict[str, Settings] = {
    **{f"SGC, K = {layers}": {"graph": "sgc", "layers": layers} for layers in (3, 2, 1)},
    **{f"APPNP, K = {layers}": {"graph": "appnp", "layers": layers} for layers in (3, 2, 1)},
}
"""The paper's other graphs; without layers all are the same model."""


def fit_igcf_graph(task: Task, settings: Settings, rng: np.random.Generator) -> Model:
    """Learn from all pairs, missing ones as zeros; noise and gamma are chosen on the validation users."""
    chosen = {name: settings[name] for name in GRAPH_FIT} | {"edges": edges_of(task, settings)}
    config = GraphConfig(satisfied=task.satisfied, seed=int(rng.integers(2**31)), **chosen)
    return _pretrained(task.train, config, validation=task.whole_validation())


def fit_igcf_paper(task: Task, settings: Settings, rng: np.random.Generator) -> Model:
    """Learn as the paper does, from observed pairs, batches in the order of time; without gamma, which `play` adds.

    Where times are unknown, the order is drawn: in KuaiRec's, all satisfied pairs would come last.
    A rate at which training diverges (K = 0 and 1 at the paper's best rate for K = 3) is replaced by the next
    smaller one of the paper's grid.
    """
    is_timed = has_all_times(task.train)
    binary = settings["feedback"] == "binary"
    config = GraphConfig.paper(
        settings["feedback"],
        reward="satisfied" if binary else task.reward_of(settings["reward"]).kind,
        satisfied=task.satisfied,
        edges=edges_of(task, settings),
        learning_rate=settings["learning_rate"],
        shuffle=not is_timed,
        gamma=0.0,
        holdout=0.0,
        seed=int(rng.integers(2**31)),
        **{name: settings[name] for name in PAPER_FIT},
    )
    log = in_time(task.train) if is_timed else task.train
    for rate in [config.learning_rate, *(rate for rate in RATES[:-1] if rate < config.learning_rate)]:
        try:
            return _pretrained(log, config, learning_rate=rate)
        except TrainingDivergedError:
            continue
    return _pretrained(log, config, learning_rate=min(config.learning_rate, RATES[-1]))


def edges_of(task: Task, settings: Settings) -> str:
    """Return which pairs are edges: as set, or else the observed ones; the satisfied ones where all are observed."""
    return settings["edges"] or ("satisfied" if task.reward == "satisfied" else "observed")


def _pretrained(log: Interactions, config: GraphConfig, **settings: Any) -> Model:
    """Train the graph model; a graph that gives all users the same neighbourhood is an error in an experiment."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", GraphWarning)
        try:
            return pretrain(log, config, progress=False, **settings)
        except GraphWarning as warning:
            raise ConfigError(f"the graph is degenerate: {warning}") from warning


def play_igcf_graph(model: Model, settings: Settings) -> LoggedModelLearner:
    """Play the model as pretrained, or without what pretraining knows about the population."""
    if not settings["meta"]:
        model = model.with_prior(np.zeros(model.dim), settings["prior_std"] ** 2 * np.eye(model.dim))
    return LoggedModelLearner(model, policy_of(settings), forgetting=settings["forgetting"])


def play_igcf_paper(model: Model, settings: Settings) -> LoggedModelLearner:
    """Play eq:UCB2 or eq:UCB with the prior N(mu_meta, Sigma_meta + gamma I), or N(0, sigma_0^2 I) without `meta`.

    With `item_uncertainty` the score also counts how uncertain the item's vector is, as the authors' code does.
    """
    identity = np.eye(model.dim)
    mean, cov = model.prior_mean, model.prior_cov + settings["gamma"] * identity
    if not settings["meta"]:
        mean, cov = np.zeros(model.dim), settings["prior_std"] ** 2 * identity
    played = model.with_prior(mean, cov, settings["noise_var"])
    return LoggedModelLearner(played, policy_of(settings), forgetting=settings["forgetting"])


def policy_of(settings: Settings) -> Policy:
    """Return the rule that chooses items: `ucb` (eq:UCB2), `info-ucb` (eq:UCB), or another policy by name."""
    if settings["policy"] == "ucb":
        return Ucb(settings["nu"], settings.get("item_uncertainty", False))
    return named_policy(settings["policy"], delta=settings["delta"] if settings["policy"] == "info-ucb" else None)


def in_time(log: Interactions) -> Interactions:
    """Return the log in the order of time."""
    return log.subset(np.argsort(np.asarray(log.timestamps), kind="stable"))


def _paper(name: str, changes: Settings, grid: Settings, **more: Any) -> Method:
    return Method(
        name,
        fit_igcf_paper,
        play_igcf_paper,
        {**PAPER_DEFAULTS, **changes},
        online=PAPER_ONLINE,
        grid=grid,
        fits_to="log",
        packages=("torch", "numba"),
        **more,
    )


GRAPH_METHODS = (
    _paper(
        "igcf-paper",
        FREE,
        FREE_GRID,
        paper_grid=PAPER_GRID,
        variants={**WITHOUT, **{f"K = {layers}": {"layers": layers} for layers in (2, 1, 0)}},
    ),
    _paper("igcf-paper-printed", {}, PRINTED_GRID, paper_grid=PAPER_GRID),
    _paper(
        "igcf-paper-info-ucb", {**FREE, "policy": "info-ucb"}, {**FREE_GRID, "nu": (1.0,), "delta": (0.05, 0.5, 0.95)}
    ),
    _paper("igcf-paper-binary", {**FREE, "feedback": "binary"}, FREE_GRID),
    _paper("igcf-paper-sgc", {**FREE, "graph": "sgc"}, FREE_GRID),
    _paper("igcf-paper-appnp", {**FREE, "graph": "appnp"}, FREE_GRID),
    Method(
        "igcf-graph",
        fit_igcf_graph,
        play_igcf_graph,
        GRAPH_DEFAULTS,
        online=frozenset({"meta", "policy", "nu", "delta", "forgetting"}),
        grid={"layers": (0, 2), "nu": (0.0, 0.1)},
        variants={**WITHOUT, **{f"K = {layers}": {"layers": layers} for layers in (3, 2, 1, 0)}, **OTHER_GRAPHS},
        uses_logged=True,
        known_grid={"layers": (0, 2)},
        fits_to="log",
        packages=("torch", "numba"),
    ),
)
"""`igcf-paper`: the paper's model, tuned freely; `igcf-paper-printed`: inside what the paper prints."""
