"""A whole store as a folder of Parquet files, and back: the way from SQLite to PostgreSQL, or the other way round."""

import hashlib
import json
import shutil
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias

import sqlalchemy as sa

from igcf.errors import StoreError
from igcf.progress import Report, silent
from igcf.service.store.database import RefusedError
from igcf.service.store.durable import make_durable
from igcf.service.store.migrations import MIGRATIONS
from igcf.service.store.placement import State, write_record
from igcf.service.store.snapshots import rows_of, snapshot, snapshots
from igcf.service.store.spread import AnyStore, Spread
from igcf.service.store.store import Store
from igcf.service.store.tables import forgotten, merges, metadata, placement, shown

PART_ROWS = 100_000
"""Rows in one file."""
MANIFEST = "manifest.json"
FORMAT = "igcf-store-1"
TABLES = [table for table in metadata.sorted_tables if table not in (forgotten, placement)]
"""Tables that are exported; hashes of users who were deleted within the last minute are not, nor where a store is."""
SPREAD_TABLES = [table for table in TABLES if "user_id" in table.columns or table in (merges, shown)]
"""Tables that every one of several databases has rows of; the others are in the common one."""
Row: TypeAlias = tuple[Any, ...]
Content: TypeAlias = dict[str, dict[str, Any]]
"""For each table the number of its rows and a digest of them in any order."""


class Digest:
    """A sum over rows that does not depend on their order, nor on the database that they are in."""

    def __init__(self) -> None:
        self.rows = 0
        self._sum = 0

    def add(self, row: Row) -> None:
        """Count one row."""
        text = json.dumps([each.hex() if isinstance(each, bytes) else each for each in row], ensure_ascii=False)
        self._sum += int.from_bytes(hashlib.blake2b(text.encode(), digest_size=16).digest(), "little")
        self.rows += 1

    @property
    def content(self) -> dict[str, Any]:
        """Number of rows and digest."""
        return {"rows": self.rows, "digest": f"{self._sum % 2**128:032x}"}


def export_store(store: AnyStore, out: Path, report: Report = silent) -> Content:
    """Write all tables as they are at one moment, of all databases, to the new folder `out`, whole or not at all."""
    if out.exists():
        raise StoreError(f"{out} exists; an export is never overwritten, choose another name")
    part = out.with_name(f".{out.name}.part")
    shutil.rmtree(part, ignore_errors=True)  # left over from a crash
    try:
        with snapshots([each.database for each in store.parts]) as opened:
            connections = dict(zip(store.parts, opened, strict=True))
            found = {}
            for table in TABLES:
                sources = connections.values() if table in SPREAD_TABLES else [connections[store.common]]
                found[table.name] = _write_table(list(sources), table, part, report)
        manifest = {"format": FORMAT, "schema": len(MIGRATIONS), "tables": found}
        (part / MANIFEST).write_text(json.dumps(manifest, indent=2) + "\n", encoding="utf-8")
        for path in (*part.rglob("*"), part):
            make_durable(path)
        part.rename(out)
        make_durable(out.parent)
    except OSError as error:
        raise StoreError(f"cannot export to {out}: {error}") from error
    finally:
        shutil.rmtree(part, ignore_errors=True)
    return found


def import_store(store: AnyStore, folder: Path, report: Report = silent) -> bool:
    """Fill an empty store from an export, all of it in one transaction; returns False where it holds it already.

    Of several databases each is filled in one transaction, after all were found to be empty. They are marked meanwhile,
    so that nobody is served from some of them; what was interrupted is simply repeated.
    """
    manifest = _read_manifest(folder)
    if isinstance(store, Store):
        return _import_part(store, store, folder, report)
    is_new = False
    for part in store.parts:
        with snapshot(part.database) as connection:
            is_new |= not _is_there(connection, store, part, folder, manifest, report)
    if is_new:
        _mark(store, "importing")
        try:
            for part in store.parts:
                _import_part(store, part, folder, report)
        except BaseException:
            with suppress(StoreError):  # where one does not answer, all stay marked
                if all(part.database.write(_is_still_empty) for part in store.parts):  # a damaged export, for instance
                    _mark(store, "steady")
            raise
    _mark(store, "steady")
    return is_new


def _mark(store: Spread, state: State) -> None:
    for part in store.parts:
        write_record(part.database, replace(store.record, state=state))


def _is_there(
    connection: sa.Connection, store: AnyStore, part: Store, folder: Path, manifest: dict[str, Any], report: Report
) -> bool:
    """Whether a database holds what it is to hold of an export; False where it is empty; anything else is refused."""
    if _is_empty(connection):
        return False
    mine = manifest["tables"] if len(store.parts) == 1 else _content_of(store, part, folder)
    if _content(connection, report) == mine:
        return True
    raise StoreError(f"the store {part.database.name} is not empty; an export is imported into an empty one")


def _is_empty(connection: sa.Connection) -> bool:
    return all(connection.execute(sa.select(table).limit(1)).first() is None for table in TABLES)


def _is_still_empty(connection: sa.Connection) -> bool:
    """Whether nothing was imported, also not by a transaction that has lost its client and still goes on."""
    _lock(connection)
    return _is_empty(connection)


def _lock(connection: sa.Connection) -> None:
    """Let nobody else write until the end of the transaction, as SQLite does by itself."""
    if connection.dialect.name == "postgresql":
        names = ", ".join(table.name for table in TABLES)
        connection.exec_driver_sql(f"LOCK TABLE {names} IN EXCLUSIVE MODE")


def _import_part(store: AnyStore, part: Store, folder: Path, report: Report) -> bool:
    manifest, database = _read_manifest(folder), part.database
    is_one = len(store.parts) == 1

    def work(connection: sa.Connection) -> bool:
        _lock(connection)
        if _is_there(connection, store, part, folder, manifest, report):
            return False
        for table in TABLES:
            expected, digest = manifest["tables"].get(table.name, Digest().content), Digest()
            for rows in _read_table(folder, table):
                for row in rows:
                    digest.add(row)
                _insert(connection, table, rows if is_one else _own(store, part, table, rows))
                report(f"rows of {table.name}", digest.rows, expected["rows"])
            if digest.content != expected:
                raise StoreError(f"{folder / table.name} is damaged: its rows are not those that were exported")
        return True

    try:
        return database.write(work)
    except RefusedError as error:
        raise StoreError(f"{folder} is damaged: {error}; nothing was imported") from error


def _content(connection: sa.Connection, report: Report) -> Content:
    found: Content = {}
    for table in TABLES:
        digest = Digest()
        for row in rows_of(connection, sa.select(table)):
            digest.add(tuple(row))
            if digest.rows % PART_ROWS == 0:
                report(f"rows of {table.name} compared", digest.rows, None)
        found[table.name] = digest.content
    return found


def _content_of(store: AnyStore, part: Store, folder: Path) -> Content:
    """Find what an export holds for one of several databases."""
    found: Content = {}
    for table in TABLES:
        digest = Digest()
        for rows in _read_table(folder, table):
            for row in _own(store, part, table, rows):
                digest.add(row)
        found[table.name] = digest.content
    return found


def _own(store: AnyStore, part: Store, table: sa.Table, rows: list[Row]) -> list[Row]:
    """Select the rows that belong into one of several databases."""
    if "user_id" in table.columns:
        place = list(table.columns.keys()).index("user_id")
        return [row for row in rows if store.place(row[place]) is part]
    if table is merges:
        return [row for row in rows if store.place_of_hash(row[0]) is part]
    return rows if part is store.common else []


def _write_table(connections: list[sa.Connection], table: sa.Table, part: Path, report: Report) -> dict[str, Any]:
    from igcf.tabular.parquet import write_parquet

    folder = part / table.name
    folder.mkdir(parents=True)
    count, query = sa.select(sa.func.count()).select_from(table), sa.select(table).order_by(*table.primary_key.columns)
    total = sum(connection.execute(count).scalar_one() for connection in connections)
    digest = Digest()
    found: Iterable[Any] = (row for connection in connections for row in rows_of(connection, query))
    if table is shown and len(connections) > 1:
        found = _summed(found)
    for number, rows in enumerate(_batches(found)):
        for row in rows:
            digest.add(row)
        typed = zip(_types(table).items(), zip(*rows, strict=True), strict=True)
        columns = {name: (kind, entries) for (name, kind), entries in typed}
        write_parquet(folder / f"{number:05d}.parquet", columns)
        report(f"rows of {table.name}", digest.rows, total)
    return digest.content


def _summed(rows: Iterable[Any]) -> list[Row]:
    """Add up how often items were shown to users of several databases."""
    times, explored = Counter[str](), Counter[str]()
    for item_id, n, n_explored in rows:
        times[item_id] += n
        explored[item_id] += n_explored
    return [(item_id, times[item_id], explored[item_id]) for item_id in sorted(times)]


def _batches(rows: Iterable[Any]) -> Iterator[list[Row]]:
    batch: list[Row] = []
    for row in rows:
        batch.append(tuple(row))
        if len(batch) == PART_ROWS:
            yield batch
            batch = []
    if batch:
        yield batch


def _types(table: sa.Table) -> dict[str, str]:
    kinds: list[tuple[type[sa.types.TypeEngine[Any]], str]] = [
        (sa.Integer, "BIGINT"), (sa.Double, "DOUBLE"), (sa.LargeBinary, "BLOB"), (sa.Text, "VARCHAR"),
    ]  # fmt: skip
    return {
        column.name: next(kind for each, kind in kinds if isinstance(column.type, each)) for column in table.columns
    }


def _read_table(folder: Path, table: sa.Table) -> Iterator[list[Row]]:
    from igcf.tabular.engine import TableFileError
    from igcf.tabular.parquet import ParquetFile

    for path in sorted((folder / table.name).glob("*.parquet")):
        try:
            file = ParquetFile(path)
            if file.types != _types(table):
                raise StoreError(f"{path} has other columns than the table {table.name}")
            yield file.rows()
        except (OSError, TableFileError) as error:
            raise StoreError(f"{path} cannot be read: {error}") from error


def _insert(connection: sa.Connection, table: sa.Table, rows: list[Row]) -> None:
    if not rows:
        return
    columns = ", ".join(column.name for column in table.columns)
    if connection.dialect.name == "postgresql":
        with connection.connection.cursor() as cursor, cursor.copy(f"COPY {table.name} ({columns}) FROM STDIN") as copy:  # type: ignore[attr-defined]
            for row in rows:
                copy.write_row(row)
        return
    places = ", ".join("?" for _ in table.columns)
    connection.exec_driver_sql(f"INSERT INTO {table.name} ({columns}) VALUES ({places})", rows)  # noqa: S608


def _read_manifest(folder: Path) -> dict[str, Any]:
    try:
        manifest = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
        tables = manifest["tables"]
        is_ours = manifest["format"] == FORMAT and isinstance(manifest["schema"], int) and isinstance(tables, dict)
        is_ours = is_ours and all(isinstance(each["rows"], int) and each["digest"] for each in tables.values())
    except (OSError, ValueError, TypeError, KeyError, RecursionError):
        is_ours = False
    if not is_ours:
        raise StoreError(f"{folder} is no export of a store; `igcf store export {folder}` writes one")
    if manifest["schema"] != len(MIGRATIONS):
        raise StoreError(
            f"{folder} was exported with schema {manifest['schema']}, this igcf has {len(MIGRATIONS)}; import it with "
            "the igcf that wrote it, which a newer one then migrates"
        )
    return dict(manifest)
