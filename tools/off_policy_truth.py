"""Off-policy estimates against true values: KuaiRec's small matrix says what every user thinks of every item.

Models are trained on half of the users. The other half meet a logging policy that explores; every answer of it is a
context, in which the items of all candidates, and how they are received, are known. A repetition draws answers to
random contexts as a server with `--explore` would log them, and asks `igcf.experiments.off_policy` for estimates.
"""

import argparse
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import igcf
from igcf.arrays import BoolArray, Float32Array, FloatArray, IntArray
from igcf.experiments.off_policy import MOST_MISSING, LoggedSlates, evaluate
from igcf.online import Policy
from igcf.online.environment import ModelLearner
from igcf.online.exploration import AMONG, slot_chances
from igcf.online.selection import select_items

SATISFIED = 2.0
SIZES = {"full": 705, "third": 235, "tenth": 70}
"""Users that each model is trained on."""
POLICIES: list[tuple[str, str, Policy]] = [
    ("the logging policy", "full", igcf.Greedy()),
    *((f"ucb, nu = {nu:g}", "full", igcf.Ucb(nu)) for nu in (0.1, 0.3, 1.0)),
    ("a third of the users", "third", igcf.Greedy()),
    ("a tenth of the users", "tenth", igcf.Greedy()),
]


class Pool(NamedTuple):
    """Contexts of the logging policy: arrays with one row each."""

    best: IntArray
    """Rows of its best items, in order, (contexts, slots - 1 + AMONG)."""
    rewards: FloatArray
    """What they bring, of the same shape."""
    shown: dict[str, IntArray]
    """Rows that each candidate shows, (contexts, slots)."""
    own_rewards: dict[str, FloatArray]
    """What they bring."""
    expected: dict[str, FloatArray]
    """What each candidate's model expects of `best`."""
    own: dict[str, FloatArray]
    """What it expects of `shown`."""


def trained_models(data: igcf.Interactions, order: IntArray, folder: Path) -> dict[str, igcf.Model]:
    """Train on the first users of an order, or load what an earlier run trained."""
    found = {}
    for name, size in SIZES.items():
        if not (folder / name).exists():
            config = igcf.ExpertsConfig(satisfied=SATISFIED, known_users=False, iterations=8)
            igcf.pretrain(data.only_users(np.sort(order[:size])), config=config, seed=0).save(folder / name)
        found[name] = igcf.Model.load(folder / name)
    return found


def drawn(n: int, k: int, size: int, share: float, rng: np.random.Generator) -> tuple[IntArray, FloatArray]:
    """Draw `n` slates by places among `size` best items: the places, and their propensities given those above."""
    left = np.tile(np.arange(size), (n, 1))
    places, chances = np.empty((n, k), dtype=np.int64), np.empty((n, k))
    everyone = np.arange(n)
    for slot in range(k):
        at = np.where(rng.random(n) < share, rng.integers(AMONG, size=n), 0)
        places[:, slot] = left[everyone, at]
        chances[:, slot] = share / AMONG + (1 - share) * (at == 0)
        keep = np.ones(left.shape, dtype=np.bool_)
        keep[everyone, at] = False
        left = left[keep].reshape(n, -1)
    return places, chances


def make_pool(
    models: dict[str, igcf.Model], truth: Float32Array, k: int, rounds: int, share: float, rng: np.random.Generator
) -> Pool:
    """Let the users meet the logging policy, and ask every candidate in each round what it would show."""
    learners = [(name, ModelLearner(models[model], policy)) for name, model, policy in POLICIES]
    for _, learner in learners:
        learner.begin(len(truth), rng=rng)
    available: BoolArray = np.ones(truth.shape, dtype=np.bool_)
    reward = (truth >= SATISFIED).astype(np.float64)
    parts: dict[str, list[Any]] = {}
    users = np.arange(len(truth))[:, None]
    for _ in range(rounds):
        size = k - 1 + AMONG
        best = select_items(learners[0][1].policy, learners[0][1].engine, available, size, make_rng=lambda: rng)[0]
        found: dict[str, Any] = {"best": best, "rewards": reward[users, best]}
        for name, learner in learners:
            means = learner.engine.means
            own = best[:, :k] if name == POLICIES[0][0] else learner.select(available, k)
            found |= {f"shown {name}": own, f"own_rewards {name}": reward[users, own]}
            found |= {f"expected {name}": means[users, best], f"own {name}": means[users, own]}
        for name, column in found.items():
            parts.setdefault(name, []).append(column)
        places, _ = drawn(len(truth), k, size, share, rng)
        shown = best[users, places]
        available[users, shown] = False
        for _, learner in learners:
            learner.observe(shown, truth[users, shown])
    joined: dict[str, Any] = {name: np.concatenate(column) for name, column in parts.items()}
    _add_second_thoughts(joined, models["full"], k)
    names = [name.removeprefix("shown ") for name in joined if name.startswith("shown ")]
    by_part = {part: {name: joined[f"{part} {name}"] for name in names} for part in Pool._fields[2:]}
    return Pool(joined["best"], joined["rewards"], **by_part)


def _add_second_thoughts(joined: dict[str, Any], model: igcf.Model, k: int) -> None:
    """Add candidates that put the logging policy's best ten into another order."""
    first = POLICIES[0][0]
    best, popularity = joined["best"], model.expected(model.prior_mean)
    contexts = np.arange(len(best))[:, None]
    places = {
        "most popular of the ten": np.argsort(-popularity[best[:, :AMONG]], axis=1, kind="stable")[:, :k],
        "least popular of the ten": np.argsort(popularity[best[:, :AMONG]], axis=1, kind="stable")[:, :k],
        "next best": np.tile(np.arange(1, k + 1), (len(best), 1)),
        "tenth best first": np.tile(np.arange(AMONG - 1, AMONG - 1 - k, -1), (len(best), 1)),
    }
    for name, at in places.items():
        joined[f"shown {name}"] = best[contexts, at]
        joined[f"own_rewards {name}"] = joined["rewards"][contexts, at]
        joined[f"expected {name}"] = joined[f"expected {first}"]
        joined[f"own {name}"] = joined[f"expected {first}"][contexts, at]


def logged(pool: Pool, name: str, at: IntArray, places: IntArray, chances: FloatArray, share: float) -> LoggedSlates:
    """Return a repetition as the log of one candidate."""
    n, k = places.shape
    rows = np.arange(n)[:, None]
    items, own = pool.best[at][rows, places], pool.shown[name][at]
    candidate = np.empty((n, k))
    for slot in range(k):
        is_free = (own[:, :, None] != items[:, None, :slot]).all(axis=2)  # the candidate's best not shown above
        candidate[:, slot] = own[np.arange(n), is_free.argmax(axis=1)] == items[:, slot]
    return LoggedSlates(
        rewards=pool.rewards[at][rows, places],
        propensities=chances,
        slot_propensities=slot_chances(places + 1, 10**6, share),
        candidate=candidate,
        candidate_slots=(own == items).astype(np.float64),
        expected=pool.expected[name][at][rows, places],
        own=pool.own[name][at],
    )


def missing_share(pool: Pool, name: str) -> float:
    """Return the true share of what a candidate shows that the logging policy never shows in that slot."""
    own = pool.shown[name]
    is_there = [(pool.best[:, : AMONG + slot] == own[:, [slot]]).any(axis=1) for slot in range(own.shape[1])]
    return 1 - float(np.mean(is_there))


def main() -> None:
    """Print a line per candidate and estimator, and what was to be shown."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", type=Path, default=Path("off-policy-models"), help="folder to keep the models in")
    parser.add_argument("--slots", type=int, default=1)
    parser.add_argument("--explore", type=float, default=0.1)
    parser.add_argument("--answers", type=int, default=50_000)
    parser.add_argument("--repetitions", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    rng, k = np.random.default_rng(options.seed), options.slots
    data = igcf.load_dataset("kuairec")
    order = np.random.default_rng(0).permutation(data.n_users)
    models = trained_models(data, order, options.models)
    truth = data.only_users(np.sort(order[705:])).dense()
    pool = make_pool(models, truth, k, options.rounds, options.explore, rng)
    names = list(pool.shown)
    true = {name: float(pool.own_rewards[name].sum(axis=1).mean()) for name in names}
    values: dict[tuple[str, str], list[tuple[float, float, float]]] = {}
    n_refused = dict.fromkeys(names, 0)
    for _ in range(options.repetitions):
        at = rng.integers(len(pool.best), size=options.answers)
        places, chances = drawn(options.answers, k, k - 1 + AMONG, options.explore, rng)
        for name in names:
            found = evaluate(logged(pool, name, at, places, chances, options.explore))
            n_refused[name] += found.refusal is not None
            for each in found.estimates:
                values.setdefault((name, each.name), []).append((each.value, each.low, each.high))
    print(f"{len(pool.best):,} contexts of {len(truth)} users; logged {float(pool.rewards[:, 0].mean()):.4f} in slot 1")
    print(
        f"{'candidate':27}{'true':>8}{'missing':>9}{'refused':>9}  estimator{'':24}{'bias':>8}{'error':>8}{'cover':>8}"
    )
    for (name, estimator), each_time in values.items():
        value, low, high = np.array(each_time).T
        bias, error = value.mean() / true[name] - 1, np.abs(value / true[name] - 1).mean()
        cover = float(((low <= true[name]) & (true[name] <= high)).mean())
        refused = n_refused[name] / options.repetitions
        print(
            f"{name:27}{true[name]:8.4f}{missing_share(pool, name):9.1%}{refused:9.1%}  {estimator:33}"
            f"{bias:+8.1%}{error:8.1%}{cover:8.1%}"
        )
    _summary(values, true, {name: missing_share(pool, name) for name in names})


def _summary(
    values: dict[tuple[str, str], list[tuple[float, float, float]]], true: dict[str, float], missing: dict[str, float]
) -> None:
    """Print per estimator the mean error, the coverage, and how many pairs are ordered rightly."""
    supported = [name for name in true if missing[name] <= MOST_MISSING]
    print(f"\nover the {len(supported)} candidates with at most {MOST_MISSING:.0%}:")
    for estimator in dict.fromkeys(each for _, each in values):
        found = {name: np.array(values[name, estimator]) for name in supported}
        error = np.mean([np.abs(found[name][:, 0] / true[name] - 1).mean() for name in supported])
        inside = [(found[name][:, 1] <= true[name]) & (true[name] <= found[name][:, 2]) for name in supported]
        pairs = [(a, b) for a, b in combinations(supported, 2) if abs(true[a] - true[b]) > 0.03 * min(true[a], true[b])]
        right = [((found[a][:, 0] > found[b][:, 0]) == (true[a] > true[b])).mean() for a, b in pairs]
        print(
            f"{estimator:33} error {error:.2%}, coverage {np.mean(inside):.2%}, "
            f"{np.mean(right):.2%} of {len(pairs)} pairs ordered rightly"
        )


if __name__ == "__main__":
    main()
