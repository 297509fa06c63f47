"""`igcf store`: back up, restore, verify and export a store."""

from contextlib import closing
from functools import partial
from pathlib import Path

import click

from igcf.cli.options import NEW, PATH
from igcf.cli.output import Answer, answers
from igcf.cli.service_options import in_store, of_store
from igcf.progress import show_progress
from igcf.service.store.export import export_audit
from igcf.service.store.maintenance import backup_store, check_store, restore_store
from igcf.service.store.store import Store
from igcf.service.store.transfer import export_store, import_store

shows_progress = partial(show_progress, every=2.0)
"""A command that takes longer says how far it is."""


@click.group()
def store() -> None:
    """Back up, restore, check and move the store of a service.

    \b
    Examples:
      igcf store backup copy.db --store igcf.db
      igcf store restore copy.db --store new.db
      igcf store check --store postgresql://igcf@db/igcf
      igcf store export folder/ --store igcf.db
      igcf store import folder/ --store postgresql://igcf@db/igcf
      igcf store audit --store igcf.db --out audit.parquet
    """


@store.command()
@of_store
@click.argument("out", type=NEW)
@answers
def backup(url: str, out: Path) -> Answer:
    """Copy a SQLite store to OUT; servers may keep running."""
    with shows_progress() as report:
        backup_store(url, out, report)
    return Answer({"out": str(out)}, note=f"Copied the store to {out}")


@store.command()
@of_store
@click.argument("copy", type=PATH)
@answers
def restore(url: str, copy: Path) -> Answer:
    """Create a new SQLite store from COPY; an existing one is never overwritten."""
    with shows_progress() as report:
        restore_store(copy, url, report)
    return Answer({"from": str(copy)}, note=f"Restored the store from {copy}")


@store.command()
@of_store
@answers
def check(url: str) -> Answer:
    """Check a store for inconsistencies; exit code 1 if there are any.

    It looks at the file, the numbering of every user's log, event ids, what was taken back, the revisions of users, and
    the audit.
    """
    with shows_progress() as report:
        found = check_store(url, report)
    verdict = f"{len(found):,} rows are wrong; restore a backup" if found else "The store is sound"
    return Answer({"problems": [vars(each) for each in found]}, map(str, found), verdict, exit_code=1 if found else 0)


@store.command("export")
@in_store
@click.argument("out", type=NEW)
@answers
def export_command(store: Store, out: Path) -> Answer:
    """Write everything in a store to the new folder OUT as Parquet files; servers may keep running."""
    with shows_progress() as report:
        return _rows(export_store(store, out, report), "Exported {:,} rows to", out)


@store.command("import")
@of_store
@click.argument("folder", type=PATH)
@answers
def import_command(url: str, folder: Path) -> Answer:
    """Fill an empty store of either kind with an export of `igcf store export`: all of it or nothing.

    (`igcf import` is for logs.)
    """
    with closing(Store(url)) as opened, shows_progress() as report:
        return _rows(import_store(opened, folder, report), "Imported {:,} rows from", folder)


@store.command("audit")
@in_store
@click.option("--out", required=True, type=NEW, help="Parquet file to write; it must not exist.")
@answers
def audit_command(store: Store, out: Path) -> Answer:
    """Write every item shown, with the reaction to it, to a Parquet file.

    Reactions count where they name the answer (recommendation_id). `igcf ope` estimates from the audit what another
    model or policy would have achieved.
    """
    return _rows(export_audit(store, out), "Wrote {:,} rows to", out)


def _rows(number: int, sentence: str, place: Path) -> Answer:
    return Answer({"path": str(place), "rows": number}, note=f"{sentence.format(number)} {place}")
