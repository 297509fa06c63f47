"""A whole store as a folder of Parquet files, and back: the way from SQLite to PostgreSQL, or the other way round."""

import hashlib
import json
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import sqlalchemy as sa

from igcf.errors import StoreError
from igcf.progress import Report, silent
from igcf.service.store.database import RefusedError, rows_of
from igcf.service.store.maintenance import make_durable
from igcf.service.store.store import Store
from igcf.service.store.tables import SCHEMA, deletions, metadata

if TYPE_CHECKING:
    import polars as pl

PART_ROWS = 100_000
"""Rows in one file."""
MANIFEST = "manifest.json"
FORMAT = "igcf-store-1"
TABLES = [table for table in metadata.sorted_tables if table is not deletions]
"""Tables that are exported; hashes of users who were deleted within the last minute are not."""
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


def export_store(store: Store, out: Path, report: Report = silent) -> Content:
    """Write all tables as they are at one moment to the new folder `out`, whole or not at all."""
    if out.exists():
        raise StoreError(f"{out} exists; an export is never overwritten, choose another name")
    part = out.with_name(f".{out.name}.part")
    shutil.rmtree(part, ignore_errors=True)  # left over from a crash
    try:
        with store.database.snapshot() as connection:
            found = {table.name: _write_table(connection, table, part, report) for table in TABLES}
        manifest = {"format": FORMAT, "schema": SCHEMA, "tables": found}
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


def import_store(store: Store, folder: Path, report: Report = silent) -> bool:
    """Fill an empty store from an export, all of it in one transaction; returns False where it holds it already."""
    manifest = _read_manifest(folder)

    def work(connection: sa.Connection) -> bool:
        if connection.dialect.name == "postgresql":  # let nobody else write meanwhile, as SQLite does by itself
            names = ", ".join(table.name for table in TABLES)
            connection.exec_driver_sql(f"LOCK TABLE {names} IN EXCLUSIVE MODE")
        if any(connection.execute(sa.select(table).limit(1)).first() is not None for table in TABLES):
            if _content(connection, report) == manifest["tables"]:
                return False
            raise StoreError(f"the store {store.database.name} is not empty; an export is imported into an empty one")
        for table in TABLES:
            expected, digest = manifest["tables"].get(table.name, Digest().content), Digest()
            for rows in _read_table(folder, table):
                for row in rows:
                    digest.add(row)
                _insert(connection, table, rows)
                report(f"rows of {table.name}", digest.rows, expected["rows"])
            if digest.content != expected:
                raise StoreError(f"{folder / table.name} is damaged: its rows are not those that were exported")
        return True

    try:
        return store.database.write(work)
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


def _write_table(connection: sa.Connection, table: sa.Table, part: Path, report: Report) -> dict[str, Any]:
    import polars as pl

    folder = part / table.name
    folder.mkdir(parents=True)
    count, query = sa.select(sa.func.count()).select_from(table), sa.select(table).order_by(*table.primary_key.columns)
    total = connection.execute(count).scalar_one()
    digest = Digest()
    for number, rows in enumerate(_batches(rows_of(connection, query))):
        for row in rows:
            digest.add(row)
        frame = pl.DataFrame(rows, schema=_schema(table), orient="row")
        frame.write_parquet(folder / f"{number:05d}.parquet")
        report(f"rows of {table.name}", digest.rows, total)
    return digest.content


def _batches(rows: Iterable[Any]) -> Iterator[list[Row]]:
    batch: list[Row] = []
    for row in rows:
        batch.append(tuple(row))
        if len(batch) == PART_ROWS:
            yield batch
            batch = []
    if batch:
        yield batch


def _schema(table: sa.Table) -> "dict[str, type[pl.DataType]]":
    import polars as pl

    kinds: list[tuple[type[sa.types.TypeEngine[Any]], type[pl.DataType]]] = [
        (sa.Integer, pl.Int64), (sa.Double, pl.Float64), (sa.LargeBinary, pl.Binary), (sa.Text, pl.String),
    ]  # fmt: skip
    return {
        column.name: next(kind for each, kind in kinds if isinstance(column.type, each)) for column in table.columns
    }


def _read_table(folder: Path, table: sa.Table) -> Iterator[list[Row]]:
    import polars as pl

    for path in sorted((folder / table.name).glob("*.parquet")):
        try:
            frame = pl.read_parquet(path)
        except (OSError, pl.exceptions.PolarsError) as error:
            raise StoreError(f"{path} cannot be read: {str(error).splitlines()[0]}") from error
        if dict(frame.schema) != _schema(table):
            raise StoreError(f"{path} has other columns than the table {table.name}")
        yield frame.rows()


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
    if manifest["schema"] != SCHEMA:
        raise StoreError(
            f"{folder} was exported with schema {manifest['schema']}, this igcf has {SCHEMA}; import it with "
            "the igcf that wrote it, which a newer one then migrates"
        )
    return dict(manifest)
