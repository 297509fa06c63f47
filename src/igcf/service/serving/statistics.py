"""What the dashboard shows of the store, whose taste drifts, and whether a process can answer."""

import logging
import time
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

import numpy as np
import sqlalchemy as sa

from igcf.arrays import BoolArray, FloatArray
from igcf.errors import StoreError
from igcf.online import Recommender
from igcf.online.answers import Reaction
from igcf.service.context import ServiceContext
from igcf.service.models.dashboard_responses import (
    CatalogueChange,
    DriftingUser,
    Generation,
    LikedItem,
    ShownItem,
    Stats,
    StoreHealth,
)
from igcf.service.serving.catalogue import model_info, new_item_state
from igcf.service.serving.learning import usable
from igcf.service.serving.served_model import ServedModel
from igcf.service.store.records import in_force
from igcf.service.store.store import Store
from igcf.service.store.tables import feedback, items, recommendations, serving, shown, users

FEWEST = 12
"""Reactions below which nothing is said."""
LONGEST = 60
"""Latest reactions that are looked at."""
CLIPPED = 0.05
"""Chances are kept this far from 0 and 1, so that one reaction cannot decide."""
CANDIDATES, AT_ONCE, REMEMBERED = 60, 20, 1000
"""Users that are ranked, of whom so many are new at once; and results that are remembered."""
_known: "OrderedDict[tuple[str, str, int], float | None]" = OrderedDict()


def drift_of(recommender: Recommender, history: Sequence[Reaction]) -> float | None:
    """Return how much worse the halves foretell each other than the population does, in nats per reaction.

    Above 0 the taste has probably changed; None where there are too few reactions.
    """
    threshold = recommender.model.reward.threshold
    told = [(item_id, value) for item_id, value in history if value is not None][-LONGEST:]
    if len(told) < FEWEST:
        return None
    half = len(told) // 2
    halves = told[:half], told[half:]
    rows = [recommender.model.item_rows([item_id for item_id, _ in part]) for part in halves]
    hits = [np.array([value >= threshold for _, value in part]) for part in halves]
    nobody = recommender.session().chances().chance
    excess = 0.0
    for known, unknown in ((0, 1), (1, 0)):
        chance = recommender.session(halves[known]).chances().chance
        own = _loss(chance[rows[unknown]], hits[unknown])
        excess += own - _loss(nobody[rows[unknown]], hits[unknown])
    return excess / len(told)


def _loss(chances: FloatArray, hits: BoolArray) -> float:
    """Sum of the negative logarithms of the chances of what happened."""
    kept = np.clip(chances, CLIPPED, 1.0 - CLIPPED)
    return float(-np.log(np.where(hits, kept, 1.0 - kept)).sum())


def drifting_users(store: Store, served: ServedModel, top: int) -> list[DriftingUser]:
    """Rank the users seen last by their drift; what was computed before is remembered, a few are new at each call."""
    rows = users.c
    latest = sa.select(rows.user_id, rows.revision).where(rows.revision >= FEWEST).order_by(rows.updated.desc())
    query = latest.limit(CANDIDATES)
    seen = store.database.read(lambda connection: connection.execute(query).all())
    found: list[DriftingUser] = []
    left = AT_ONCE
    for user_id, revision in seen:
        key = served.model_id, user_id, revision
        if key not in _known:
            if not left:
                continue
            left -= 1
            history = usable(served.model, in_force(store.events(user_id, until=revision)))
            _known[key] = drift_of(served.recommender, history)
            while len(_known) > REMEMBERED:
                _known.popitem(last=False)
        drift = _known[key]
        if drift is not None:
            found.append(DriftingUser(user=user_id, drift=drift, reactions=revision))
    return sorted(found, key=lambda each: -each.drift)[:top]


log = logging.getLogger("igcf.service")
STARTED = time.time()
READY_S = 2.0
"""How long the store may take to show that it answers."""
TOP, LISTED = 10, 8
RECENT = 100_000
"""Reactions that the counts by item look back on."""


def statistics(context: ServiceContext) -> Stats:
    """Collect the figures of the dashboard."""
    served, store = context.current_model.served, context.store
    started = time.perf_counter()
    most_shown = sa.select(shown.c.item_id, shown.c.times, shown.c.explored).order_by(shown.c.times.desc()).limit(TOP)
    most_liked = _most_liked(served.model.reward.threshold)
    return Stats(
        model=model_info(context.current_model, context.settings),
        uptime_s=time.time() - STARTED,
        workers=context.settings.workers,
        most_shown=[
            ShownItem(item=item_id, title=served.title_of(item_id), times=times, explored=explored)
            for item_id, times, explored in store.database.read(lambda each: each.execute(most_shown).all())
        ],
        most_liked=[
            LikedItem(item=item_id, title=served.title_of(item_id), likes=likes, reactions=reactions)
            for item_id, likes, reactions in store.database.read(lambda each: each.execute(most_liked).all())
            if likes
        ],
        drifting_users=drifting_users(store, served, TOP),
        generations=store.database.read(generations),
        catalogue_changes=catalogue_changes(store, served),
        store=StoreHealth(
            kind="postgresql" if store.database.is_postgres else "sqlite",
            **store.database.read(_counts),
            read_ms=(time.perf_counter() - started) * 1e3,
            audit_waiting=context.audit.waiting,
            hot_users=len(context.users),
        ),
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


def _counts(connection: sa.Connection) -> dict[str, int]:
    tables = (("users", users), ("reactions", feedback), ("recommendations", recommendations))
    counts = {
        name: int(connection.execute(sa.select(sa.func.count()).select_from(table)).scalar_one())
        for name, table in tables
    }
    counts["retracted"] = connection.execute(sa.select(sa.func.count(feedback.c.retracts))).scalar_one()
    counts["bytes"] = connection.exec_driver_sql(_SIZE[connection.dialect.name]).scalar_one()
    counts["schema"] = connection.exec_driver_sql("SELECT MAX(version) FROM schema_version").scalar_one()
    return counts


def _most_liked(threshold: float) -> sa.Select[Any]:
    """Select item, likes and reactions of the items that pleased most often lately."""
    rows = feedback.c
    recent = sa.select(rows.item_id, rows.value).where(rows.item_id.is_not(None))
    latest = recent.order_by(rows.arrived.desc()).limit(RECENT).subquery().c
    likes = sa.func.sum(sa.case((latest.value >= threshold, 1), else_=0)).label("likes")
    liked = sa.select(latest.item_id, likes, sa.func.count()).group_by(latest.item_id)
    return liked.order_by(sa.text("likes DESC")).limit(TOP)


_SIZE = {
    "sqlite": "SELECT page_count * page_size FROM pragma_page_count(), pragma_page_size()",
    "postgresql": "SELECT pg_database_size(current_database())",
}


def generations(connection: sa.Connection) -> list[Generation]:
    """List the models that were announced, the newest first."""
    rows = serving.c
    found = connection.execute(
        sa.select(rows.generation, rows.model, rows.time).order_by(rows.generation.desc()).limit(LISTED)
    )
    return [Generation(generation=number, model=model, time=moment) for number, model, moment in found]


def latest_changes(connection: sa.Connection) -> list[tuple[str, bool, float, float]]:
    """Read the items that came, changed or went last: id, whether it is retired, when it was added and changed."""
    rows = items.c
    query = sa.select(rows.item_id, rows.retired, rows.added, rows.updated).order_by(rows.updated.desc()).limit(LISTED)
    return [(item_id, bool(retired), added, updated) for item_id, retired, added, updated in connection.execute(query)]


def reactions_to(connection: sa.Connection, item_ids: Sequence[str], threshold: float) -> dict[str, tuple[int, int]]:
    """Count the reactions to some items when they were shown, and how many of these satisfied."""
    rows, hit = feedback.c, sa.case((feedback.c.value >= threshold, 1), else_=0)
    query = sa.select(rows.item_id, sa.func.count(), sa.func.sum(hit)).where(
        rows.item_id.in_(item_ids), rows.retracts.is_(None), rows.evidence == "shown"
    )
    found = connection.execute(query.group_by(rows.item_id))
    return {item_id: (int(n), int(hits or 0)) for item_id, n, hits in found}


def catalogue_changes(store: Store, served: ServedModel) -> list[CatalogueChange]:
    """List the items that came, changed or went last, with what they met."""
    latest = store.database.read(latest_changes)
    ids, threshold = [item_id for item_id, *_ in latest], served.model.reward.threshold
    counts = store.database.read(lambda connection: reactions_to(connection, ids, threshold))
    return [
        CatalogueChange(
            item=item_id,
            title=served.title_of(item_id),
            state="retired" if retired else "changed" if updated > added + 1.0 else "new",
            time=updated,
            reactions=counts.get(item_id, (0, 0))[0],
            hits=counts.get(item_id, (0, 0))[1],
            new=None if (row := served.model.known_row(item_id)) is None else new_item_state(served, row),
        )
        for item_id, retired, added, updated in latest
    ]
