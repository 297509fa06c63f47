"""The figures of the dashboard: from the metrics of all workers and from the store."""

import itertools
import logging
import math
import os
import time
from collections import defaultdict
from typing import Any

import sqlalchemy as sa
from prometheus_client.metrics_core import Metric

from igcf.errors import StoreError
from igcf.service.catalogue import Served
from igcf.service.parts import Parts
from igcf.service.reading import model_info
from igcf.service.schema import feedback, recommendations, shown, users

log = logging.getLogger("igcf.service")
STARTED = time.time()
TOP = 10
RECENT = 100_000
"""Reactions that the counts by item look back on."""
QUANTILES = {"p50_ms": 0.5, "p90_ms": 0.9, "p99_ms": 0.99}


def stats(parts: Parts) -> dict[str, Any]:
    """The answer to `GET /v1/stats`."""
    families = {family.name: family for family in parts.metrics.families()}
    pleased, learned = (_sum(families, "igcf_shown_items", reason=reason) for reason in ("please", "learn"))
    kinds = {kind: int(_sum(families, "igcf_feedback", kind=kind)) for kind in ("satisfied", "unsatisfied", "none")}
    hits, misses = (int(_sum(families, "igcf_sessions", cache=cache)) for cache in ("hit", "miss"))
    return {
        "model": model_info(parts),
        "uptime_s": time.time() - STARTED,
        "workers": int(os.environ.get("IGCF_WORKERS", "1")),
        "traffic": _traffic(families),
        "exploration_share": learned / (pleased + learned) if pleased + learned else None,
        "feedback": kinds | {"duplicates": int(_sum(families, "igcf_feedback_duplicates"))},
        "sessions": {"hits": hits, "misses": misses},
        **_store_figures(parts),
    }


def readiness(parts: Parts) -> list[str]:
    """What keeps this process from answering well; empty when nothing does."""
    problems = [] if parts.slot.problem is None else [parts.slot.problem]
    try:
        parts.store.database.read(lambda connection: connection.execute(sa.select(1)).scalar_one())
    except StoreError as error:
        log.error("store failed", extra={"reason": str(error)})
        problems.append("the store did not answer")
    if parts.audit.waiting >= parts.settings.audit_queue:
        problems.append(f"{parts.audit.waiting} answers wait to be written to the audit log")
    return problems


def _store_figures(parts: Parts) -> dict[str, Any]:
    served, database = parts.slot.current, parts.store.database

    def work(connection: sa.Connection) -> dict[str, Any]:
        rows = feedback.c
        count = {
            name: connection.execute(sa.select(sa.func.count()).select_from(table)).scalar_one()
            for name, table in (("users", users), ("reactions", feedback), ("recommendations", recommendations))
        }
        recent = sa.select(rows.item_id, rows.value).where(rows.retracts.is_(None))
        latest = recent.order_by(rows.time.desc()).limit(RECENT).subquery().c
        likes = sa.func.sum(sa.case((latest.value >= served.model.reward.threshold, 1), else_=0))
        liked = sa.select(latest.item_id, likes.label("likes"), sa.func.count()).group_by(latest.item_id)
        most_shown = sa.select(shown.c.item_id, shown.c.times, shown.c.explored).order_by(shown.c.times.desc())
        drifting = sa.select(users.c.user_id, users.c.drift, users.c.revision).order_by(users.c.drift.desc())
        return {
            "most_shown": [
                _named(served, item_id, times=times, explored=explored)
                for item_id, times, explored in connection.execute(most_shown.limit(TOP))
            ],
            "most_liked": [
                _named(served, item_id, likes=int(n), reactions=int(total))
                for item_id, n, total in connection.execute(liked.order_by(sa.text("likes DESC")).limit(TOP))
                if n
            ],
            "drifting_users": [
                {"user": user_id, "drift": drift, "reactions": revision}
                for user_id, drift, revision in connection.execute(drifting.limit(TOP))
            ],
            "store": count
            | {
                "retracted": connection.execute(sa.select(sa.func.count(rows.retracts))).scalar_one(),
                "schema": connection.exec_driver_sql("SELECT MAX(version) FROM schema_version").scalar_one(),
                "bytes": connection.exec_driver_sql(_SIZE[connection.dialect.name]).scalar_one(),
            },
        }

    started = time.perf_counter()
    figures = database.read(work)
    figures["store"] |= {
        "kind": "postgresql" if database.is_postgres else "sqlite",
        "ok": True,
        "read_ms": (time.perf_counter() - started) * 1e3,
        "audit_waiting": parts.audit.waiting,
        "hot_users": len(parts.sessions),
    }
    return figures


_SIZE = {
    "sqlite": "SELECT page_count * page_size FROM pragma_page_count(), pragma_page_size()",
    "postgresql": "SELECT pg_database_size(current_database())",
}


def _named(served: Served, item_id: str, **numbers: int) -> dict[str, Any]:
    row = served.model.known_row(item_id)
    return {"item": item_id, "title": None if row is None else served.title(row)} | numbers


def _sum(families: dict[str, Metric], name: str, **labels: str) -> float:
    samples = families[name].samples if name in families else []
    return sum(
        sample.value for sample in samples if sample.name.endswith("_total") and labels.items() <= sample.labels.items()
    )


def _traffic(families: dict[str, Metric]) -> list[dict[str, Any]]:
    counts: dict[tuple[str, str], list[int]] = defaultdict(lambda: [0, 0])
    for sample in families["igcf_requests"].samples if "igcf_requests" in families else []:
        if sample.name.endswith("_total"):
            entry = counts[sample.labels["route"], sample.labels["method"]]
            entry[0] += int(sample.value)
            entry[1] += int(sample.value) if sample.labels["status"] >= "500" else 0
    buckets: dict[tuple[str, str], list[tuple[float, float]]] = defaultdict(list)
    for sample in families["igcf_request_seconds"].samples if "igcf_request_seconds" in families else []:
        if sample.name.endswith("_bucket"):
            key = sample.labels["route"], sample.labels["method"]
            buckets[key].append((float(sample.labels["le"]), sample.value))
    return [
        {"route": route, "method": method, "requests": requests, "errors": errors}
        | {name: _quantile(sorted(buckets[route, method]), share) for name, share in QUANTILES.items()}
        for (route, method), (requests, errors) in sorted(counts.items(), key=lambda each: -each[1][0])
    ]


def _quantile(buckets: list[tuple[float, float]], share: float) -> float | None:
    """Linear within the bucket that holds the quantile, in milliseconds; None without traffic."""
    if not buckets or not buckets[-1][1]:
        return None
    wanted = share * buckets[-1][1]
    for (low, below), (high, up_to) in itertools.pairwise([(0.0, 0.0), *buckets]):
        if up_to >= wanted:
            if math.isinf(high):
                return low * 1e3
            return (low + (high - low) * (wanted - below) / max(up_to - below, 1e-12)) * 1e3
    return None
