"""Search of the settings of the `igcf-paper` rows on validation users, for each training and number K of layers.

    python tools/paper_search.py ml-1m --layers 3 2 1 0 --train adam,0.02,30,none adam,0.05,15,none sgd,1,1,200
    python tools/paper_search.py ml-100k --method igcf-paper-printed --train sgd,5,1,200 sgd,5,4,200 --set dim=128

One JSON line per training: the best online settings by half of the validation users in 40 rounds, then all of them in
120. Settings are compared by successes per round so far, mean over T = 10, 20, 40 and 120.
"""

import argparse
import json
import time
from collections.abc import Mapping
from itertools import product
from typing import Any

import click
import numpy as np

from igcf.arrays import Float32Array
from igcf.data import load_dataset
from igcf.errors import TrainingDivergedError
from igcf.lab.baselines import Method, Task, method_named
from igcf.lab.evaluate import prepare, setup_for
from igcf.online import replay

CUTOFFS = (10, 20, 40, 120)
NOISES = (0.25, 1.0, 4.0)
GAMMAS = (0.1, 1.0, 10.0, 100.0)
NUS = (0.0, 0.3, 1.0)
DELTAS = (0.05, 0.5, 0.95)
FREE: list[dict[str, tuple[Any, ...]]] = [{"noise_var": NOISES, "gamma": GAMMAS, "nu": NUS}]
ONLINE: dict[str, list[dict[str, tuple[Any, ...]]]] = {
    **dict.fromkeys(("igcf-paper", "igcf-paper-binary", "igcf-paper-sgc", "igcf-paper-appnp"), FREE),
    "igcf-paper-info-ucb": [{"noise_var": NOISES, "gamma": GAMMAS, "delta": DELTAS}],
    "igcf-paper-printed": [
        {"gamma": (0.01, 0.1, 1.0), "nu": (0.1, 0.5, 1.0, 5.0, 10.0)},
        {"gamma": (0.01, 0.1, 1.0), "policy": ("info-ucb",), "delta": DELTAS[:2]},
    ],
}
"""Values of the online settings that are tried, by method: those of the paper for the printed row."""


def successes(
    method: Method, model: Any, settings: Mapping[str, Any], task: Task, truth: Float32Array, rounds: int
) -> list[float]:
    """Return the mean number of successes of the users of `truth` at each T within the rounds."""
    shown = replay(method.play(model, settings), truth, rounds=rounds, rng=np.random.default_rng(0))
    so_far = (shown.values[:, :, 0] >= task.satisfied).cumsum(axis=1).mean(axis=0)
    return [float(so_far[t - 1]) for t in CUTOFFS if t <= rounds]


def per_round(found: list[float]) -> float:
    """Return successes per round so far, mean over all T."""
    return float(np.mean([count / t for count, t in zip(found, CUTOFFS, strict=False)]))


def main() -> None:
    """Print one line per training and number of layers."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("dataset")
    parser.add_argument("--method", default="igcf-paper", choices=sorted(ONLINE))
    parser.add_argument("--layers", type=int, nargs="*", default=[3])
    parser.add_argument("--train", nargs="*", default=["adam,0.02,30,none"], help="optimiser,rate,epochs,batch size")
    parser.add_argument("--set", nargs="*", default=[], metavar="NAME=VALUE", help="other settings, as JSON")
    parser.add_argument("--nu", type=float, nargs="*", help="exploration that is tried; 0: none")
    options = parser.parse_args()
    data, method = load_dataset(options.dataset), method_named(options.method)
    case = prepare(data, setup_for(data, "cold-start"), 0, "validation")
    (truth,) = case.truth
    fixed = {name: json.loads(value) for name, value in (text.split("=", 1) for text in options.set)}
    for text, layers in product(options.train, options.layers):
        optimiser, rate, epochs, batch = text.split(",")
        changes = {
            "layers": layers,
            "optimiser": optimiser,
            "learning_rate": float(rate),
            "epochs": int(epochs),
            "batch_size": None if batch == "none" else int(batch),
            **fixed,
        }
        settings = method.settings(changes)
        begun = time.process_time()
        try:
            model = method.fit(case.task, settings, np.random.default_rng(0))
        except TrainingDivergedError as error:
            click.echo(json.dumps({**changes, "failed": str(error)}))
            continue
        seconds = time.process_time() - begun
        candidates = []
        for grid in ONLINE[options.method]:
            axes = {name: values for name, values in grid.items() if name != "gamma" or settings["meta"]}
            axes |= {"nu": tuple(options.nu)} if options.nu is not None and "nu" in axes else {}
            candidates += [dict(zip(axes, values, strict=True)) for values in product(*axes.values())]

        def score(online: dict[str, Any], model: Any = model, settings: Mapping[str, Any] = settings) -> float:
            return per_round(successes(method, model, {**settings, **online}, case.task, truth[::2], 40))

        online = max(candidates, key=score)
        found = successes(method, model, {**settings, **online}, case.task, truth, CUTOFFS[-1])
        figures = {"validation": found, "per_round": round(per_round(found), 4), "fit_seconds": round(seconds, 1)}
        used = {"learning_rate": model.metadata["settings"]["learning_rate"]}  # a smaller one where training diverged
        click.echo(json.dumps({**changes, **used, **online, **figures}))


if __name__ == "__main__":
    main()
