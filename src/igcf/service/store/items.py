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
from igcf.service.store.tables import item_events, items

ITEMS_LOCK = 0x69676368
"""Advisory lock of PostgreSQL under which items are changed, one transaction after the other."""
IsKnown = Callable[[str], bool]
"""Whether an item that is not in the store exists all the same, in the model."""


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
        return [_stored(row) for row in self._database.read(lambda connection: connection.execute(query).all())]

    def put(self, batch: Sequence[Item], event_id: str | None = None, *, is_known: IsKnown) -> ItemsStored:
        """Describe items, new ones and known ones, as the batch says; a retired one is back."""
        described = {item.id: _fields(item) for item in batch}
        digest = _digest(described)

        def work(connection: sa.Connection) -> ItemsStored:
            before = _begin(connection, self._database)
            if event_id is not None:
                seen = connection.execute(sa.select(item_events).where(item_events.c.event_id == event_id)).first()
                if seen is not None and seen.digest != digest:
                    raise EventConflictError(
                        f"event {event_id!r} is stored with other items; send them under an event_id of its own"
                    )
                if seen is not None:
                    return ItemsStored(
                        revision=seen.revision, duplicate=True, added=0, changed=0, returned=0, unchanged=0
                    )
            old = _read(connection, list(described))
            fresh = [name for name in described if name not in old]
            returned = [name for name, row in old.items() if row.is_retired]
            changed = [name for name, row in old.items() if not row.is_retired and row.fields != described[name]]
            changed += [name for name in fresh if is_known(name)]
            touched = {*fresh, *returned, *changed}
            rows = [name for name in described if name in touched]
            revision = before + 1 if rows or event_id is not None else before
            _write(connection, {name: (described[name], False) for name in rows}, revision, old)
            if event_id is not None:
                mark = {"event_id": event_id, "digest": digest, "revision": revision, "time": time.time()}
                connection.execute(sa.insert(item_events).values(mark))
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

        def work(connection: sa.Connection) -> int:
            before = _begin(connection, self._database)
            old = _read(connection, [item_id])
            _refuse_unknown([item_id], old, is_known)
            own = old.get(item_id)
            merged = {**({} if own is None else own.fields), **_plain(fields)}
            parse_fields(merged, f"item {item_id!r}")  # what is stored and what is new must fit together
            if own is not None and merged == own.fields:
                return before
            _write(connection, {item_id: (merged, own is not None and own.is_retired)}, before + 1, old)
            return before + 1

        return self._database.write(work)

    def retire(self, item_ids: Collection[str], *, is_known: IsKnown) -> tuple[int, int]:
        """Retire items; returns the revision and how many were not retired before. One that is unknown stops all."""

        def work(connection: sa.Connection) -> tuple[int, int]:
            before = _begin(connection, self._database)
            old = _read(connection, list(item_ids))
            _refuse_unknown(item_ids, old, is_known)
            wanted = [name for name in dict.fromkeys(item_ids) if name not in old or not old[name].is_retired]
            if not wanted:
                return before, 0
            rows = {name: (dict(old[name].fields) if name in old else {}, True) for name in wanted}
            _write(connection, rows, before + 1, old)
            return before + 1, len(wanted)

        return self._database.write(work)


def _begin(connection: sa.Connection, database: Database) -> int:
    """Keep all others from changing items until the end of the transaction; returns the newest revision."""
    if database.is_postgres:
        connection.execute(sa.select(sa.func.pg_advisory_xact_lock(ITEMS_LOCK)))
    newest = [
        connection.execute(sa.select(sa.func.coalesce(sa.func.max(table.c.revision), 0))).scalar_one()
        for table in (items, item_events)
    ]
    return int(max(newest))


def _read(connection: sa.Connection, item_ids: Sequence[str]) -> dict[str, StoredItem]:
    found: dict[str, StoredItem] = {}
    for start in range(0, len(item_ids), 500):
        query = sa.select(items).where(items.c.item_id.in_(item_ids[start : start + 500]))
        found |= {row.item_id: _stored(row) for row in connection.execute(query)}
    return found


def _write(
    connection: sa.Connection,
    rows: Mapping[str, tuple[Mapping[str, Any], bool]],
    revision: int,
    old: Mapping[str, StoredItem],
) -> None:
    if not rows:
        return
    now = time.time()
    statement = sa.text(
        "INSERT INTO items (item_id, fields, retired, revision, added, updated) "
        "VALUES (:item_id, :fields, :retired, :revision, :added, :updated) ON CONFLICT (item_id) DO UPDATE SET "
        "fields = excluded.fields, retired = excluded.retired, revision = excluded.revision, updated = excluded.updated"
    )
    connection.execute(
        statement,
        [
            {
                "item_id": name,
                "fields": json.dumps(fields),
                "retired": int(is_retired),
                "revision": revision,
                "added": old[name].added if name in old else now,
                "updated": now,
            }
            for name, (fields, is_retired) in rows.items()
        ],
    )


def _stored(row: Any) -> StoredItem:
    return StoredItem(row.item_id, json.loads(row.fields), bool(row.retired), row.revision, row.added, row.updated)


def _fields(item: Item) -> dict[str, Any]:
    """Return all fields of an item but its id, as JSON has them."""
    return {name: value for name, value in _plain(vars(item)).items() if name != "id"}


def _plain(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {name: _as_json(value) for name, value in fields.items()}


def _as_json(value: Any) -> Any:
    if isinstance(value, tuple):
        return list(value)
    return dict(value) if isinstance(value, Mapping) else value


def _digest(described: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(described, sort_keys=True).encode()).hexdigest()


def _refuse_unknown(item_ids: Collection[str], stored: Mapping[str, StoredItem], is_known: IsKnown) -> None:
    unknown = [name for name in item_ids if name not in stored and not is_known(name)]
    if unknown:
        others = f" and {len(unknown) - 1} others" if len(unknown) > 1 else ""
        raise UnknownItemError(f"item {unknown[0][:80]!r}{others} is neither in the store nor in the model")
