"""What users, reactions and answers cost PostgreSQL and the network: `python -m tools.store_sizes --store URL`."""

import os
import tempfile
import uuid
from dataclasses import dataclass
from pathlib import Path

import click
import sqlalchemy as sa

from igcf.errors import ConfigError
from igcf.service.context import ServiceContext
from igcf.service.models.requests import Feedback, RecommendationRequest
from igcf.service.serving.reacting import react
from igcf.service.serving.recommending import recommend
from igcf.service.settings import ServiceSettings
from igcf.service.store.database import Database
from tools.load import random_model

TABLES = ("feedback", "users", "beliefs", "recommendations")


@dataclass(frozen=True)
class Cost:
    """Cost of one reaction or answer."""

    log_bytes: float
    """Bytes written to the write-ahead log."""
    cpu_ms: float | None
    """Processor time of PostgreSQL; None where it runs elsewhere."""


def fill(context: ServiceContext, users: int, reactions: int, answers: int) -> tuple[Cost, Cost, int]:
    """Let users react and their beliefs follow, then ask; the costs of both, and the bytes of an answer."""
    model, database = context.current_model.served.model, context.store.database
    begun = _used(database)
    for n in range(reactions):  # users in turn, as in life: no two reactions of one user in a row
        for user in range(users):
            item = model.item_ids[(user * 31 + n * 7) % model.n_items]
            reaction = Feedback(item=item, value=4.0, event_id=uuid.uuid4().hex, recommendation_id=uuid.uuid4().hex)
            react(context, f"{user:032x}", reaction)
        for user in range(users):  # somebody asks, so that it is learned and saved, as a server does twice a second
            with context.users.open(context.current_model.served, f"{user:032x}"):
                pass
        context.users.save()
    between = _used(database)
    size = 0
    for n in range(answers):
        size += len(
            recommend(context, f"{n % users:032x}", RecommendationRequest(k=5)).model_dump_json(exclude_unset=True)
        )
    context.audit.flush()
    ended = _used(database)
    return _cost(begun, between, users * reactions), _cost(between, ended, answers), size // answers


def table_sizes(database: Database, table: str) -> tuple[int, float, float]:
    """Rows, and bytes per row now and after VACUUM FULL, with indexes."""

    def look(connection: sa.Connection) -> tuple[int, int]:
        rows = connection.exec_driver_sql(f"SELECT COUNT(*) FROM {table}").scalar_one()
        size = connection.exec_driver_sql(f"SELECT pg_total_relation_size('{table}')").scalar_one()
        return int(rows), int(size)

    rows, before = database.read(look)
    with database.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.exec_driver_sql(f"VACUUM FULL {table}")
    _, after = database.read(look)
    return rows, before / max(1, rows), after / max(1, rows)


def _used(database: Database) -> tuple[int, float | None]:
    """The end of the write-ahead log, and the processor time of all of PostgreSQL's processes."""
    queries = "SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')", "SHOW data_directory"
    position, folder = (
        database.read(lambda connection, each=each: connection.exec_driver_sql(each).scalar_one())  # type: ignore[misc]
        for each in queries
    )
    try:
        parent = int((Path(folder) / "postmaster.pid").read_text().split()[0])
        children = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
        mine, ended = _ticks(parent)
        ticks = mine + ended + sum(_ticks(int(child))[0] for child in children)
    except OSError:
        return int(position), None
    return int(position), ticks / os.sysconf("SC_CLK_TCK")


def _ticks(pid: int) -> tuple[int, int]:
    """Of a process, and of its children that have ended."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return int(fields[11]) + int(fields[12]), int(fields[13]) + int(fields[14])


def _cost(before: tuple[int, float | None], after: tuple[int, float | None], n: int) -> Cost:
    cpu = None if before[1] is None or after[1] is None else 1e3 * (after[1] - before[1]) / n
    return Cost((after[0] - before[0]) / n, cpu)


@click.command()
@click.option("--store", required=True, help="postgresql://... of an empty database; it is filled.")
@click.option("--model", type=click.Path(path_type=Path), help="Default: a random one of 3,706 items and d = 64.")
@click.option("--audit", help="Folder that the answers are written to instead of the database.")
@click.option("--users", default=1000, show_default=True)
@click.option("--reactions", default=64, show_default=True, help="Of each user; beliefs are saved after every 32.")
@click.option("--answers", default=5000, show_default=True, help="In all, of five items.")
def main(store: str, model: Path | None, audit: str | None, users: int, reactions: int, answers: int) -> None:
    """Measure a PostgreSQL store."""
    if not store.startswith("postgresql"):
        raise ConfigError(f"sizes are asked of PostgreSQL, the store is {store}")
    with tempfile.TemporaryDirectory(prefix="igcf-sizes-") as temporary:
        folder = Path(temporary) / "model" if model is None else model
        if model is None:
            random_model().save(folder)
        context = ServiceContext.open(folder, ServiceSettings(store=store, audit=audit))
        try:
            reaction, answer, answer_bytes = fill(context, users, reactions, answers)
            click.echo("| table | rows | bytes per row | after VACUUM FULL |\n|---|--:|--:|--:|")
            for table in TABLES:
                rows, before, after = table_sizes(context.store.database, table)
                click.echo(f"| {table} | {rows:,} | {before:,.0f} | {after:,.0f} |")
            click.echo("\n| one | write-ahead log, bytes | PostgreSQL, CPU ms |\n|---|--:|--:|")
            for name, cost in (("reaction", reaction), ("answer", answer)):
                cpu = "" if cost.cpu_ms is None else f"{cost.cpu_ms:.2f}"
                click.echo(f"| {name} | {cost.log_bytes:,.0f} | {cpu} |")
            click.echo(f"\nan answer of five items: {answer_bytes:,} bytes of JSON")
        finally:
            context.close()


if __name__ == "__main__":
    main()
