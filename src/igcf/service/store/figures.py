"""Questions about all users: what the dashboard shows, what is liked lately, what they were shown and reacted to."""

import math
import time
from collections.abc import Iterator, Sequence
from typing import Any

import sqlalchemy as sa

from igcf.service.store.database import Database, rows_of
from igcf.service.store.records import rows_in_force
from igcf.service.store.tables import feedback, items, recommendations, users

AT_ONCE = 500
"""Items in one query."""
_SIZE = {
    "sqlite": "SELECT page_count * page_size FROM pragma_page_count(), pragma_page_size()",
    "postgresql": "SELECT pg_database_size(current_database())",
}


def sizes(database: Database) -> dict[str, int]:
    """Count users, reactions, retractions and answers, and the bytes of the store."""
    tables = {"users": users, "reactions": feedback, "recommendations": recommendations}
    counts: dict[str, Any] = {name: sa.select(sa.func.count()).select_from(table) for name, table in tables.items()}
    counts["retracted"] = sa.select(sa.func.count(feedback.c.retracts))
    counts["bytes"] = sa.text(_SIZE[database.reader.dialect.name])
    counts["schema"] = sa.text("SELECT MAX(version) FROM schema_version")
    return {name: int(database.rows(query)[0][0]) for name, query in counts.items()}


def latest_changes(database: Database, threshold: float, limit: int) -> Sequence[Any]:
    """Read the items that came, changed or went last.

    Each is item, whether it is retired, when it was added and changed, reactions when it was shown, and successes.
    """
    log, hit = feedback.c, sa.case((feedback.c.value >= threshold, 1), else_=0)
    latest = sa.select(items).order_by(items.c.updated.desc()).limit(limit).subquery("latest")
    own = [latest.c[name] for name in ("item_id", "retired", "added", "updated")]
    is_reaction = (log.item_id == latest.c.item_id) & log.retracts.is_(None) & (log.evidence == "shown")
    query = sa.select(*own, sa.func.count(log.user_id), sa.func.coalesce(sa.func.sum(hit), 0))
    joined = query.join_from(latest, feedback, is_reaction, isouter=True).group_by(*own)
    return database.rows(joined.order_by(latest.c.updated.desc()))


def liked_lately(database: Database, threshold: float, recent_s: float, earlier_s: float) -> dict[str, tuple[int, int]]:
    """Count by item who is satisfied by it: in the last `recent_s` seconds, and in the `earlier_s` before these.

    What happened at an unknown time does not count.
    """
    since = time.time() - recent_s
    start = since - earlier_s
    arrived = (feedback.c.arrived >= start, feedback.c.evidence.in_(("shown", "logged")))
    log = rows_in_force(*arrived).c  # it arrives after it happens
    is_recent = sa.case((log.time >= since, 1), else_=0)
    query = sa.select(log.item_id, sa.func.sum(is_recent), sa.func.count())
    found = database.rows(query.where(log.time >= start, log.value >= threshold).group_by(log.item_id))
    return {str(item_id): (int(recent), int(n) - int(recent)) for item_id, recent, n in found}


def users_with_news(database: Database, item_ids: Sequence[str], since: float) -> dict[str, int]:
    """Find who reacted to some items, or took a reaction back, since a time, and the newest such row of each."""
    found: dict[str, int] = {}
    for start in range(0, len(item_ids), AT_ONCE):
        is_news: sa.ColumnElement[bool] = feedback.c.item_id.in_(item_ids[start : start + AT_ONCE])
        if since > -math.inf:
            is_news = (feedback.c.arrived >= since) & (is_news | feedback.c.retracts.is_not(None))
        query = sa.select(feedback.c.user_id, sa.func.max(feedback.c.revision)).where(is_news)
        for user_id, revision in database.rows(query.group_by(feedback.c.user_id)):
            found[user_id] = max(found.get(user_id, 0), revision)
    return found


def experiment_answers(database: Database, name: str) -> Iterator[tuple[str, str, str, float]]:
    """Read the answers given in an experiment: user, arm, items as JSON, time."""
    table = recommendations.c
    query = sa.select(table.user_id, table.arm, table["items"], table.time).where(table.experiment == name)
    with database.snapshot() as connection:
        yield from rows_of(connection, query)


def shown_reactions(database: Database) -> Iterator[tuple[str, str, float, float]]:
    """Read all reactions in force to what was shown: user, item, value, time of arrival."""
    log = rows_in_force(feedback.c.evidence == "shown").c
    query = sa.select(log.user_id, log.item_id, log.value, log.arrived).where(log.value.is_not(None))
    with database.snapshot() as connection:
        yield from rows_of(connection, query)
