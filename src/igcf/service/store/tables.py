"""Tables of the store, and the function that creates or migrates them.

Every table that grows with the users has the user first in its key, and no row refers to one of another user: a
database that shards by user keeps all rows of one user together.
"""

import time
from typing import Any

import sqlalchemy as sa
from sqlalchemy import BigInteger, Column, Double, Index, Integer, MetaData, Table, Text

from igcf.errors import StoreError

MIGRATION_LOCK = 0x69676366
"""Advisory lock under which PostgreSQL servers take turns to migrate."""
metadata = MetaData()


def _where(condition: str) -> dict[str, Any]:
    """Restrict an index to some rows."""
    return {"sqlite_where": sa.text(condition), "postgresql_where": sa.text(condition)}


users = Table(
    "users",
    metadata,
    Column("user_id", Text, primary_key=True),
    Column("incarnation", Text, nullable=False),  # random; differs after the user was deleted and came back
    Column("revision", Integer, nullable=False),  # number of rows in the user's log
    Column("updated", Double, nullable=False),  # arrival of the last row; never goes back
    sqlite_with_rowid=False,
)
feedback = Table(  # the truth: append-only, one row per event; a retraction is a row too
    "feedback",
    metadata,
    Column("user_id", Text, primary_key=True),
    Column("revision", Integer, primary_key=True),
    Column("event_id", Text),
    Column("item_id", Text),
    Column("value", Double),
    Column("time", Double),  # when it happened; null where that is unknown
    Column("arrived", Double, nullable=False),  # when it was stored: the cursor by which servers notice changes
    Column("retracts", Text),
    Column("evidence", Text, nullable=False),
    Column("kind", Text),
    Column("recommendation_id", Text),
    Column("model", Text, nullable=False),
    Column("details", Text),  # JSON: of evidence `attributes` these, of a reaction the context it was made in
    Index("feedback_events", "user_id", "event_id", unique=True),
    Index("feedback_by_item", "item_id", "user_id"),
    Index("feedback_by_arrival", "arrived"),
    Index("feedback_retractions", "user_id", "retracts", unique=True, **_where("retracts IS NOT NULL")),
    sqlite_with_rowid=False,  # one page less for every reaction
)
recommendations = Table(  # the audit
    "recommendations",
    metadata,
    Column("user_id", Text, primary_key=True),
    Column("recommendation_id", Text, primary_key=True),
    Column("model", Text, nullable=False),
    Column("revision", Integer, nullable=False),
    Column("policy", Text, nullable=False),
    Column("propensity", Text, nullable=False),
    Column("items", Text, nullable=False),
    Column("size", Integer, nullable=False),
    Column("time", Double, nullable=False),
    Column("experiment", Text),
    Column("arm", Text),
    Column("due", Double),  # from when on items without a reaction count as ignored; null: never, or counted
    Index("recommendations_by_time", "time"),
    Index("recommendations_due", "due", **_where("due IS NOT NULL")),
)
merges = Table(  # visitors, by the hash of their id, who became this user
    "merges",
    metadata,
    Column("user_id", Text, primary_key=True),
    Column("visitor_hash", Text, primary_key=True),
    Column("time", Double, nullable=False),
    Index("merges_of_visitor", "visitor_hash"),
)
deletions = Table(  # hashes of users deleted in the last minute, so that answers still in a queue are not written
    "deletions",
    metadata,
    Column("user_hash", Text, primary_key=True),
    Column("time", Double, nullable=False),
)
serving = Table(  # one row per loaded model; the highest generation is the one to serve
    "serving",
    metadata,
    Column("generation", Integer, primary_key=True, autoincrement=False),
    Column("folder", Text, nullable=False),
    Column("model", Text, nullable=False),
    Column("time", Double, nullable=False),
)
experiments = Table(  # append-only: what was started, given other shares, or stopped; the highest number is in force
    "experiments",
    metadata,
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("name", Text, nullable=False),
    Column("running", Integer, nullable=False),
    Column("definition", Text, nullable=False),  # JSON, the same in all rows of an experiment
    Column("layout", Text, nullable=False),  # JSON: who has which part of the range
    Column("time", Double, nullable=False),
)
items = Table(  # items added, changed or retired since the model was trained
    "items",
    metadata,
    Column("item_id", Text, primary_key=True),
    Column("fields", Text, nullable=False),
    Column("retired", Integer, nullable=False),
    Column("revision", BigInteger, nullable=False),
    Column("added", Double, nullable=False),
    Column("updated", Double, nullable=False),
    Index("items_by_revision", "revision"),
)
item_events = Table(  # batches of items sent with an event id, so that a repetition counts once
    "item_events",
    metadata,
    Column("event_id", Text, primary_key=True),
    Column("digest", Text, nullable=False),
    Column("revision", BigInteger, nullable=False),
    Column("time", Double, nullable=False),
)

MIGRATIONS: tuple[tuple[str, ...], ...] = (
    ("ALTER TABLE feedback ADD COLUMN details TEXT",),
    (
        "ALTER TABLE recommendations ADD COLUMN experiment TEXT",
        "ALTER TABLE recommendations ADD COLUMN arm TEXT",
        "ALTER TABLE recommendations ADD COLUMN due DOUBLE PRECISION",
        "CREATE INDEX recommendations_due ON recommendations (due) WHERE due IS NOT NULL",
        "CREATE TABLE experiments (number INTEGER NOT NULL PRIMARY KEY, name TEXT NOT NULL, running INTEGER NOT NULL, "
        "definition TEXT NOT NULL, layout TEXT NOT NULL, time DOUBLE PRECISION NOT NULL)",
    ),
    ("DROP TABLE IF EXISTS beliefs", "DROP TABLE IF EXISTS shown"),
)
"""Statements that lead from schema 1 to 2, from 2 to 3, and so on; append only."""
SCHEMA = 1 + len(MIGRATIONS)
"""The schema that the tables above describe."""


def migrate(connection: sa.Connection, *, name: str) -> None:
    """Create the tables, or bring an older schema to the newest, inside the caller's transaction."""
    if connection.dialect.name == "postgresql":
        connection.execute(sa.select(sa.func.pg_advisory_xact_lock(MIGRATION_LOCK)))
    connection.exec_driver_sql(
        "CREATE TABLE IF NOT EXISTS schema_version (version INTEGER NOT NULL PRIMARY KEY, time DOUBLE PRECISION)"
    )
    found = int(connection.exec_driver_sql("SELECT COALESCE(MAX(version), 0) FROM schema_version").scalar_one())
    if found > SCHEMA:
        raise StoreError(f"the store {name} has schema {found}, this igcf knows {SCHEMA}; use the igcf that wrote it")
    if found == SCHEMA:
        return
    if found == 0:
        metadata.create_all(connection)
    for statements in MIGRATIONS[found - 1 :] if found else ():
        for statement in statements:
            connection.exec_driver_sql(statement)
    connection.exec_driver_sql(f"INSERT INTO schema_version VALUES ({SCHEMA}, {time.time()})")  # noqa: S608
