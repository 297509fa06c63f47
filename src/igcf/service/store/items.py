"""Items in the store: what was added, changed and retired since the model was trained; durable and numbered.

Every transaction gets the next revision, under one lock, so that a server that has seen revision n misses nothing when
it asks for what came after n.
"""

import hashlib
import json
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import sqlalchemy as sa

from igcf.errors import UnknownItemError
from igcf.item import Item, parse_fields
from igcf.service.errors import EventConflictError
from igcf.service.models.item_responses import ItemsStored
from igcf.service.store.database import Database
from igcf.service.store.log import insert_rows
from igcf.service.store.tables import item_events, items

ITEMS_LOCK = 0x69676368
"""Advisory lock of PostgreSQL under which items are changed, one transaction after the other."""
IsKnown = Callable[[str], bool]
"""Whether an item that is not in the store exists all the same, in the model."""
Rows = Mapping[str, tuple[Mapping[str, Any], bool]]
"""Fields of items, by id, and whether they are retired."""


@dataclass(frozen=True)
class StoredItem:
    """What the store says of an item, beside what the model says."""

    item_id: str
    fields: Mapping[str, Any]
    """Fields of `Item` that were set; they come before those of the model."""
    is_retired: bool
    revision: int
    added: float
    updated: float

    def described(self, base: Item | None = None) -> Item:
        """Return the item as it is now, over what the model says of it; a retired one is hidden."""
        own = parse_fields(self.fields, f"item {self.item_id!r} of the store")
        item = replace(base or Item(self.item_id), **own)
        return replace(item, hidden=True) if self.is_retired else item


class ItemStore:
    """The items of a store; every change is durable when its method returns, or nothing was changed."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def changes(self, after: int = 0) -> list[StoredItem]:
        """Read the items that were changed after a revision."""
        query = sa.select(items).where(items.c.revision > after).order_by(items.c.revision, items.c.item_id)
        return [_stored(row) for row in self._database.rows(query)]

    def put(self, batch: Sequence[Item], event_id: str | None = None, *, is_known: IsKnown) -> ItemsStored:
        """Describe items, new ones and known ones, as the batch says; a retired one is back."""
        described = {item.id: {name: v for name, v in _plain(vars(item)).items() if name != "id"} for item in batch}
        digest = hashlib.sha256(json.dumps(described, sort_keys=True).encode()).hexdigest()

        def work(connection: sa.Connection) -> ItemsStored:
            before = _begin(connection)
            query = sa.select(item_events).where(item_events.c.event_id == event_id)
            seen = None if event_id is None else connection.execute(query).first()
            if seen is not None:
                if seen.digest != digest:
                    raise EventConflictError(
                        f"event {event_id!r} is stored with other items; send them under an event_id of its own"
                    )
                return ItemsStored(revision=seen.revision, duplicate=True, added=0, changed=0, returned=0, unchanged=0)
            old = _read(connection, list(described))
            fresh = [name for name in described if name not in old]
            returned = [name for name, row in old.items() if row.is_retired]
            changed = [name for name, row in old.items() if not row.is_retired and row.fields != described[name]]
            changed += [name for name in fresh if is_known(name)]
            touched = {*fresh, *returned, *changed}
            rows = {name: (fields, False) for name, fields in described.items() if name in touched}
            revision = before + 1 if rows or event_id is not None else before
            _write(connection, rows, revision, old)
            if event_id is not None:
                insert_rows(connection, item_events, [(event_id, digest, revision, time.time())])
            return ItemsStored(
                revision=revision,
                duplicate=False,
                added=sum(not is_known(name) for name in fresh),
                changed=len(changed),
                returned=len(returned),
                unchanged=len(described) - len(rows),
            )

        return self._database.write(work)

    def patch(self, item_id: str, fields: Mapping[str, Any], *, is_known: IsKnown) -> int:
        """Change some fields of one item; None takes a field back to what it is without it. Returns the revision."""

        def merged(old: Mapping[str, StoredItem]) -> Rows:
            own = old.get(item_id)
            found = {**({} if own is None else own.fields), **_plain(fields)}
            parse_fields(found, f"item {item_id!r}")  # what is stored and what is new must fit together
            is_same = own is not None and found == own.fields
            return {} if is_same else {item_id: (found, own is not None and own.is_retired)}

        return self._change([item_id], merged, is_known)[0]

    def retire(self, item_ids: Collection[str], *, is_known: IsKnown) -> tuple[int, int]:
        """Retire items; returns the revision and how many were not retired before. One that is unknown stops all."""

        def retired(old: Mapping[str, StoredItem]) -> Rows:
            wanted = [name for name in dict.fromkeys(item_ids) if name not in old or not old[name].is_retired]
            return {name: (old[name].fields if name in old else {}, True) for name in wanted}

        return self._change(item_ids, retired, is_known)

    def _change(
        self, item_ids: Collection[str], change: Callable[[Mapping[str, StoredItem]], Rows], is_known: IsKnown
    ) -> tuple[int, int]:
        """Write what `change` makes of some items; return the revision, and how many were changed."""

        def work(connection: sa.Connection) -> tuple[int, int]:
            before, old = _begin(connection), _read(connection, list(item_ids))
            unknown = [name for name in item_ids if name not in old and not is_known(name)]
            if unknown:
                others = f" and {len(unknown) - 1} others" if len(unknown) > 1 else ""
                raise UnknownItemError(f"item {unknown[0][:80]!r}{others} is neither in the store nor in the model")
            rows = change(old)
            _write(connection, rows, before + 1, old)
            return before + bool(rows), len(rows)

        return self._database.write(work)


def _begin(connection: sa.Connection) -> int:
    """Keep all others from changing items until the end of the transaction; returns the newest revision."""
    if connection.dialect.name == "postgresql":
        connection.execute(sa.select(sa.func.pg_advisory_xact_lock(ITEMS_LOCK)))
    return max(
        int(connection.execute(sa.select(sa.func.max(table.c.revision))).scalar() or 0)
        for table in (items, item_events)
    )


def _read(connection: sa.Connection, item_ids: Sequence[str]) -> dict[str, StoredItem]:
    found: dict[str, StoredItem] = {}
    for start in range(0, len(item_ids), 500):
        query = sa.select(items).where(items.c.item_id.in_(item_ids[start : start + 500]))
        found |= {row.item_id: _stored(row) for row in connection.execute(query)}
    return found


def _write(connection: sa.Connection, rows: Rows, revision: int, old: Mapping[str, StoredItem]) -> None:
    now = time.time()
    written = [
        (name, json.dumps(fields), int(is_retired), revision, old[name].added if name in old else now, now)
        for name, (fields, is_retired) in rows.items()
    ]
    news = ", ".join(f"{name} = excluded.{name}" for name in ("fields", "retired", "revision", "updated"))
    insert_rows(connection, items, written, f"ON CONFLICT (item_id) DO UPDATE SET {news}")


def _stored(row: Any) -> StoredItem:
    return StoredItem(row.item_id, json.loads(row.fields), bool(row.retired), row.revision, row.added, row.updated)


def _plain(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return fields as JSON has them."""
    return {
        name: list(value) if isinstance(value, tuple) else dict(value) if isinstance(value, Mapping) else value
        for name, value in fields.items()
    }
