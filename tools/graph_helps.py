"""Where the graph helps: thinner and thinner logs, the graph model with and without propagation, the default beside it.

    python tools/graph_helps.py ml-1m --keep 0.02 0.05 0.1 0.3 --per-user 3 10

Test users, as many rounds as the protocol has; all choices are made on the validation users.
"""

import argparse
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import click
import numpy as np

from igcf.arrays import Float32Array
from igcf.baselines import Task, method_named
from igcf.data import Interactions, load_dataset
from igcf.evaluate import prepare, setup_for
from igcf.online import replay

ROWS: dict[str, tuple[str, Mapping[str, Any]]] = {
    "pop-satisfied": ("pop-satisfied", {}),
    "pca-gp": ("pca-gp", {}),
    "igcf-graph, K = 0": ("igcf-graph", {"layers": 0}),
    "igcf-graph, K = 2": ("igcf-graph", {"layers": 2}),
    "igcf": ("igcf", {}),
}


def thinned(log: Interactions, share: float, rng: np.random.Generator) -> Interactions:
    """Each reaction is kept with this probability; users who lose all of them are gone."""
    part = log.subset(rng.random(len(log)) < share)
    return part.only_users(np.unique(part.user_idx))


def at_most(log: Interactions, n: int, rng: np.random.Generator) -> Interactions:
    """At most n reactions of every user, drawn."""
    order = np.lexsort((rng.random(len(log)), log.user_idx))
    counts = np.bincount(log.user_idx, minlength=log.n_users)
    place = np.arange(len(log)) - np.repeat(np.cumsum(counts) - counts, counts)
    return log.subset(np.sort(order[place < n]))


def score(
    name: str, task: Task, truth: tuple[Float32Array, ...], settings: Mapping[str, Any], seed: int
) -> tuple[float, float]:
    """Successes of the users of `truth` in 40 rounds and in all of them."""
    method = method_named(name)
    chosen = method.settings(settings)
    learner = method.build(task, chosen, np.random.default_rng(seed))
    shown = replay(learner, truth, rounds=task.rounds, rng=np.random.default_rng(seed))
    hits = shown.values[:, :, 0] >= task.satisfied
    return float(hits[:, :40].sum(axis=1).mean()), float(hits.sum(axis=1).mean())


def main() -> None:
    """Print one Markdown row per log and method."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("dataset")
    parser.add_argument("--keep", type=float, nargs="*", default=[])
    parser.add_argument("--per-user", type=int, nargs="*", default=[])
    parser.add_argument("--methods", nargs="*", default=list(ROWS))
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    data = load_dataset(options.dataset)
    case = prepare(data, setup_for(data, "cold-start"), options.seed, "test")
    logs: dict[str, tuple[Callable[..., Interactions], float]] = {
        f"{share:.0%} of the reactions": (thinned, share) for share in options.keep
    }
    logs |= {f"at most {n} per user": (at_most, n) for n in options.per_user}
    for label, (thin, amount) in logs.items():
        part = thin(case.task.train, amount, np.random.default_rng(options.seed))
        for row in options.methods:
            name, settings = ROWS[row]
            early, late = score(name, replace(case.task, train=part), case.truth, settings, options.seed)
            click.echo(f"| {label} ({len(part):,}) | {row} | {early:.2f} | {late:.2f} |")


if __name__ == "__main__":
    main()
