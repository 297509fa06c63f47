"""The store as a log to train on."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import sqlalchemy as sa

from igcf.attributes import Attributes
from igcf.errors import StoreError
from igcf.item import Item
from igcf.service.store.answers import shown_items
from igcf.service.store.audit_files import AuditFolder
from igcf.service.store.items import ItemStore
from igcf.service.store.maintenance import open_existing
from igcf.service.store.tables import feedback

if TYPE_CHECKING:
    from igcf.data import Interactions

Evidence = Literal["logged", "reacted", "ignored"]
"""`logged`: of all items the user came to this one; `reacted`: shown, and it drew a reaction; `ignored`: shown, and it
drew none."""


@dataclass(frozen=True)
class StoreLog:
    """What is in force in a store, as columns of equal length, in the order of time; skips are no evidence."""

    users: tuple[str, ...]
    items: tuple[str, ...]
    values: tuple[float | None, ...]
    """In the units of the log; None where an item drew no reaction."""
    times: tuple[float, ...]
    """Seconds since 1970."""
    evidence: tuple[Evidence, ...]
    name: str
    described: Mapping[str, Item] = field(default_factory=dict)
    """Items that the store describes, by id; those of the first model that nobody changed are not among them."""
    unanswered: int = 0
    """Times that an item was shown, by the audit in a folder, and no reaction names the answer."""

    @property
    def sentence(self) -> str:
        """One line about what is learned from and what is not."""
        n = Counter(self.evidence)
        audit = f"; {self.unanswered:,} items of the audit drew no reaction" if self.unanswered else ""
        return (
            f"store: {n['logged']:,} logged reactions and {n['reacted']:,} reactions to shown items are learned from; "
            f"{n['ignored']:,} shown without a reaction are not; {len(self.described):,} items are described{audit}"
        )

    def interactions(self) -> "Interactions":
        """Build the log to learn from: logged reactions and those to shown items; of one user and item the latest."""
        from igcf.data import Interactions

        columns = (self.users, self.items, self.values, self.times)
        rows = [row for row in zip(*columns, strict=True) if row[2] is not None]
        if not rows:
            raise StoreError(f"the store {self.name} has no reactions to learn from")
        users, items, values, times = zip(*rows, strict=True)
        log = Interactions.from_arrays(users, items, values, [int(each) for each in times], name="store")
        if not self.described:
            return log
        known = [self.described.get(item_id, Item(item_id)) for item_id in log.item_ids]
        attributes = Attributes.from_items(known)
        return log.with_catalogue(
            tuple(item.title or item.id for item in known),
            tuple(item.categories for item in known) if any(item.categories for item in known) else None,
            None if attributes.is_empty else attributes,
        )


def read_store(*places: str) -> StoreLog:
    """Read everything in force in a store; one that does not exist is not created.

    Args:
        places: the databases of the store, and the folder of its audit where there is one.
    """
    folders = [AuditFolder.existing(place) for place in places if Path(place).is_dir()]
    store = open_existing([place for place in places if not Path(place).is_dir()])
    try:
        log = feedback.c
        taken_back = feedback.alias("taken_back")
        is_retracted = sa.exists().where(taken_back.c.user_id == log.user_id, taken_back.c.retracts == log.event_id)
        query = sa.select(log.user_id, log.item_id, log.value, log.time, log.evidence).where(
            log.retracts.is_(None), log.evidence != "skip", ~is_retracted
        )
        rows: list[Any] = []
        for part in store.parts:
            rows += part.database.read(lambda connection: connection.execute(query.order_by(log.time)).all())
        if len(store.parts) > 1:
            rows.sort(key=lambda row: row[3])
        stored = ItemStore(store.common.database).changes()
        described = {item.item_id: _lasting(item.described()) for item in stored}
        unanswered = sum(
            int((~frame["has_reacted"]).sum()) for folder in folders for frame in shown_items(store, folder)
        )
        name = ", ".join(part.database.name for part in store.parts)
    finally:
        store.close()
    users, items, values, times, kinds = zip(*rows, strict=True) if rows else ((), (), (), (), ())
    evidence: tuple[Evidence, ...] = tuple(
        "logged" if kind == "logged" else "ignored" if value is None else "reacted"
        for kind, value in zip(kinds, values, strict=True)
    )
    return StoreLog(users, items, values, times, evidence, name, described, unanswered)


def interactions_from_store(*places: str) -> "Interactions":
    """Read the reactions in force as a log to learn from; items that were only shown have no value and are left out."""
    return read_store(*places).interactions()


def _lasting(item: Item) -> Item:
    """Leave out what may change from hour to hour: the store lays it over any model."""
    return replace(item, hidden=False, available_from=None, available_until=None, image=None)
