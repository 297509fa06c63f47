"""`igcf-paper`, the paper's graph model as written, and `igcf-graph`, the same model with the zero-aware objective."""

import warnings
from typing import Any

import numpy as np

from igcf.data.interactions import Interactions
from igcf.data.splits import has_all_times
from igcf.errors import ConfigError, TrainingDivergedError
from igcf.graph import GraphWarning
from igcf.lab.baselines.logged_models import LoggedModelLearner
from igcf.lab.baselines.task import Settings, Task
from igcf.model import Model
from igcf.online import Ucb
from igcf.training import pretrain

GRAPH_FIT = ("dim", "graph", "layers", "edges", "missing")
GRAPH_DEFAULTS = {
    "dim": 64,
    "graph": "lightgcn",
    "layers": 2,
    "edges": None,
    "missing": "zero",
    "meta": True,
    "nu": 0.0,
    "forgetting": 1.0,
}
RATES = (10.0, 5.0, 1.0, 0.5, 0.1, 0.01)
"""The learning rates of the paper's grid, largest first."""
PAPER_DEFAULTS = {
    "dim": 64,
    "layers": 3,
    "edges": None,
    "optimiser": "sgd",
    "learning_rate": 5.0,
    "batch_size": 200,
    "epochs": 1,
    "kl_weight": 0.0,
    "reward": None,
    "meta": True,
    "gamma": 1.0,
    "nu": 1.0,
    "noise_var": 0.25,
    "item_uncertainty": False,
    "forgetting": 1.0,
}


def fit_igcf_graph(task: Task, settings: Settings, rng: np.random.Generator) -> Model:
    """Learn from all pairs, missing ones as zeros; noise and gamma are chosen on the validation users."""
    chosen = {name: settings[name] for name in GRAPH_FIT} | {"edges": edges_of(task, settings)}
    return _pretrained(
        task.train,
        validation=task.whole_validation(),
        method="graph",
        satisfied=task.satisfied,
        seed=int(rng.integers(2**31)),
        **chosen,
    )


def fit_igcf_paper(task: Task, settings: Settings, rng: np.random.Generator) -> Model:
    """Learn as the paper does: observed pairs, squared error, LightGCN; by default plain SGD, batches in order of time.

    Where times are unknown, the order is drawn: in KuaiRec's, all satisfied pairs would come last.
    A rate at which training diverges (K = 0 and 1 at the paper's best rate for K = 3) gives way to the next smaller one
    of the paper's grid.
    """
    seed = int(rng.integers(2**31))
    largest = settings["learning_rate"]
    rates = [largest, *(rate for rate in RATES if rate < largest)]
    for rate in rates[:-1]:
        try:
            return _fit_at_rate(task, settings, rate, seed)
        except TrainingDivergedError:
            continue
    return _fit_at_rate(task, settings, rates[-1], seed)


def _fit_at_rate(task: Task, settings: Settings, learning_rate: float, seed: int) -> Model:
    is_timed = has_all_times(task.train)
    return _pretrained(
        in_time(task.train) if is_timed else task.train,
        missing="ignore",
        reward=task.reward_of(settings["reward"]).kind,
        satisfied=task.satisfied,
        graph="lightgcn",
        dim=settings["dim"],
        layers=settings["layers"],
        edges=edges_of(task, settings),
        optimiser=settings["optimiser"],
        learning_rate=learning_rate,
        schedule="constant",
        batch_size=settings["batch_size"],
        epochs=settings["epochs"],
        shuffle=not is_timed,
        start="zeros",
        kl_weight=settings["kl_weight"],
        noise_std=0.5**0.5,  # the loss is then the mean squared error
        gamma=0.0,
        tune=False,
        holdout=0.0,
        seed=seed,
    )


def edges_of(task: Task, settings: Settings) -> str:
    """Return which pairs are edges: as set, or else the observed ones; the satisfied ones where all are observed."""
    return settings["edges"] or ("satisfied" if task.reward == "satisfied" else "observed")


def _pretrained(log: Interactions, **settings: Any) -> Model:
    """Train the graph model; a graph that cannot tell users apart is an error in an experiment."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", GraphWarning)
        try:
            return pretrain(log, progress=False, **settings)
        except GraphWarning as warning:
            raise ConfigError(f"the graph is degenerate: {warning}") from warning


def play_igcf_graph(model: Model, settings: Settings) -> LoggedModelLearner:
    """Play the model as pretrained, or without what pretraining knows about the population."""
    if not settings["meta"]:
        model = model.with_prior(np.zeros(model.dim), prior_std_of(model) ** 2 * np.eye(model.dim))
    return LoggedModelLearner(model, Ucb(settings["nu"]), forgetting=settings["forgetting"])


def play_igcf_paper(model: Model, settings: Settings) -> LoggedModelLearner:
    """Play eq:UCB2 with the meta prior N(mean, cov + gamma I), or with N(0, prior_std^2 I) without `meta`.

    With `item_uncertainty` the score also counts how uncertain the item's vector is, as the authors' code does.
    """
    identity = np.eye(model.dim)
    mean, cov = model.prior_mean, model.prior_cov + settings["gamma"] * identity
    if not settings["meta"]:
        mean, cov = np.zeros(model.dim), prior_std_of(model) ** 2 * identity
    played = model.with_prior(mean, cov, settings["noise_var"])
    policy = Ucb(settings["nu"], item_uncertainty=settings["item_uncertainty"])
    return LoggedModelLearner(played, policy, forgetting=settings["forgetting"])


def prior_std_of(model: Model) -> float:
    """Return the standard deviation sigma_0 of the pretraining's prior."""
    return float(model.metadata.get("settings", {}).get("prior_std", 1.0))


def in_time(log: Interactions) -> Interactions:
    """Return the log in the order of time."""
    return log.subset(np.argsort(np.asarray(log.timestamps), kind="stable"))
