"""Answer many random requests with rules and check every answer against the rules as they were written.

    python -m tools.rule_requests --requests 1000000
    python -m tools.rule_requests --requests 20000 --http

Prints one JSON document: requests, answers, refusals for want of items, and violations, which must be 0.
"""

import argparse
import json
import random
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

import igcf
from igcf.attributes import Attributes
from igcf.errors import NoItemsLeftError
from igcf.item import Item
from igcf.model import Model
from igcf.online import Greedy, InfoUcb, Policy, Recommender, Thompson, Ucb
from tools.torture.calls import call
from tools.torture.servers import Served, wait_until_ready

CATEGORIES = ("Drama", "War", "Comedy", "Kids", "Crime")
TAGS = ("new", "cheap")
NOW = 1000.0


def described_items(item_ids: Sequence[str], seed: int) -> list[Item]:
    """Items that have labels, a year (some lack it), and are partly not available; every label has an item."""
    rng = np.random.default_rng(seed)
    items = _drawn_items(item_ids, rng)
    while {*CATEGORIES, *TAGS} - {name for item in items for name in (*item.categories, *item.tags)}:
        items = _drawn_items(item_ids, rng)
    return items


def _drawn_items(item_ids: Sequence[str], rng: np.random.Generator) -> list[Item]:
    return [
        Item(
            item_id,
            categories=tuple(rng.choice(CATEGORIES, size=rng.integers(0, 3), replace=False).tolist()),
            tags=tuple(rng.choice(TAGS, size=rng.integers(0, 2), replace=False).tolist()),
            numbers={"year": float(rng.integers(1980, 2020))} if rng.random() < 0.9 else {},
            available_from=float(rng.choice([500.0, 1500.0])) if rng.random() < 0.2 else None,
            available_until=float(rng.choice([700.0, 2000.0])) if rng.random() < 0.2 else None,
            hidden=bool(rng.random() < 0.1),
        )
        for item_id in item_ids
    ]


def described(model: Model, *, seed: int = 0) -> Recommender:
    """A recommender of such items."""
    items = described_items(model.item_ids, seed)
    recommender = Recommender(model, clock=lambda: NOW)
    recommender._live.describe(dict(enumerate(items)))  # also items that are never available
    return recommender


def may_be_shown(item: Item, now: float = NOW) -> bool:
    since, until = item.available_from, item.available_until
    return not item.hidden and (since is None or since <= now) and (until is None or until > now)


def violations(given: dict[str, Any], items: list[Item], now: float = NOW) -> list[str]:
    """Check an answer against rules as they were written, without any of the code that applies them."""
    found, chosen = [], given.get("filter", {})
    for item in items:
        labels = {*item.categories, *item.tags}
        year = item.numbers.get("year")
        bad = {
            "available": not may_be_shown(item, now),
            "any": "any" in chosen and not labels & set(chosen["any"]),
            "all": not labels >= set(chosen.get("all", ())),
            "none": bool(labels & set(chosen.get("none", ()))),
            "min": "min" in chosen and (year is None or year < chosen["min"]["year"]),
            "max": "max" in chosen and (year is None or year > chosen["max"]["year"]),
        }
        found += [f"{item.id}: {name}" for name, is_bad in bad.items() if is_bad]
    caps = given.get("caps", {})
    for label in (*CATEGORIES, *TAGS):
        most = caps.get(label, caps.get("*", 99) if label in CATEGORIES else 99)
        count = sum(label in (*item.categories, *item.tags) for item in items)
        found += [f"{label}: {count} > {most}"] if count > most else []
    return found + (["twice"] if len({item.id for item in items}) < len(items) else [])


def random_rules(rng: np.random.Generator) -> dict[str, Any]:
    """Draw rules of every kind, each part present about half of the time."""

    def some(names: tuple[str, ...], most: int) -> list[str]:
        return [str(each) for each in rng.choice(names, size=rng.integers(1, most + 1), replace=False)]

    every = CATEGORIES + TAGS
    chosen = {
        "any": some(every, 3), "all": some(every, 1), "none": some(every, 2),
        "min": {"year": int(rng.integers(1975, 2005))}, "max": {"year": int(rng.integers(1995, 2025))},
    }  # fmt: skip
    parts = {
        "filter": {name: part for name, part in chosen.items() if rng.random() < 0.3},
        "boost": {name: float(rng.normal()) for name in some(every, 2)},
        "caps": {name: int(rng.integers(0, 4)) for name in some((*every, "*"), 3)},
        "pinned": [f"item-{row}" for row in rng.integers(0, 40, 3)],
        "diversity": float(rng.choice([0.5, 3.0])),
    }
    return {name: part for name, part in parts.items() if rng.random() < 0.5}


def small_model(rng: np.random.Generator, n_items: int = 40, dim: int = 6, seed: int | None = None) -> Model:
    """A model of items without description, or of described ones."""
    item_ids = [f"item-{row}" for row in range(n_items)]
    items = None if seed is None else described_items(item_ids, seed)
    root = rng.normal(size=(dim, dim + 2)) / np.sqrt(dim)
    return Model(
        item_vectors=rng.normal(size=(n_items, dim)),
        prior_mean=rng.normal(size=dim),
        prior_cov=root @ root.T,
        noise_var=0.3,
        item_ids=item_ids,
        categories=None if items is None else [item.categories for item in items],
        attributes=None if items is None else Attributes.from_items(items),
    )


def run(n_requests: int, *, seed: int = 0, per_session: int = 50) -> dict[str, Any]:
    """Ask in sessions that also react, over catalogues and rules that are drawn anew every 5,000 requests."""
    rng, quick = np.random.default_rng(seed), random.Random(seed)
    policies: list[Policy] = [Ucb(0.5), Ucb(0.5), Greedy(), InfoUcb(), Thompson()]
    answers = refusals = 0
    wrong: list[str] = []
    started = time.perf_counter()
    for number in range(n_requests):
        if number % 5000 == 0:
            recommender = described(small_model(rng), seed=number + seed)
            items = [recommender.catalogue.item(row) for row in range(40)]
            drawn = [random_rules(rng) for _ in range(500)]
        if number % per_session == 0:
            session, seen = recommender.session(rng=rng), set[str]()
        rules, k, policy = quick.choice(drawn), quick.randint(1, 6), quick.choice(policies)
        exclude = {f"item-{row}" for row in quick.sample(range(40), 3)}
        candidates = {f"item-{row}" for row in quick.sample(range(40), 20)} if quick.random() < 0.2 else None
        try:
            picks = session.recommend(k, exclude, candidates, policy, igcf.Rules.parse(rules))
        except NoItemsLeftError:
            refusals += 1
            continue
        answers += 1
        ids = {pick.item_id for pick in picks}
        found = violations(rules, [items[int(each[5:])] for each in ids])
        found += ["length"] if len(ids) != k else []
        found += ["seen or excluded"] if ids & (seen | exclude) else []
        found += ["no candidate"] if candidates is not None and not ids <= candidates else []
        wrong += [f"request {number}: {each}" for each in found]
        if quick.random() < 0.1:
            session.observe(picks[0].item_id, quick.random())
            seen.add(picks[0].item_id)
    return told(n_requests, answers, refusals, wrong, started)


def run_over_http(n_requests: int, *, seed: int = 0) -> dict[str, Any]:
    """Ask a server in the same way; users react now and then, and the clock is the real one."""
    rng, quick = np.random.default_rng(seed), random.Random(seed)
    model = small_model(rng, seed=seed)
    items = [model.catalogue.item(row) for row in range(40)]
    answers = refusals = 0
    wrong: list[str] = []
    started = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="igcf-rules-") as name:
        folder = Path(name)
        model.save(folder / "models" / "model")
        server = Served(folder / "models" / "model", str(folder / "store.db"), folder / "log", workers=1)
        wait_until_ready(server.port)
        seen: dict[str, set[str]] = {f"user-{number}": set() for number in range(200)}
        for number in range(n_requests):
            user, rules, k = quick.choice([*seen]), random_rules(rng), quick.randint(1, 6)
            exclude = [f"item-{row}" for row in quick.sample(range(40), 3)]
            path = f"/v1/users/{user}/recommendations"
            answer = call(server.port, "POST", path, {"k": k, "exclude": exclude, "rules": rules})
            if answer.status != 200:
                refusals += 1
                wrong += [] if answer.status == 409 else [f"request {number}: status {answer.status}"]
                continue
            answers += 1
            ids = [each["item"] for each in answer.body["items"]]
            found = violations(rules, [items[int(each[5:])] for each in ids], time.time())
            found += ["length"] if len(ids) != k else []
            found += ["seen or excluded"] if set(ids) & (seen[user] | set(exclude)) else []
            wrong += [f"request {number}: {each}" for each in found]
            if quick.random() < 0.02:
                call(server.port, "POST", f"/v1/users/{user}/feedback", {"item": ids[0], "value": quick.random()})
                seen[user].add(ids[0])
        server.stop()
    return told(n_requests, answers, refusals, wrong, started)


def told(n_requests: int, answers: int, refusals: int, wrong: list[str], started: float) -> dict[str, Any]:
    return {
        "requests": n_requests,
        "answers": answers,
        "refusals": refusals,
        "violations": len(wrong),
        "first": wrong[:5],
        "seconds": round(time.perf_counter() - started, 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--http", action="store_true", help="ask a server instead of the library")
    options = parser.parse_args()
    asked = run_over_http if options.http else run
    print(json.dumps(asked(options.requests, seed=options.seed), indent=2))


if __name__ == "__main__":
    main()
