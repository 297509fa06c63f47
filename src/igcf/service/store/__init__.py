"""What the service remembers, in SQLite or PostgreSQL: the feedback log, the beliefs, the answers given."""

from igcf.service.store.export import interactions_from_store, read_store
from igcf.service.store.records import Event, NewEvent, UserRow, in_force
from igcf.service.store.store import Store

__all__ = ["Event", "NewEvent", "Store", "UserRow", "in_force", "interactions_from_store", "read_store"]
