"""Search of the training and the online settings of `igcf-paper` on validation users, for each number K of layers.

    python tools/paper_search.py ml-1m --layers 3 2 1 0 --train adam,0.02,30,none adam,0.05,15,none sgd,1,1,200

One JSON line per training: the best online settings by half of the validation users in 40 rounds, then all of them in
120. Settings are compared by successes per round so far, mean over T = 10, 20, 40 and 120.
"""

import argparse
import json
import time
from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any

import click
import numpy as np

from igcf.arrays import Float32Array
from igcf.data import load_dataset
from igcf.errors import TrainingDivergedError
from igcf.lab.baselines import Task, method_named
from igcf.lab.evaluate import prepare, setup_for
from igcf.online import replay

CUTOFFS = (10, 20, 40, 120)
NOISES = (0.25, 1.0, 4.0)
GAMMAS = (0.1, 1.0, 10.0, 100.0)
NUS = (0.0, 0.3, 1.0)
METHOD = method_named("igcf-paper")


def successes(model: Any, settings: Mapping[str, Any], task: Task, truth: Float32Array, rounds: int) -> list[float]:
    """Return the mean number of successes of the users of `truth` at each T within the rounds."""
    shown = replay(METHOD.play(model, settings), truth, rounds=rounds, rng=np.random.default_rng(0))
    so_far = (shown.values[:, :, 0] >= task.satisfied).cumsum(axis=1).mean(axis=0)
    return [float(so_far[t - 1]) for t in CUTOFFS if t <= rounds]


def per_round(found: list[float]) -> float:
    """Return successes per round so far, mean over all T."""
    return float(np.mean([count / t for count, t in zip(found, CUTOFFS, strict=False)]))


def best_online(
    model: Any, settings: Mapping[str, Any], task: Task, truth: Float32Array, nus: Sequence[float]
) -> dict[str, Any]:
    """Return the best noise, gamma and nu; then whether the item's uncertainty should count too, and with which nu."""

    def best_of(candidates: list[dict[str, Any]]) -> dict[str, Any]:
        return max(
            candidates, key=lambda online: per_round(successes(model, {**settings, **online}, task, truth[::2], 40))
        )

    gammas = GAMMAS if settings["meta"] else (settings["gamma"],)  # a prior of its own has no gamma
    names = ("noise_var", "gamma", "nu")
    best = best_of([dict(zip(names, values, strict=True)) for values in product(NOISES, gammas, nus)])
    return best_of([best, *({**best, "nu": nu, "item_uncertainty": True} for nu in nus if nu)])


def main() -> None:
    """Print one line per training and number of layers."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("dataset")
    parser.add_argument("--layers", type=int, nargs="*", default=[3, 2, 1, 0])
    parser.add_argument("--train", nargs="*", default=["adam,0.02,30,none"], help="optimiser,rate,epochs,batch size")
    parser.add_argument("--kl-weight", type=float, default=0.0)
    parser.add_argument("--no-meta", action="store_true")
    parser.add_argument("--nu", type=float, nargs="*", default=NUS, help="exploration that is tried; 0: none")
    options = parser.parse_args()
    data = load_dataset(options.dataset)
    case = prepare(data, setup_for(data, "cold-start"), 0, "validation")
    for text, layers in product(options.train, options.layers):
        optimiser, rate, epochs, batch = text.split(",")
        changes = {
            "layers": layers,
            "optimiser": optimiser,
            "learning_rate": float(rate),
            "epochs": int(epochs),
            "batch_size": None if batch == "none" else int(batch),
            "kl_weight": options.kl_weight,
            "meta": not options.no_meta,
        }
        settings = METHOD.settings(changes)
        begun = time.process_time()
        try:
            model = METHOD.fit(case.task, settings, np.random.default_rng(0))
        except TrainingDivergedError as error:
            click.echo(json.dumps({**changes, "failed": str(error)}))
            continue
        seconds = time.process_time() - begun
        online = best_online(model, settings, case.task, case.truth[0], options.nu)
        found = successes(model, {**settings, **online}, case.task, case.truth[0], CUTOFFS[-1])
        score = {"validation": found, "per_round": round(per_round(found), 4), "fit_seconds": round(seconds, 1)}
        used = {"learning_rate": model.metadata["settings"]["learning_rate"]}  # a smaller one where training diverged
        click.echo(json.dumps({**changes, **used, **online, **score}))


if __name__ == "__main__":
    main()
