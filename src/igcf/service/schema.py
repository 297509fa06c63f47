"""Tables of the store and the numbered migrations that lead to them."""

import time
from collections.abc import Sequence

import sqlalchemy as sa
from sqlalchemy import BigInteger, Column, Double, Integer, LargeBinary, MetaData, Table, Text

from igcf.errors import StoreError

MIGRATION_LOCK = 0x69676366  # "igcf": the advisory lock under which PostgreSQL servers migrate one after the other
FORGET_LOCK = MIGRATION_LOCK + 1

metadata = MetaData()

feedback = Table(  # the truth: append-only, one row per event; a retraction is a row too
    "feedback",
    metadata,
    Column("user_id", Text, primary_key=True),
    Column("revision", Integer, primary_key=True),
    Column("event_id", Text),
    Column("item_id", Text),
    Column("value", Double),
    Column("time", Double, nullable=False),
    Column("recommendation_id", Text),
    Column("model", Text, nullable=False),
    Column("retracts", Text),
)
users = Table(  # a cache: revision and belief can be computed from the log
    "users",
    metadata,
    Column("user_id", Text, primary_key=True),
    Column("born", Text, nullable=False),
    Column("revision", Integer, nullable=False),
    Column("belief_model", Text),
    Column("belief", LargeBinary),
    Column("drift", Double, nullable=False),
    Column("updated", Double, nullable=False),
)
recommendations = Table(
    "recommendations",
    metadata,
    Column("recommendation_id", Text, primary_key=True),
    Column("user_id", Text, nullable=False),
    Column("model", Text, nullable=False),
    Column("revision", Integer, nullable=False),
    Column("policy", Text, nullable=False),
    Column("propensity", Text, nullable=False),
    Column("items", Text, nullable=False),
    Column("time", Double, nullable=False),
)
shown = Table(
    "shown",
    metadata,
    Column("item_id", Text, primary_key=True),
    Column("times", BigInteger, nullable=False),
    Column("explored", BigInteger, nullable=False),
)
serving = Table(  # one row per loaded model; the highest generation is the one to serve
    "serving",
    metadata,
    Column("generation", Integer, primary_key=True),
    Column("folder", Text, nullable=False),
    Column("model", Text, nullable=False),
    Column("time", Double, nullable=False),
)
forgotten = Table(  # hashes of users deleted in the last minute, so that answers still in a queue are not written
    "forgotten",
    metadata,
    Column("user_hash", Text, primary_key=True),
    Column("time", Double, nullable=False),
)

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
)


def migrate(connection: sa.Connection, migrations: Sequence[Sequence[str]] = MIGRATIONS) -> int:
    """Bring any older schema to the newest, inside the caller's transaction; returns the version that was found."""
    is_postgres = connection.dialect.name == "postgresql"
    if is_postgres:
        connection.execute(sa.select(sa.func.pg_advisory_xact_lock(MIGRATION_LOCK)))
    connection.exec_driver_sql(
        "CREATE TABLE IF NOT EXISTS schema_version (version INTEGER NOT NULL PRIMARY KEY, time DOUBLE PRECISION)"
    )
    found = int(connection.exec_driver_sql("SELECT COALESCE(MAX(version), 0) FROM schema_version").scalar_one())
    if found > len(migrations):
        raise StoreError(f"the store has schema {found}, this igcf knows {len(migrations)}; use the igcf that wrote it")
    for number, statements in enumerate(migrations[found:], start=found + 1):
        for statement in statements:
            connection.exec_driver_sql(statement.replace("{bytes}", "BYTEA" if is_postgres else "BLOB"))
        row = sa.text("INSERT INTO schema_version VALUES (:version, :time)")
        connection.execute(row, {"version": number, "time": time.time()})
    return found
