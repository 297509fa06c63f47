"""Tables of the store, as the newest migration leaves them."""

from sqlalchemy import BigInteger, Column, Double, Integer, LargeBinary, MetaData, Table, Text

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
    Column("evidence", Text, nullable=False),
    Column("kind", Text),
)
users = Table(  # the revision counts the rows of the log
    "users",
    metadata,
    Column("user_id", Text, primary_key=True),
    Column("born", Text, nullable=False),
    Column("revision", Integer, nullable=False),
    Column("drift", Double, nullable=False),
    Column("updated", Double, nullable=False),
)
beliefs = Table(  # a cache: what can be computed from the log up to the revision
    "beliefs",
    metadata,
    Column("user_id", Text, primary_key=True),
    Column("model", Text, nullable=False),
    Column("revision", Integer, nullable=False),
    Column("drift", Double, nullable=False),
    Column("belief", LargeBinary, nullable=False),
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
    Column("size", Integer, nullable=False),
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
items = Table(  # what was added, changed and retired since the model was trained
    "items",
    metadata,
    Column("item_id", Text, primary_key=True),
    Column("fields", Text, nullable=False),
    Column("retired", Integer, nullable=False),
    Column("revision", BigInteger, nullable=False),
    Column("added", Double, nullable=False),
    Column("updated", Double, nullable=False),
)
item_events = Table(  # batches of items that were sent with an event id, so that a repetition counts once
    "item_events",
    metadata,
    Column("event_id", Text, primary_key=True),
    Column("digest", Text, nullable=False),
    Column("revision", BigInteger, nullable=False),
    Column("time", Double, nullable=False),
)
merges = Table(  # hashes of visitors who became known users, and of those users
    "merges",
    metadata,
    Column("visitor_hash", Text, primary_key=True),
    Column("user_hash", Text, nullable=False),
    Column("time", Double, nullable=False),
)
forgotten = Table(  # hashes of users deleted in the last minute, so that answers still in a queue are not written
    "forgotten",
    metadata,
    Column("user_hash", Text, primary_key=True),
    Column("time", Double, nullable=False),
)
