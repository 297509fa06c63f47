"""Bulk transfer: logs of reactions, each stored once; a whole store as a folder of Parquet files, and back."""

import hashlib
import json
import shutil
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import sqlalchemy as sa

from igcf.errors import StoreError
from igcf.progress import Report, silent
from igcf.service.store.export import frame_schema, frames_of, stored_attributes
from igcf.service.store.log import append, insert_rows
from igcf.service.store.maintenance import make_durable
from igcf.service.store.records import NewEvent
from igcf.service.store.store import Store
from igcf.service.store.tables import SCHEMA, deletions, metadata

if TYPE_CHECKING:
    from igcf.data import Interactions

BATCH = 10_000
"""Reactions in one transaction, give or take the last user's."""
PART_ROWS = 100_000
"""Rows in one file."""
MANIFEST = "manifest.json"
FORMAT = "igcf-store-1"
TABLES = [table for table in metadata.sorted_tables if table is not deletions]
"""Tables that are exported; hashes of users who were deleted within the last minute are not."""
Row: TypeAlias = tuple[Any, ...]


def logged_event_id(user_id: str, item_id: str, value: float | None, when: float | None) -> str:
    """Make an event id out of what a logged reaction says, so that a repeated import counts once."""
    number = "" if value is None else f"{value:.6g}"  # six digits: a log keeps values as float32
    said = "\x1f".join((user_id, item_id, number, "" if when is None else f"{when:.3f}"))
    return f"log-{hashlib.blake2b(said.encode(), digest_size=16).hexdigest()}"


@dataclass(frozen=True)
class Imported:
    """What an import did: how many reactions the log has, and how many of them were not in the store before."""

    users: int
    reactions: int
    stored: int


def import_interactions(
    store: Store, data: "Interactions", model: str, report: Callable[[int], None] = lambda _: None
) -> Imported:
    """Store a whole log as logged reactions, in durable batches; killed and repeated, it stores every reaction once.

    The attributes of its table of users, where it has one, become those of the users. `model` is the id of that in
    service, kept beside each reaction; `report` hears after each batch how many reactions are done.
    """
    stored = done = 0
    logs = _user_logs(data, {} if data.users is None else stored_attributes(store))
    while batch := _next_batch(logs):
        appended = store.database.write(lambda connection, batch=batch: append(connection, batch, model))  # type: ignore[misc]
        stored += sum(event.evidence == "logged" for each in appended.values() for event in each.fresh)
        done += sum(event.evidence == "logged" for events in batch.values() for event in events)
        report(done)
    return Imported(data.n_users, len(data), stored)


def _next_batch(logs: Iterator[tuple[str, list[NewEvent]]]) -> dict[str, list[NewEvent]]:
    batch: dict[str, list[NewEvent]] = {}
    size = 0
    for user_id, events in logs:
        batch[user_id] = events
        size += len(events)
        if size >= BATCH:
            break
    return batch


def _attributes(data: "Interactions", user_id: str, stored: Mapping[str, Any]) -> list[NewEvent]:
    """Return what the table of users says of one, where the store says otherwise."""
    given = {} if data.users is None else data.users.given(user_id)
    known = {name: v[0] if isinstance(v, list) and len(v) == 1 else v for name, v in given.items()}
    details = json.dumps(known, sort_keys=True, default=str)
    if not known or json.loads(details) == stored.get(user_id):
        return []
    return [NewEvent(uuid.uuid4().hex, None, None, evidence="attributes", details=details)]


def _user_logs(data: "Interactions", stored: Mapping[str, Any]) -> Iterator[tuple[str, list[NewEvent]]]:
    order = np.argsort(data.user_idx, kind="stable")
    ends = np.cumsum(np.bincount(data.user_idx, minlength=data.n_users)).tolist()
    items, item_rows = data.item_ids, data.item_idx[order].tolist()
    # Shortest decimal text of a float32, read again: 3.7 is stored as 3.7.
    distinct, which = np.unique(data.values[order], return_inverse=True)
    numbers, places = [float(str(value)) for value in distinct], which.tolist()
    times = _seconds(data, order)
    start = 0
    for user_id, end in zip(data.user_ids, ends, strict=True):
        events = _attributes(data, user_id, stored)
        for n in range(start, end):
            item_id, value, when = items[item_rows[n]], numbers[places[n]], times[n]
            event_id = logged_event_id(user_id, item_id, value, when)
            events.append(NewEvent(event_id, item_id, value, evidence="logged", time=when))
        start = end
        if events:
            yield user_id, events


def _seconds(data: "Interactions", order: "np.ndarray[tuple[int], np.dtype[np.int64]]") -> list[float | None]:
    """Return the times in seconds, in the order `order`; None where a time is unknown."""
    from igcf.data.interactions import MISSING_TIME

    if data.timestamps is None:
        return [None] * len(order)
    times = data.timestamps[order]
    unit = time_unit(int(np.abs(times[times != MISSING_TIME]).max(initial=0)))
    return [None if time == MISSING_TIME else time / unit for time in times.tolist()]


def time_unit(largest: int) -> float:
    """Return how many units of a log's times a second has; numbers too large for seconds are milli- or microseconds."""
    return 1e6 if largest > 1e14 else 1e3 if largest > 1e11 else 1.0


def export_store(store: Store, out: Path, report: Report = silent) -> int:
    """Write all tables as they are at one moment to the new folder `out`, whole or not at all; return the rows."""
    if out.exists():
        raise StoreError(f"{out} exists; an export is never overwritten, choose another name")
    part = out.with_name(f".{out.name}.part")
    shutil.rmtree(part, ignore_errors=True)  # left over from a crash
    try:
        with store.database.snapshot() as connection:
            rows = {table.name: _write_table(connection, table, part, report) for table in TABLES}
        files = {str(path.relative_to(part)): _digest(path) for path in sorted(part.rglob("*.parquet"))}
        manifest = {"format": FORMAT, "schema": SCHEMA, "rows": rows, "files": files}
        (part / MANIFEST).write_text(json.dumps(manifest, indent=2) + "\n", encoding="utf-8")
        for path in (*part.rglob("*"), part):
            make_durable(path)
        part.rename(out)
        make_durable(out.parent)
    except OSError as error:
        raise StoreError(f"cannot export to {out}: {error}") from error
    finally:
        shutil.rmtree(part, ignore_errors=True)
    return sum(rows.values())


def import_store(store: Store, folder: Path, report: Report = silent) -> int:
    """Fill an empty store from an export, all of it in one transaction or nothing; return the rows."""
    manifest = _read_manifest(folder)
    for name, digest in manifest["files"].items():
        if _digest(folder / name) != digest:
            raise StoreError(f"{folder / name} is damaged: it is not the file that was exported; nothing was imported")

    def work(connection: sa.Connection) -> int:
        if connection.dialect.name == "postgresql":  # keep other writers out, as SQLite does by itself
            names = ", ".join(table.name for table in TABLES)
            connection.exec_driver_sql(f"LOCK TABLE {names} IN EXCLUSIVE MODE")
        if any(connection.execute(sa.select(table).limit(1)).first() is not None for table in TABLES):
            raise StoreError(f"the store {store.database.name} is not empty; an export is imported into an empty one")
        done = 0
        for name in manifest["files"]:
            table = metadata.tables[Path(name).parent.name]
            rows = _read_rows(folder / name, table)
            insert_rows(connection, table, rows)
            done += len(rows)
            report("rows", done, sum(manifest["rows"].values()))
        return done

    return store.database.write(work)


def _digest(path: Path) -> str:
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError as error:
        raise StoreError(f"{path} cannot be read: {error.strerror}") from error


def _write_table(connection: sa.Connection, table: sa.Table, part: Path, report: Report) -> int:
    folder, n = part / table.name, 0
    folder.mkdir(parents=True)
    query = sa.select(table).order_by(*table.primary_key.columns)
    for number, frame in enumerate(frames_of(connection, query, frame_schema(table), PART_ROWS)):
        frame.write_parquet(folder / f"{number:05d}.parquet")
        n += len(frame)
        report(f"rows of {table.name}", n, None)
    return n


def _read_rows(path: Path, table: sa.Table) -> list[Row]:
    import polars as pl

    try:
        frame = pl.read_parquet(path)
    except (OSError, pl.exceptions.PolarsError) as error:
        raise StoreError(f"{path} cannot be read: {str(error).splitlines()[0]}") from error
    if dict(frame.schema) != frame_schema(table):
        raise StoreError(f"{path} has other columns than the table {table.name}")
    return frame.rows()


def _read_manifest(folder: Path) -> dict[str, Any]:
    try:
        manifest = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
        is_ours = manifest["format"] == FORMAT and isinstance(manifest["schema"], int)
        is_ours = is_ours and {Path(name).parent.name for name in manifest["files"]} <= metadata.tables.keys()
        is_ours = is_ours and all(isinstance(each, int) for each in manifest["rows"].values())
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
        is_ours = False
    if not is_ours:
        raise StoreError(f"{folder} is not an exported store; `igcf store export {folder}` writes one")
    if manifest["schema"] != SCHEMA:
        raise StoreError(
            f"{folder} was exported with schema {manifest['schema']}, this igcf has {SCHEMA}; import it with "
            "the igcf that wrote it, which a newer one then migrates"
        )
    return dict(manifest)
