"""What is liked more than it used to be: satisfied reactions of the last days against the time before."""

import time

import sqlalchemy as sa

from igcf.service.context import ServiceContext
from igcf.service.serving.served_model import ServedModel
from igcf.service.store.records import rows_in_force
from igcf.service.store.tables import feedback

DAY_S = 86_400.0
RECENT_DAYS, EARLIER_DAYS = 7.0, 28.0
EVIDENCE = 5.0
"""Reactions that an item is supposed to have had both times: few reactions make no trend."""
KEPT_S = 60.0
"""How long the counts are kept before they are read anew."""


def trends(context: ServiceContext, served: ServedModel) -> dict[int, float]:
    """Return by row how many satisfied reactions items had in the last 7 days against the 28 days before.

    It is (recent + 5) / (earlier / 4 + 5) for every item with a recent one: 1 is as ever, 2 is twice as much.
    """
    minute = int(time.time() / KEPT_S)
    counts = served.catalogue.computed(("trends", minute), lambda: _counts(context, served.model.reward.threshold))
    found = {}
    for item_id, (recent, earlier) in counts.items():
        row = served.model.known_row(item_id)
        if row is not None and recent:
            found[row] = (recent + EVIDENCE) / (earlier * RECENT_DAYS / EARLIER_DAYS + EVIDENCE)
    return found


def _counts(context: ServiceContext, threshold: float) -> dict[str, tuple[int, int]]:
    """Count the satisfied reactions in force of each item, recent and earlier ones."""
    now = time.time()
    since = now - RECENT_DAYS * DAY_S
    start = since - EARLIER_DAYS * DAY_S
    log = rows_in_force(
        feedback.c.arrived >= start, feedback.c.evidence.in_(("shown", "logged"))
    ).c  # nothing arrives before it happens
    query = (
        sa.select(
            log.item_id,
            sa.func.sum(sa.case((log.time >= since, 1), else_=0)),
            sa.func.sum(sa.case((log.time >= since, 0), else_=1)),
        )
        .where(log.time >= start, log.value >= threshold)
        .group_by(log.item_id)
    )
    rows = context.store.database.read(lambda connection: connection.execute(query).all())
    return {str(item_id): (int(recent), int(earlier)) for item_id, recent, earlier in rows}
