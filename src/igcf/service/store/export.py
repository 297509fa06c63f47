"""The store as a log to train on: in memory, or as files that workers read."""

import shutil
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import sqlalchemy as sa

from igcf.attributes import Attributes
from igcf.errors import StoreError
from igcf.item import Item
from igcf.service.store.answers import shown_items
from igcf.service.store.audit_files import AuditFolder
from igcf.service.store.database import Database
from igcf.service.store.items import ItemStore
from igcf.service.store.maintenance import open_existing
from igcf.service.store.snapshots import rows_of, snapshot
from igcf.service.store.spread import AnyStore
from igcf.service.store.tables import feedback

if TYPE_CHECKING:
    from igcf.data import Interactions

LOG, ITEMS, SENTENCE = "store", "items.parquet", "sentence.txt"
"""Names in a folder of reactions."""
ROWS_PER_FILE = 200_000
REACTION = {"user": "VARCHAR", "item": "VARCHAR", "value": "DOUBLE", "timestamp": "BIGINT"}
"""Columns of the files of reactions and their types."""

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
        return _sentence(Counter(self.evidence), len(self.described), self.unanswered)

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
    with _opened(places) as (store, folders):
        rows: list[Any] = []
        for part in store.parts:
            rows += part.database.read(
                lambda connection: connection.execute(_in_force().order_by(feedback.c.time)).all()
            )
        if len(store.parts) > 1:
            rows.sort(key=lambda row: row[3])
        described, unanswered = _described(store), _unanswered(store, folders)
        name = ", ".join(part.database.name for part in store.parts)
    users, items, values, times, kinds = zip(*rows, strict=True) if rows else ((), (), (), (), ())
    evidence = tuple(_evidence(kind, value) for kind, value in zip(kinds, values, strict=True))
    return StoreLog(users, items, values, times, evidence, name, described, unanswered)


def interactions_from_store(*places: str) -> "Interactions":
    """Read the reactions in force as a log to learn from; items that were only shown have no value and are left out."""
    return read_store(*places).interactions()


class StoreFiles(NamedTuple):
    """The reactions of a store in Parquet files."""

    log: Path
    """Folder of the files, with the columns user, item, value and timestamp."""
    items: Path | None
    """File of the items that the store describes; None where it describes none that drew a reaction."""
    sentence: str


def write_reactions(folder: Path, *places: str, described: Sequence[Item] = ()) -> StoreFiles:
    """Write the reactions in force of a store as Parquet files, some at a time: no process needs all of them.

    Args:
        folder: where to; it must not exist.
        places: the databases of the store, and the folder of its audit where there is one.
        described: items that the caller knows more about than the store.
    """
    from igcf.tabular.parquet import write_parquet

    part_folder = folder.with_name(f".{folder.name}.part")
    shutil.rmtree(part_folder, ignore_errors=True)
    (part_folder / LOG).mkdir(parents=True)
    n: Counter[str] = Counter()
    seen: set[str] = set()
    with _opened(places) as (store, folders):
        for number, part in enumerate(store.parts):
            for piece, (evidence, learned) in enumerate(_pieces(part.database)):
                n += evidence
                seen.update(item for _, item, _, _ in learned)
                if learned:
                    typed = zip(REACTION.items(), zip(*learned, strict=True), strict=True)
                    columns = {name: (kind, entries) for (name, kind), entries in typed}
                    write_parquet(part_folder / LOG / f"{number:03d}-{piece:06d}.parquet", columns)
        of_store, unanswered = _described(store), _unanswered(store, folders)
        name = ", ".join(part.database.name for part in store.parts)
    if not seen:
        raise StoreError(f"the store {name} has no reactions to learn from")
    items = of_store | {item.id: item for item in described}
    known = [item for item in items.values() if item.id in seen]
    if known:
        write_parquet(part_folder / ITEMS, _item_columns(known))
    (part_folder / SENTENCE).write_text(_sentence(n, len(of_store), unanswered), encoding="utf-8")
    part_folder.rename(folder)
    return written_reactions(folder)


def _pieces(database: Database) -> Iterator[tuple[Counter[str], list[tuple[str, str, float, int]]]]:
    """Read the reactions in force of one database user by user, some at a time, and count what they are."""
    query = _in_force().order_by(feedback.c.user_id, feedback.c.time, feedback.c.revision)
    with snapshot(database) as connection:
        rows = rows_of(connection, query)
        while some := list(islice(rows, ROWS_PER_FILE)):
            learned = [(user, item, value, int(when)) for user, item, value, when, _ in some if value is not None]
            evidence = Counter(str(_evidence(kind, value)) for _, _, value, _, kind in some)
            yield evidence, learned


def written_reactions(folder: Path) -> StoreFiles:
    """Find again what `write_reactions` has written."""
    items = folder / ITEMS
    return StoreFiles(folder / LOG, items if items.exists() else None, (folder / SENTENCE).read_text(encoding="utf-8"))


def _item_columns(items: Sequence[Item]) -> dict[str, tuple[str, Any]]:
    """Return the columns of the table of items that `igcf.data.items.read_items` reads, and their types."""
    names = sorted({name for item in items for name in item.numbers})
    return {
        "id": ("VARCHAR", [item.id for item in items]),
        "title": ("VARCHAR", [item.title or item.id for item in items]),
        "categories": ("VARCHAR[]", [item.categories for item in items]),
        "tags": ("VARCHAR[]", [item.tags for item in items]),
        "text": ("VARCHAR", [item.text for item in items]),
    } | {name: ("DOUBLE", [item.numbers.get(name) for item in items]) for name in names}


@contextmanager
def _opened(places: Sequence[str]) -> Iterator[tuple[AnyStore, list[AuditFolder]]]:
    folders = [AuditFolder.existing(place) for place in places if Path(place).is_dir()]
    store = open_existing([place for place in places if not Path(place).is_dir()])
    try:
        yield store, folders
    finally:
        store.close()


def _in_force() -> "sa.Select[Any]":
    """Select the reactions in force: user, item, value, time and evidence."""
    log = feedback.c
    taken_back = feedback.alias("taken_back")
    is_retracted = sa.exists().where(taken_back.c.user_id == log.user_id, taken_back.c.retracts == log.event_id)
    return sa.select(log.user_id, log.item_id, log.value, log.time, log.evidence).where(
        log.retracts.is_(None), log.evidence != "skip", ~is_retracted
    )


def _evidence(kind: str, value: float | None) -> Evidence:
    return "logged" if kind == "logged" else "ignored" if value is None else "reacted"


def _described(store: AnyStore) -> dict[str, Item]:
    return {item.item_id: _lasting(item.described()) for item in ItemStore(store.common.database).changes()}


def _unanswered(store: AnyStore, folders: Sequence[AuditFolder]) -> int:
    shown = (item for folder in folders for items in shown_items(store, folder) for item in items)
    return sum(not item["has_reacted"] for item in shown)


def _sentence(n: Mapping[str, int], n_described: int, unanswered: int) -> str:
    audit = f"; {unanswered:,} items of the audit drew no reaction" if unanswered else ""
    return (
        f"store: {n.get('logged', 0):,} logged reactions and {n.get('reacted', 0):,} reactions to shown items are "
        f"learned from; {n.get('ignored', 0):,} shown without a reaction are not; {n_described:,} items are described"
        f"{audit}"
    )


def _lasting(item: Item) -> Item:
    """Leave out what may change from hour to hour: the store lays it over any model."""
    return replace(item, hidden=False, available_from=None, available_until=None, image=None)
