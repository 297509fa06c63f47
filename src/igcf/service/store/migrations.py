"""Numbered migrations of the store, and the function that applies those that are missing."""

import time
from collections.abc import Sequence

import sqlalchemy as sa

from igcf.errors import StoreError

MIGRATION_LOCK = 0x69676366  # "igcf": the advisory lock under which PostgreSQL servers migrate one after the other

MIGRATIONS: tuple[tuple[str, ...], ...] = (  # append only; `schema_version` counts those applied
    (
        """CREATE TABLE feedback (
            user_id TEXT NOT NULL, revision INTEGER NOT NULL, event_id TEXT, item_id TEXT, value DOUBLE PRECISION,
            time DOUBLE PRECISION NOT NULL, recommendation_id TEXT, model TEXT NOT NULL, retracts TEXT,
            PRIMARY KEY (user_id, revision), UNIQUE (user_id, event_id), UNIQUE (user_id, retracts))""",
        """CREATE TABLE users (
            user_id TEXT NOT NULL PRIMARY KEY, born TEXT NOT NULL, revision INTEGER NOT NULL, belief_model TEXT,
            belief {bytes}, updated DOUBLE PRECISION NOT NULL)""",
    ),
    (
        """CREATE TABLE recommendations (
            recommendation_id TEXT NOT NULL PRIMARY KEY, user_id TEXT NOT NULL, model TEXT NOT NULL,
            revision INTEGER NOT NULL, policy TEXT NOT NULL, propensity TEXT NOT NULL, items TEXT NOT NULL,
            time DOUBLE PRECISION NOT NULL)""",
        "CREATE INDEX recommendations_of_user ON recommendations (user_id)",
        "CREATE TABLE forgotten (user_hash TEXT NOT NULL PRIMARY KEY, time DOUBLE PRECISION NOT NULL)",
    ),
    (
        """CREATE TABLE serving (
            generation INTEGER NOT NULL PRIMARY KEY, folder TEXT NOT NULL, model TEXT NOT NULL,
            time DOUBLE PRECISION NOT NULL)""",
    ),
    (
        "CREATE TABLE shown (item_id TEXT NOT NULL PRIMARY KEY, times BIGINT NOT NULL, explored BIGINT NOT NULL)",
        "ALTER TABLE users ADD COLUMN drift DOUBLE PRECISION NOT NULL DEFAULT 1.0",
        "CREATE INDEX users_by_drift ON users (drift)",
        "CREATE INDEX feedback_by_time ON feedback (time)",
    ),
    (
        "ALTER TABLE feedback ADD COLUMN evidence TEXT NOT NULL DEFAULT 'shown'",
        "ALTER TABLE feedback ADD COLUMN kind TEXT",
    ),
    ("CREATE INDEX recommendations_by_time ON recommendations (time)",),
    ("ALTER TABLE recommendations ADD COLUMN size INTEGER NOT NULL DEFAULT 0",),
    (
        """CREATE TABLE items (
            item_id TEXT NOT NULL PRIMARY KEY, fields TEXT NOT NULL, retired INTEGER NOT NULL, revision BIGINT NOT NULL,
            added DOUBLE PRECISION NOT NULL, updated DOUBLE PRECISION NOT NULL)""",
        "CREATE INDEX items_by_revision ON items (revision)",
        """CREATE TABLE item_events (
            event_id TEXT NOT NULL PRIMARY KEY, digest TEXT NOT NULL, revision BIGINT NOT NULL,
            time DOUBLE PRECISION NOT NULL)""",
        """CREATE TABLE merges (
            visitor_hash TEXT NOT NULL PRIMARY KEY, user_hash TEXT NOT NULL, time DOUBLE PRECISION NOT NULL)""",
        "CREATE INDEX merges_of_user ON merges (user_hash)",
    ),
    (  # beliefs are kept apart, so that a reaction does not write one
        """CREATE TABLE beliefs (
            user_id TEXT NOT NULL PRIMARY KEY, model TEXT NOT NULL, revision INTEGER NOT NULL,
            drift DOUBLE PRECISION NOT NULL, belief {bytes} NOT NULL)""",
        """INSERT INTO beliefs SELECT user_id, belief_model, revision, drift, belief FROM users
            WHERE belief IS NOT NULL AND belief_model IS NOT NULL""",
        "ALTER TABLE users DROP COLUMN belief",
        "ALTER TABLE users DROP COLUMN belief_model",
    ),
    (  # what takes nothing back is not in the index of retractions, so that a reaction does not write there
        """CREATE TABLE feedback_new (
            user_id TEXT NOT NULL, revision INTEGER NOT NULL, event_id TEXT, item_id TEXT, value DOUBLE PRECISION,
            time DOUBLE PRECISION NOT NULL, recommendation_id TEXT, model TEXT NOT NULL, retracts TEXT,
            evidence TEXT NOT NULL DEFAULT 'shown', kind TEXT,
            PRIMARY KEY (user_id, revision), UNIQUE (user_id, event_id))""",
        """INSERT INTO feedback_new SELECT user_id, revision, event_id, item_id, value, time, recommendation_id, model,
            retracts, evidence, kind FROM feedback""",
        "DROP TABLE feedback",
        "ALTER TABLE feedback_new RENAME TO feedback",
        "CREATE UNIQUE INDEX feedback_retractions ON feedback (user_id, retracts) WHERE retracts IS NOT NULL",
        "CREATE INDEX feedback_by_time ON feedback (time)",
    ),
)


def migrate(connection: sa.Connection, migrations: Sequence[Sequence[str]] = MIGRATIONS, *, name: str = "given") -> int:
    """Bring any older schema to the newest, inside the caller's transaction; returns the version that was found."""
    is_postgres = connection.dialect.name == "postgresql"
    if is_postgres:
        connection.execute(sa.select(sa.func.pg_advisory_xact_lock(MIGRATION_LOCK)))
    connection.exec_driver_sql(
        "CREATE TABLE IF NOT EXISTS schema_version (version INTEGER NOT NULL PRIMARY KEY, time DOUBLE PRECISION)"
    )
    found = int(connection.exec_driver_sql("SELECT COALESCE(MAX(version), 0) FROM schema_version").scalar_one())
    if found > len(migrations):
        known = len(migrations)
        raise StoreError(f"the store {name} has schema {found}, this igcf knows {known}; use the igcf that wrote it")
    for number, statements in enumerate(migrations[found:], start=found + 1):
        for statement in statements:
            connection.exec_driver_sql(statement.replace("{bytes}", "BYTEA" if is_postgres else "BLOB"))
        row = sa.text("INSERT INTO schema_version VALUES (:version, :time)")
        connection.execute(row, {"version": number, "time": time.time()})
    return found
