"""Compare answers with and without rules: library and HTTP, the same users and moments, request by request in turn.

    python -m tools.rule_latency --items 4000

Prints one JSON document with the median and the 99th percentile of each kind of request and its ratio to none, in
processor time, so that what else runs on the machine decides little; over HTTP that of the server, and the time that
passed.
"""

import argparse
import json
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import igcf
from igcf.attributes import Attributes
from igcf.model import Model, Reward
from tools.torture.calls import call
from tools.torture.servers import Served, wait_until_ready

CATEGORIES = [f"category-{number}" for number in range(18)]
RULES: dict[str, dict[str, Any] | None] = {
    "none": None,
    "filter": {"filter": {"none": ["category-1", "category-2"], "min": {"year": 1970}}},
    "caps": {"filter": {"min": {"year": 1970}}, "caps": {"*": 2}},
    "boost": {"boost": {"category-3": 0.05}},
    "pinned": {"pinned": ["item-7"]},
    "diversity": {"diversity": 0.5},
}


def model_of(n_items: int, dim: int = 64) -> Model:
    rng = np.random.default_rng(0)
    return Model(
        item_vectors=rng.normal(size=(n_items, dim)) / np.sqrt(dim),
        prior_mean=rng.normal(size=dim) * 0.3,
        prior_cov=np.diag(rng.uniform(0.5, 1.5, dim)),
        noise_var=0.2,
        item_ids=[f"item-{row}" for row in range(n_items)],
        categories=[rng.choice(CATEGORIES, size=2, replace=False).tolist() for _ in range(n_items)],
        reward=Reward("satisfied", threshold=4.0, low=1.0, high=5.0),
        attributes=Attributes(n_items, numbers={"year": rng.integers(1950, 2020, n_items).astype(float)}),
    )


def figures(times: dict[str, list[float]]) -> dict[str, Any]:
    found = {}
    for name, own in times.items():
        p50, p99 = (float(np.percentile(own, q)) for q in (50, 99))
        base50, base99 = (float(np.percentile(times["none"], q)) for q in (50, 99))
        found[name] = {
            "p50_ms": round(p50 * 1e3, 3), "p99_ms": round(p99 * 1e3, 3),
            "p50_ratio": round(p50 / base50, 2), "p99_ratio": round(p99 / base99, 2),
        }  # fmt: skip
    return found


Clock = Callable[[], float]


def alternating(ask: Callable[[int, str], None], n: int, **clocks: Clock) -> dict[str, Any]:
    """Time every kind for every number, in an order that is drawn: the first finds least in the processor's caches."""
    times: dict[str, dict[str, list[float]]] = {clock: {name: [] for name in RULES} for clock in clocks}
    rng = np.random.default_rng(2)
    for number in range(n):
        for name in rng.permutation([*RULES]).tolist():
            started = [clock() for clock in clocks.values()]
            ask(number, name)
            for own, clock, before in zip(times.values(), clocks.values(), started, strict=True):
                own[name].append(clock() - before)
    return {clock: figures(own) for clock, own in times.items()}


def processor_time_of(pid: int) -> Clock:
    """A clock of the processor time of another process, all threads (Linux: the clock's id follows from `pid`)."""
    return lambda: time.clock_gettime((~pid << 3) | 2)


def library(model: Model, n: int) -> dict[str, Any]:
    rng = np.random.default_rng(1)
    recommender = igcf.Recommender(model, igcf.Ucb(0.5))
    sessions = [
        recommender.session([(f"item-{row}", float(rng.integers(1, 6))) for row in rng.integers(0, model.n_items, 10)])
        for _ in range(20)
    ]
    compiled = {name: None if given is None else igcf.Rules.parse(given) for name, given in RULES.items()}

    def ask(number: int, name: str) -> None:
        sessions[number % 20].recommend(10, rules=compiled[name])

    alternating(ask, 20)
    return alternating(ask, n, library_cpu=time.thread_time)


def over_http(model: Model, n: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="igcf-rules-") as name:
        folder = Path(name)
        model.save(folder / "models" / "model")
        server = Served(folder / "models" / "model", str(folder / "store.db"), folder / "log", workers=1)
        wait_until_ready(server.port)
        for user in range(20):
            reactions = [{"item": f"item-{17 * user + row}", "value": 1 + row % 5} for row in range(10)]
            call(server.port, "POST", "/v1/feedback", [each | {"user": f"user-{user}"} for each in reactions])

        def ask(number: int, name: str) -> None:
            body = {"k": 10} | ({} if RULES[name] is None else {"rules": RULES[name]})
            if call(server.port, "POST", f"/v1/users/user-{number % 20}/recommendations", body).status != 200:
                raise RuntimeError(name)

        alternating(ask, 20)
        found = alternating(ask, n, http_cpu=processor_time_of(server.process.pid), http=time.perf_counter)
        server.stop()
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--items", type=int, default=4000)
    parser.add_argument("--rounds", type=int, default=10_000)
    parser.add_argument("--http-rounds", type=int, default=1500)
    options = parser.parse_args()
    model = model_of(options.items)
    result: dict[str, Any] = {"items": options.items} | library(model, options.rounds)
    if options.http_rounds:
        result |= over_http(model, options.http_rounds)
    print(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
