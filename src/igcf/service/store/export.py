"""The feedback log as interactions to train on."""

from pathlib import Path
from typing import TYPE_CHECKING

import sqlalchemy as sa

from igcf.errors import StoreError
from igcf.service.store.database import database_url
from igcf.service.store.store import Store
from igcf.service.store.tables import feedback

if TYPE_CHECKING:
    from igcf.data import Interactions


def interactions_from_store(url: str) -> "Interactions":
    """Read the reactions in force as a log to learn from; items that were only shown have no value and are left out."""
    from igcf.data import Interactions

    target = database_url(url)
    if target.drivername == "sqlite" and not Path(str(target.database)).is_file():
        raise StoreError(f"there is no store at {target.database}; `igcf serve` creates one")
    store = Store(url)
    try:
        log = feedback.c
        taken_back = feedback.alias("taken_back")
        is_retracted = sa.exists().where(taken_back.c.user_id == log.user_id, taken_back.c.retracts == log.event_id)
        query = sa.select(log.user_id, log.item_id, log.value, log.time).where(log.value.is_not(None), ~is_retracted)
        rows = store.database.read(lambda connection: connection.execute(query.order_by(log.time)).all())
    finally:
        store.close()
    if not rows:
        raise StoreError(f"the store {store.database.name} has no reactions to learn from")
    users_column, items_column, values, times = zip(*rows, strict=True)
    return Interactions.from_arrays(users_column, items_column, values, [int(each) for each in times], name="store")
