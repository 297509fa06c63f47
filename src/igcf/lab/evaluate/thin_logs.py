"""Thin training logs: methods that learned from a part of the log only, with the test users of cold start as they are.

Validation users are whole too. Choices are made on them, and nobody else learns from them: their records are longer
than the thinnest logs.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from igcf.arrays import Float32Array
from igcf.data import Interactions
from igcf.lab.baselines import Task, method_named
from igcf.lab.evaluate.protocols import prepare, setup_for
from igcf.online import replay
from igcf.tables import Table

CUTOFFS = (10, 20, 40, 120)
ROWS: dict[str, tuple[str, Mapping[str, Any]]] = {
    "pop-satisfied": ("pop-satisfied", {}),
    "pca-gp": ("pca-gp", {}),
    **{f"igcf-graph, K = {layers}": ("igcf-graph", {"layers": layers}) for layers in range(4)},
    "igcf-graph, SGC, K = 2": ("igcf-graph", {"graph": "sgc", "layers": 2}),
    "igcf-graph, APPNP, K = 2": ("igcf-graph", {"graph": "appnp", "layers": 2}),
    "igcf": ("igcf", {}),
}
"""Rows of the tables: a method and what differs from its defaults."""


def kept_share(log: Interactions, share: float, rng: np.random.Generator) -> Interactions:
    """Keep each reaction with this probability; users who lose all of them are gone."""
    part = log.subset(rng.random(len(log)) < share)
    return part.only_users(np.unique(part.user_idx))


def at_most(log: Interactions, n: int, rng: np.random.Generator) -> Interactions:
    """Keep at most n reactions of every user, drawn."""
    order = np.lexsort((rng.random(len(log)), log.user_idx))
    counts = np.bincount(log.user_idx, minlength=log.n_users)
    place = np.arange(len(log)) - np.repeat(np.cumsum(counts) - counts, counts)
    return log.subset(np.sort(order[place < n]))


def thin_log_table(
    data: Interactions,
    *,
    share: float | None = None,
    per_user: int | None = None,
    rows: Mapping[str, tuple[str, Mapping[str, Any]]] = ROWS,
    n_users: int | None = None,
    seed: int = 0,
    step: Callable[[str], None] = lambda row: None,
) -> Table:
    """Play the test users with every row, trained on a share of the log or on a few reactions of each user."""
    setup = setup_for(data, "cold-start", n_users=n_users)
    case = prepare(data, setup, seed, "test")
    rng, part, words = np.random.default_rng(seed), case.task.train, "whole training log"
    if share is not None:
        part, words = kept_share(part, share, rng), f"{share:.0%} of the training log"
    if per_user is not None:
        part, words = at_most(part, per_user, rng), f"at most {per_user} reactions of each training user"
    task = replace(case.task, train=part, may_refit=False)
    lines = []
    for label, (name, settings) in rows.items():
        step(label)
        lines.append((label, *(f"{each:.2f}" for each in successes(name, settings, task, case.truth, seed))))
    at = [t for t in CUTOFFS if t < task.rounds] + [task.rounds]
    return Table(f"{data.name}, {words}: {len(part):,} reactions", ("method", *(f"P@{t}" for t in at)), tuple(lines))


def successes(
    name: str, settings: Mapping[str, Any], task: Task, truth: tuple[Float32Array, ...], seed: int
) -> list[float]:
    """Return the mean successes of the users of `truth` after each number of rounds."""
    method = method_named(name)
    learner = method.build(task, method.settings(settings), np.random.default_rng(seed))
    shown = replay(learner, truth, rounds=task.rounds, rng=np.random.default_rng(seed))
    so_far = (shown.values[:, :, 0] >= task.satisfied).cumsum(axis=1).mean(axis=0)
    return [float(so_far[t - 1]) for t in CUTOFFS if t < task.rounds] + [float(so_far[-1])]
