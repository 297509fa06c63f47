"""The statements of the hot paths, built once: building one takes longer than running it."""

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import ARRAY

from igcf.service.store.tables import feedback, users

VERSION = sa.select(users.c.born, users.c.revision).where(users.c.user_id == sa.bindparam("user_id"))
VERSIONS = sa.select(users.c.user_id, users.c.born, users.c.revision).where(  # PostgreSQL: one text for any number
    users.c.user_id == sa.any_(sa.bindparam("user_ids", type_=ARRAY(sa.Text)))
)
USER = sa.select(
    users.c.user_id, users.c.born, users.c.revision, users.c.belief_model, users.c.belief, users.c.drift
).where(users.c.user_id == sa.bindparam("user_id"))
USER_LOCKED = USER.with_for_update()
KNOWN = sa.select(
    feedback.c.event_id, feedback.c.item_id, feedback.c.value, feedback.c.evidence, feedback.c.kind
).where(
    feedback.c.user_id == sa.bindparam("user_id"),
    feedback.c.event_id.in_(sa.bindparam("event_ids", expanding=True)),
)
EVENTS = (
    sa.select(
        feedback.c.revision,
        feedback.c.event_id,
        feedback.c.item_id,
        feedback.c.value,
        feedback.c.time,
        feedback.c.retracts,
        feedback.c.evidence,
        feedback.c.kind,
    )
    .where(
        feedback.c.user_id == sa.bindparam("user_id"),
        feedback.c.revision > sa.bindparam("after"),
        feedback.c.revision <= sa.bindparam("until"),
    )
    .order_by(feedback.c.revision)
)
APPEND = sa.insert(feedback)
SAVE = (
    sa.update(users)
    .where(users.c.user_id == sa.bindparam("of_user"))
    .values(
        revision=sa.bindparam("new_revision"),
        belief_model=sa.bindparam("new_model"),
        belief=sa.bindparam("new_belief"),
        drift=sa.bindparam("new_drift"),
        updated=sa.bindparam("now"),
    )
)
