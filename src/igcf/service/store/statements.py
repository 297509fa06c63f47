"""The statements of the hot paths, built once: building one takes longer than running it.

Where a statement is about many users, SQLite receives them as JSON and PostgreSQL as arrays: one text for any number.
"""

import json
import json.encoder
from collections.abc import Mapping, Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import ARRAY

from igcf.service.store.records import NewEvent
from igcf.service.store.tables import beliefs, feedback, users

VERSION = sa.select(users.c.born, users.c.revision).where(users.c.user_id == sa.bindparam("user_id"))
VERSION_SQLITE = "SELECT born, revision FROM users WHERE user_id = ?"
VERSIONS = sa.select(users.c.user_id, users.c.born, users.c.revision).where(  # PostgreSQL: one text for any number
    users.c.user_id == sa.any_(sa.bindparam("user_ids", type_=ARRAY(sa.Text)))
)
USER = (
    sa.select(
        users.c.user_id,
        users.c.born,
        users.c.revision,
        users.c.drift,
        beliefs.c.model,
        beliefs.c.revision,
        beliefs.c.drift,
        beliefs.c.belief,
    )
    .select_from(users.outerjoin(beliefs, beliefs.c.user_id == users.c.user_id))
    .where(users.c.user_id == sa.bindparam("user_id"))
)
CREATE = sa.text(
    "INSERT INTO users (user_id, born, revision, drift, updated) "
    "VALUES (:user_id, :born, 0, :drift, :updated) ON CONFLICT DO NOTHING"
)
LOCK_SQLITE = (  # one writer at a time anyway; all rows in one, see `rows`
    "SELECT json_group_array(json_array(user_id, born, revision)) FROM users "
    "WHERE user_id IN (SELECT value FROM json_each(?))"
)
_LOCK_POSTGRES = sa.text(
    "SELECT user_id, born, revision FROM users WHERE user_id = ANY(:user_ids) ORDER BY user_id FOR UPDATE"
)
_LOCK_FREE_POSTGRES = sa.text(f"{_LOCK_POSTGRES.text} SKIP LOCKED")
_KNOWN = "SELECT f.user_id, f.event_id, f.item_id, f.value, f.evidence, f.kind FROM "
FOUND_SQLITE = (  # users, all in one row, and what is stored of reactions; here nobody else writes meanwhile
    LOCK_SQLITE.replace(" FROM", ", NULL, NULL, NULL, NULL, NULL FROM", 1)
    + f" UNION ALL {_KNOWN} json_each(?) AS asked "
    "CROSS JOIN feedback AS f ON f.user_id = asked.key AND f.event_id = asked.value"
)
_KNOWN_POSTGRES = sa.text(
    _KNOWN + "unnest(CAST(:user_ids AS text[]), CAST(:event_ids AS text[])) AS asked (user_id, event_id) "
    "JOIN feedback AS f ON f.user_id = asked.user_id AND f.event_id = asked.event_id"
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
DRIFT = sa.text("UPDATE users SET drift = :drift WHERE user_id = :user_id")
SAVE_BELIEF = sa.text(
    "INSERT INTO beliefs (user_id, model, revision, drift, belief) VALUES (:user_id, :model, :revision, :drift, "
    ":belief) ON CONFLICT (user_id) DO UPDATE SET model = excluded.model, revision = excluded.revision, "
    "drift = excluded.drift, belief = excluded.belief "
    "WHERE beliefs.model <> excluded.model OR beliefs.revision < excluded.revision"
)
DROP_BELIEF = sa.text("DELETE FROM beliefs WHERE user_id = :user_id")
_COUNT_SQLITE = sa.text(
    "INSERT INTO shown (item_id, times, explored) SELECT json_extract(value, '$[0]'), json_extract(value, '$[1]'), "
    "json_extract(value, '$[2]') FROM json_each(:counts) WHERE true ON CONFLICT (item_id) DO UPDATE "
    "SET times = shown.times + excluded.times, explored = shown.explored + excluded.explored"
)
_COUNT_POSTGRES = sa.text(
    "INSERT INTO shown (item_id, times, explored) SELECT * FROM unnest(CAST(:items AS text[]), "
    "CAST(:times AS bigint[]), CAST(:explored AS bigint[])) ON CONFLICT (item_id) DO UPDATE "
    "SET times = shown.times + excluded.times, explored = shown.explored + excluded.explored"
)

_text = json.encoder.encode_basestring_ascii
"""A text as JSON."""
Asking = tuple[sa.TextClause, dict[str, Any]]
"""A statement and what it is about."""


def lock_rows(user_ids: Sequence[str], *, waits: bool) -> Asking:
    """Read the rows of users and keep them from being changed, in the order of their names (PostgreSQL).

    Without `waits`, rows that are being changed elsewhere are left out.
    """
    return _LOCK_POSTGRES if waits else _LOCK_FREE_POSTGRES, {"user_ids": list(user_ids)}


def known_events(events: Mapping[str, Sequence[NewEvent]]) -> Asking:
    """Read what is stored of some reactions, by user and event id (PostgreSQL)."""
    asked = [(user_id, event.event_id) for user_id, each in events.items() for event in each]
    return _KNOWN_POSTGRES, {"user_ids": [pair[0] for pair in asked], "event_ids": [pair[1] for pair in asked]}


def found_sqlite(events: Mapping[str, Sequence[NewEvent]]) -> tuple[str, str]:
    """Write what `FOUND_SQLITE` is about: users as a list, and their reactions by user.

    The second is an object that may name a user several times: SQLite takes that apart quicker than a list of pairs.
    """
    texts = {user_id: _text(user_id) for user_id in events}
    pairs = ",".join(
        [f"{texts[user_id]}:{_text(event.event_id)}" for user_id, each in events.items() for event in each]
    )
    return f"[{','.join(texts.values())}]", f"{{{pairs}}}"


def count_shown(connection: sa.Connection, counts: Sequence[tuple[str, int, int]]) -> Asking:
    """Add to the counts of items: how often they were shown, and how often of these to learn."""
    if connection.dialect.name == "sqlite":
        return _COUNT_SQLITE, {"counts": json.dumps(counts)}
    items, times, explored = zip(*counts, strict=True) if counts else ((), (), ())
    return _COUNT_POSTGRES, {"items": list(items), "times": list(times), "explored": list(explored)}
