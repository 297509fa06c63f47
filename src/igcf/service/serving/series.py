"""What happened when: reactions, hits and exploration over time, generations of the model, items that came and went."""

import time
from typing import Any

import sqlalchemy as sa

from igcf.service.http.dashboard_responses import CatalogueChange, Generation, Series, SeriesPoint
from igcf.service.serving.catalogue import new_item_state
from igcf.service.serving.served_model import ServedModel
from igcf.service.store.tables import feedback, items, recommendations, serving

SPANS_S = (3600.0, 86_400.0, 30 * 86_400.0)
"""Lengths of time that may be shown; the shortest that holds the latest reactions is."""
POINTS = 60
LATEST = 2_000
"""Reactions that the time shown should hold."""
FAVOURITES = 20
"""Number of the population's favourites whose chances stand for what popularity alone would reach."""
LISTED = 8
LEARNS = '%"reason":"learn"%'
"""Part of the items of an answer, as the audit log keeps them; stores of before have a space after the colon."""


def series(connection: sa.Connection, served: ServedModel) -> Series:
    """Count reactions and answers in equal steps of time up to now."""
    now = time.time()
    rows = feedback.c
    given = sa.select(rows.time).where(rows.retracts.is_(None)).order_by(rows.time.desc()).limit(LATEST).subquery()
    oldest = connection.execute(sa.select(sa.func.min(given.c.time))).scalar_one() or now
    span = next((each for each in SPANS_S if now - oldest <= each), SPANS_S[-1])
    step, start = span / POINTS, now - span
    points = [SeriesPoint(time=start + (i + 1) * step) for i in range(POINTS)]

    def place(moment: float) -> SeriesPoint:
        return points[min(POINTS - 1, max(0, int((moment - start) / step)))]

    told = sa.select(rows.time, rows.value, rows.evidence).where(rows.time > start, rows.retracts.is_(None))
    threshold = served.model.reward.threshold
    for moment, value, evidence in connection.execute(told.order_by(rows.time.desc()).limit(50 * LATEST)):
        point = place(moment)
        point.skips += evidence == "skip"
        point.logged += evidence == "logged"
        if evidence == "shown":
            point.reactions += 1
            point.hits += value is not None and value >= threshold
    answers = recommendations.c
    has_learned = sa.or_(answers["items"].like(LEARNS), answers["items"].like(LEARNS.replace(":", ": ")))
    is_learning = sa.case((has_learned, 1), else_=0)
    asked = sa.select(answers.time, is_learning).where(answers.time > start).order_by(answers.time.desc())
    for moment, learns in connection.execute(asked.limit(10 * LATEST)):
        point = place(moment)
        point.answers += 1
        point.learning += learns
    return Series(span_s=span, step_s=step, popular_hit_rate=_popular_hit_rate(served), points=points)


def _popular_hit_rate(served: ServedModel) -> float:
    """Estimate which share of hits the population's favourites alone would reach with a stranger."""
    chances = served.recommender.session().chances().chance
    return float(chances[served.popular_rows[:FAVOURITES]].mean())


def generations(connection: sa.Connection) -> list[Generation]:
    """List the models that were announced, the newest first."""
    rows = serving.c
    found = connection.execute(
        sa.select(rows.generation, rows.model, rows.time).order_by(rows.generation.desc()).limit(LISTED)
    )
    return [Generation(generation=number, model=model, time=moment) for number, model, moment in found]


def catalogue_changes(connection: sa.Connection, served: ServedModel) -> list[CatalogueChange]:
    """List the items that came, changed or went last, with what they met."""
    rows = items.c
    latest: list[Any] = list(
        connection.execute(
            sa.select(rows.item_id, rows.retired, rows.added, rows.updated).order_by(rows.updated.desc()).limit(LISTED)
        )
    )
    ids = [item_id for item_id, *_ in latest]
    threshold = served.model.reward.threshold
    hit = sa.case((feedback.c.value >= threshold, 1), else_=0)
    counts = {
        item_id: (int(n), int(hits or 0))
        for item_id, n, hits in connection.execute(
            sa.select(feedback.c.item_id, sa.func.count(), sa.func.sum(hit))
            .where(feedback.c.item_id.in_(ids), feedback.c.retracts.is_(None), feedback.c.evidence == "shown")
            .group_by(feedback.c.item_id)
        )
    }
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
