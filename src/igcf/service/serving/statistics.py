"""The figures of the dashboard: from the metrics of all workers and from the store."""

import logging
import time
from collections import defaultdict
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from prometheus_client.metrics_core import Metric

from igcf.errors import StoreError
from igcf.service.context import ServiceContext
from igcf.service.models.dashboard_responses import (
    CatalogueChange,
    FeedbackMix,
    Generation,
    LikedItem,
    RouteTraffic,
    Series,
    SessionCache,
    ShownItem,
    Stats,
    StoreHealth,
)
from igcf.service.serving.drift import drifting_users
from igcf.service.serving.load import quantile_ms
from igcf.service.serving.model_info import model_info
from igcf.service.serving.series import Moments, catalogue_changes, generations, moments, series
from igcf.service.serving.served_model import ServedModel
from igcf.service.store.store import Store
from igcf.service.store.tables import feedback, recommendations, shown, users

log = logging.getLogger("igcf.service")
STARTED = time.time()
READY_S = 2.0
"""How long the store may take to show that it answers."""
TOP = 10
FEEDBACK_KINDS = ("satisfied", "unsatisfied", "none", "skip", "logged")
RECENT = 100_000
"""Reactions that the counts by item look back on."""


def statistics(context: ServiceContext) -> Stats:
    """Answer `GET /v1/stats`."""
    families = {family.name: family for family in context.metrics.families()}
    pleased, learned = (_sum(families, "igcf_shown_items", reason=reason) for reason in ("please", "learn"))
    kinds = {kind: int(_sum(families, "igcf_feedback", kind=kind)) for kind in FEEDBACK_KINDS}
    hits, misses = (int(_sum(families, "igcf_sessions", cache=cache)) for cache in ("hit", "miss"))
    figures = _store_figures(context)
    return Stats(
        model=model_info(context.current_model, context.settings),
        uptime_s=time.time() - STARTED,
        workers=context.settings.workers,
        traffic=_traffic(families),
        exploration_share=learned / (pleased + learned) if pleased + learned else None,
        feedback=FeedbackMix(**kinds, duplicates=int(_sum(families, "igcf_feedback_duplicates"))),
        sessions=SessionCache(hits=hits, misses=misses),
        most_shown=figures.most_shown,
        most_liked=figures.most_liked,
        drifting_users=drifting_users(context.store, context.current_model.served, TOP),
        series=figures.series,
        load=context.load.points(),
        generations=figures.generations,
        catalogue_changes=figures.catalogue_changes,
        store=figures.health,
    )


def readiness(context: ServiceContext) -> list[str]:
    """Find what keeps this process from answering well; empty when nothing does."""
    problems = [] if context.current_model.problem is None else [context.current_model.problem]
    if found := _store_problem(context.store):
        problems.append(found)
    if len(context.current_model.served.model.added) and not context.items_from_log.has_read:
        problems.append("the reactions to new items are not read yet")
    if context.audit.waiting >= context.settings.audit_queue:
        problems.append(f"{context.audit.waiting} answers wait to be written to the audit log")
    context.metrics.ready.set(not problems)
    return problems


def _store_problem(store: Store) -> str | None:
    asked = "did not answer"
    try:
        store.database.read(lambda connection: connection.execute(sa.select(1)).scalar_one(), within_s=READY_S)
        asked = "cannot be written"
        store.database.check_writable()
    except StoreError as error:
        log.error("store failed", extra={"reason": str(error)})
        return f"the store {asked}"
    return None


@dataclass(frozen=True)
class _StoreFigures:
    """Figures that are read from the store."""

    most_shown: list[ShownItem]
    most_liked: list[LikedItem]
    series: Series
    generations: list[Generation]
    catalogue_changes: list[CatalogueChange]
    health: StoreHealth


def _store_figures(context: ServiceContext) -> _StoreFigures:
    served, store = context.current_model.served, context.store
    started = time.perf_counter()
    found = store.database.read(lambda connection: _part_figures(connection, served))
    return _StoreFigures(
        [
            ShownItem(item=item_id, title=served.title_of(item_id), times=times, explored=explored)
            for item_id, times, explored in found.shown
        ],
        [
            LikedItem(item=item_id, title=served.title_of(item_id), likes=likes, reactions=reactions)
            for item_id, likes, reactions in found.liked
            if likes
        ],
        series(found.moments, served),
        store.database.read(generations),
        catalogue_changes(store, served),
        StoreHealth(
            kind="postgresql" if store.database.is_postgres else "sqlite",
            **found.counts,
            schema=found.schema,
            read_ms=(time.perf_counter() - started) * 1e3,
            audit_waiting=context.audit.waiting,
            hot_users=len(context.users),
        ),
    )


@dataclass(frozen=True)
class _PartFigures:
    """Figures of the store."""

    shown: list[tuple[str, int, int]]
    liked: list[tuple[str, int, int]]
    counts: dict[str, int]
    schema: int
    moments: Moments


def _part_figures(connection: sa.Connection, served: ServedModel) -> _PartFigures:
    most_shown = sa.select(shown.c.item_id, shown.c.times, shown.c.explored).order_by(shown.c.times.desc()).limit(TOP)
    tables = (("users", users), ("reactions", feedback), ("recommendations", recommendations))
    counts = {
        name: int(connection.execute(sa.select(sa.func.count()).select_from(table)).scalar_one())
        for name, table in tables
    }
    counts["retracted"] = connection.execute(sa.select(sa.func.count(feedback.c.retracts))).scalar_one()
    counts["bytes"] = connection.exec_driver_sql(_SIZE[connection.dialect.name]).scalar_one()
    return _PartFigures(
        [(item_id, int(times), int(explored)) for item_id, times, explored in connection.execute(most_shown)],
        [
            (item_id, int(likes), int(reactions))
            for item_id, likes, reactions in connection.execute(_most_liked(served.model.reward.threshold))
        ],
        counts,
        connection.exec_driver_sql("SELECT MAX(version) FROM schema_version").scalar_one(),
        moments(connection),
    )


def _most_liked(threshold: float) -> sa.Select[Any]:
    """Select item, likes and reactions of the items that pleased most often lately."""
    rows = feedback.c
    recent = sa.select(rows.item_id, rows.value).where(rows.retracts.is_(None))
    latest = recent.order_by(rows.time.desc()).limit(RECENT).subquery().c
    likes = sa.func.sum(sa.case((latest.value >= threshold, 1), else_=0)).label("likes")
    liked = sa.select(latest.item_id, likes, sa.func.count()).group_by(latest.item_id)
    return liked.order_by(sa.text("likes DESC")).limit(TOP)


_SIZE = {
    "sqlite": "SELECT page_count * page_size FROM pragma_page_count(), pragma_page_size()",
    "postgresql": "SELECT pg_database_size(current_database())",
}


def _sum(families: dict[str, Metric], name: str, **labels: str) -> float:
    samples = families[name].samples if name in families else []
    return sum(
        sample.value for sample in samples if sample.name.endswith("_total") and labels.items() <= sample.labels.items()
    )


def _traffic(families: dict[str, Metric]) -> list[RouteTraffic]:
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
        RouteTraffic(
            route=route,
            method=method,
            requests=requests,
            errors=errors,
            p50_ms=quantile_ms(sorted(buckets[route, method]), 0.5),
            p90_ms=quantile_ms(sorted(buckets[route, method]), 0.9),
            p99_ms=quantile_ms(sorted(buckets[route, method]), 0.99),
        )
        for (route, method), (requests, errors) in sorted(counts.items(), key=lambda each: -each[1][0])
    ]
