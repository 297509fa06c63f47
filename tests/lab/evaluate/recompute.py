"""Count every metric again from the tables beside a report, without a line of igcf: python recompute.py FOLDER.

Prints one JSON document in the form of the rows of `results.json`, for those who do not trust the package.
"""

import json
import math
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

import polars as pl


def recompute(folder: Path) -> list[dict[str, Any]]:
    """One entry per method, seed and slate."""
    results = json.loads((folder / "results.json").read_text())
    if results["protocol"] == "known-users":
        return recompute_rankings(folder, results)
    cutoffs = {
        (row["method"], row["seed"], row["slate"]): [int(t) for t in row["precision"]] for row in results["rows"]
    }
    shown = pl.read_parquet(folder / "shown.parquet")
    wanted = {(s, u): n for s, u, n in pl.read_parquet(folder / "users.parquet").iter_rows()}
    share = {(s, i): x for s, i, x in pl.read_parquet(folder / "items.parquet").iter_rows()}
    n_items = len({item for _, item in share})
    found = []
    for (method, seed, slate), at in cutoffs.items():
        part = shown.filter(
            (pl.col("method") == method) & (pl.col("seed") == seed) & (pl.col("slate") == slate)
        ).iter_rows(named=True)
        hits: dict[str, dict[int, list[int]]] = defaultdict(lambda: defaultdict(list))
        seen: dict[str, set[str]] = defaultdict(set)
        items = []
        for line in part:
            assert line["item_id"] not in seen[line["user_id"]], "an item was shown twice"
            seen[line["user_id"]].add(line["item_id"])
            items.append(line["item_id"])
            if line["satisfied"]:
                hits[line["user_id"]][line["round"]].append(line["slot"])
        users = list(seen)
        last = max(at)
        smallest = min(x for (s, _), x in share.items() if s == seed and x > 0)
        entry: dict[str, Any] = {"method": method, "seed": seed, "slate": slate}
        ideal = sum(1 / math.log2(1 + j) for j in range(1, slate + 1))
        for name in ("precision", "share", "recall", "ndcg", "after_drift"):
            entry[name] = {}
        for t in at:
            count = {user: sum(len(hits[user][r]) for r in range(1, t + 1)) for user in users}
            late = {user: sum(len(hits[user][r]) for r in range(last // 2 + 1, t + 1)) for user in users}
            recalls = [count[user] / wanted[seed, user] for user in users if wanted[seed, user]]
            gains = [
                sum(1 / math.log2(1 + slot) for r in range(1, t + 1) for slot in hits[user][r]) / ideal
                for user in users
            ]
            entry["precision"][str(t)] = sum(count.values()) / len(users)
            entry["share"][str(t)] = sum(count.values()) / len(users) / (t * slate)
            entry["recall"][str(t)] = sum(recalls) / len(recalls)
            if slate > 1:
                entry["ndcg"][str(t)] = sum(gains) / len(users)
            if results["protocol"] == "taste-drift" and t > last // 2:
                entry["after_drift"][str(t)] = sum(late.values()) / len(users)
        entry["coverage"] = len(set(items)) / n_items
        entry["novelty"] = sum(-math.log2(max(share[seed, item], smallest / 2)) for item in items) / len(items)
        found.append(entry)
    return found


def recompute_rankings(folder: Path, results: dict[str, Any]) -> list[dict[str, Any]]:
    """Count the metrics of `known-users`: a ranking is one round, an item satisfies if it was hidden."""
    shown = pl.read_parquet(folder / "shown.parquet")
    hidden = {(s, u): n for s, u, n in pl.read_parquet(folder / "users.parquet").iter_rows()}
    share = {(s, i): x for s, i, x in pl.read_parquet(folder / "items.parquet").iter_rows()}
    n_items = len({item for _, item in share})
    found = []
    for row in results["rows"]:
        method, seed = row["method"], row["seed"]
        part = shown.filter((pl.col("method") == method) & (pl.col("seed") == seed))
        ranks: dict[str, list[int]] = {user: [] for user in part["user_id"].unique()}
        for line in part.iter_rows(named=True):
            if line["satisfied"]:
                ranks[line["user_id"]].append(line["slot"])
        ndcg, recall = {}, {}
        for k in map(int, row["ndcg"]):
            gains = []
            for user, at in ranks.items():
                ideal = sum(1 / math.log2(1 + j) for j in range(1, min(k, hidden[seed, user]) + 1))
                gains.append(sum(1 / math.log2(1 + j) for j in at if j <= k) / ideal)
            ndcg[str(k)] = sum(gains) / len(gains)
        for k in map(int, row["recall"]):
            parts = [sum(j <= k for j in at) / min(k, hidden[seed, user]) for user, at in ranks.items()]
            recall[str(k)] = sum(parts) / len(parts)
        items = part["item_id"].to_list()
        smallest = min(x for (s, _), x in share.items() if s == seed and x > 0)
        found.append(
            {
                "method": method,
                "seed": seed,
                "ndcg": ndcg,
                "recall": recall,
                "mrr": sum(1 / min(at) if at else 0.0 for at in ranks.values()) / len(ranks),
                "coverage": len(set(items)) / n_items,
                "novelty": sum(-math.log2(max(share[seed, item], smallest / 2)) for item in items) / len(items),
            }
        )
    return found


if __name__ == "__main__":
    print(json.dumps(recompute(Path(sys.argv[1])), indent=2))
