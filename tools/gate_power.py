"""How often the gate lets damaged models pass, and how often models that were retrained on slightly more data.

`python -m tools.gate_power --worlds 10 --seed 100 --out FILE`: each world is a synthetic shop (`--users`, `--items`),
or with `--dataset` a random four fifths of the users of a log. The model in service has learned from the first 95 % of
its reactions, without the held-out users. Per world the gate judges ten damaged models (of four kinds) and five that
have learned from 96 to 100 %.
"""

import argparse
import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np

import igcf
from igcf.data import Interactions, load_dataset, synthetic_catalogue
from igcf.model import Model
from igcf.training.gate import Judgement, judge, split

BY_THE_LOG = ("reactions learned from", "days behind the newest reaction")
"""Checks that read what the metadata say of the log; figures are also given without them."""


def fit(log: Interactions, share: float, seed: int = 0, **settings: object) -> Model:
    """Train as `igcf retrain` does."""
    model = igcf.pretrain(log, seed=seed, progress=False, **settings)  # type: ignore[arg-type]
    model.metadata["held_out"] = share
    return model


def first(log: Interactions, share: float) -> Interactions:
    """Return the earliest part of a log."""
    assert log.timestamps is not None
    return log.subset(np.sort(np.argsort(log.timestamps, kind="stable")[: round(share * len(log))]))


def shuffled(model: Model, rng: np.random.Generator) -> Model:
    """Return a model with the vectors of other items."""
    order = rng.permutation(model.n_items)
    other = Model(
        prior_mean=model.prior_mean,
        prior_cov=model.prior_cov,
        channels=[
            replace(each, vectors=each.vectors[order], noise_var=each.noise_var[order]) for each in model.channels
        ],
        terms=model.terms,
        item_variances=model.item_variances[order],
        item_ids=model.item_ids,
        reward=model.reward,
        metadata=model.metadata,
        reactions=None if model.reactions is None else model.reactions[order],
        usage=model.usage,
    )
    return other


def candidates(log: Interactions, current: Model, share: float, seed: int) -> Iterator[tuple[str, Model]]:
    """Train the models of one world."""
    rng = np.random.default_rng(seed)
    for _ in range(2):
        yield "shuffled", shuffled(current, rng)
    for again in range(2):
        yield "tenth", fit(log.subset(np.sort(rng.choice(len(log), len(log) // 10, replace=False))), share, again)
    yield "tenth", fit(first(log, 0.1), share)
    for threshold in (2.0, 3.0, 5.0):
        yield "threshold", fit(log, share, satisfied=threshold)
    for part in (0.5, 0.475):
        yield "stale", fit(first(log, part), share)
    for part in (0.96, 0.97, 0.98, 0.99, 1.0):
        yield "retrained", fit(first(log, part), share, seed=round(100 * part))


def passes(found: Judgement, *, by_log: bool) -> bool:
    """Tell whether a model passes, with or without the checks of the log."""
    return all(check.verdict != "worse" for check in found.checks if by_log or check.name not in BY_THE_LOG)


def main() -> None:
    """Judge, count and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dataset")
    parser.add_argument("--users", type=int, default=600)
    parser.add_argument("--items", type=int, default=150)
    parser.add_argument("--worlds", type=int, default=10)
    parser.add_argument("--seed", type=int, default=100)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    n, n_pass, n_replay, verdicts = Counter[str](), Counter[str](), Counter[str](), Counter[str]()
    for seed in range(options.seed, options.seed + options.worlds):
        if options.dataset is None:
            data = synthetic_catalogue(n_users=options.users, n_items=options.items, seed=seed)
        else:
            data = load_dataset(options.dataset)
            part = np.random.default_rng(seed).choice(data.n_users, data.n_users * 4 // 5, replace=False)
            data = data.only_users(np.sort(part))
        log, held, share = split(data)
        current = fit(first(log, 0.95), share)
        for kind, model in candidates(log, current, share, seed):
            found = judge(model, current, held)
            n[kind] += 1
            n_pass[kind] += passes(found, by_log=True)
            n_replay[kind] += passes(found, by_log=False)
            verdicts[f"{kind} {found.verdict}"] += 1
            reasons = [check.name for check in found.checks if check.verdict == "worse"]
            gains = " ".join(
                f"{c.low:+.3f}..{c.high:+.3f}" for c in found.checks if c.low is not None and c.high is not None
            )
            print(seed, found.users, kind, found.verdict, gains, *reasons, sep=", ", flush=True)
    result = {
        kind: {"judged": n[kind], "pass": n_pass[kind], "pass without the checks of the log": n_replay[kind]}
        for kind in n
    }
    text = json.dumps(
        {"options": {k: str(v) for k, v in vars(options).items()}, "kinds": result, "verdicts": verdicts}, indent=1
    )
    print(text)
    if options.out is not None:
        options.out.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
