"""What happened when: reactions, hits and exploration over time, generations of the model, items that came and went."""

import time
from collections.abc import Sequence
from dataclasses import dataclass

import sqlalchemy as sa

from igcf.service.models.dashboard_responses import CatalogueChange, Generation, Series, SeriesPoint
from igcf.service.serving.catalogue import new_item_state
from igcf.service.serving.served_model import ServedModel
from igcf.service.store.store import Store
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


@dataclass(frozen=True)
class Moments:
    """What happened when, in the shortest of the spans that holds the latest reactions."""

    span: float
    reactions: list[tuple[float, float | None, str]]
    """Time, value and kind of evidence."""
    answers: list[tuple[float, bool]]
    """Time, and whether an item was shown to learn."""


def moments(connection: sa.Connection) -> Moments:
    """Read the latest reactions and answers."""
    now = time.time()
    rows = feedback.c
    given = sa.select(rows.time).where(rows.retracts.is_(None)).order_by(rows.time.desc()).limit(LATEST).subquery()
    oldest = connection.execute(sa.select(sa.func.min(given.c.time))).scalar_one() or now
    span = next((each for each in SPANS_S if now - oldest <= each), SPANS_S[-1])
    told = sa.select(rows.time, rows.value, rows.evidence).where(rows.time > now - span, rows.retracts.is_(None))
    answers = recommendations.c
    has_learned = sa.or_(answers["items"].like(LEARNS), answers["items"].like(LEARNS.replace(":", ": ")))
    is_learning = sa.case((has_learned, 1), else_=0)
    asked = sa.select(answers.time, is_learning).where(answers.time > now - span).order_by(answers.time.desc())
    return Moments(
        span,
        [tuple(row) for row in connection.execute(told.order_by(rows.time.desc()).limit(50 * LATEST))],
        [(moment, bool(learns)) for moment, learns in connection.execute(asked.limit(10 * LATEST))],
    )


def series(found: Moments, served: ServedModel) -> Series:
    """Count reactions and answers in equal steps of time up to now."""
    now, span = time.time(), found.span
    step, start = span / POINTS, now - span
    points = [SeriesPoint(time=start + (i + 1) * step) for i in range(POINTS)]

    def place(moment: float) -> SeriesPoint:
        return points[min(POINTS - 1, max(0, int((moment - start) / step)))]

    threshold = served.model.reward.threshold
    for moment, value, evidence in found.reactions:
        point = place(moment)
        point.skips += evidence == "skip"
        point.logged += evidence == "logged"
        if evidence == "shown":
            point.reactions += 1
            point.hits += value is not None and value >= threshold
    for moment, learns in found.answers:
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
