"""`igcf store`: back up, restore, verify and export a store."""

from contextlib import closing
from pathlib import Path

import click

from igcf.cli.options import AS_JSON, PATH
from igcf.cli.output import echo, emit_json, note
from igcf.cli.service_options import in_store, of_store
from igcf.progress import show_progress
from igcf.service.store.export import export_audit
from igcf.service.store.maintenance import backup_store, check_store, restore_store
from igcf.service.store.store import Store
from igcf.service.store.transfer import export_store, import_store

PROGRESS_S = 2.0
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
@click.argument("out", type=PATH)
def backup(url: str, out: Path) -> None:
    """Copy a SQLite store to OUT; servers may keep running."""
    with show_progress(every=PROGRESS_S) as report:
        backup_store(url, out, report)
    note(f"Copied the store to {out}")


@store.command()
@of_store
@click.argument("copy", type=PATH)
def restore(url: str, copy: Path) -> None:
    """Create a new SQLite store from COPY; an existing one is never overwritten."""
    with show_progress(every=PROGRESS_S) as report:
        restore_store(copy, url, report)
    note(f"Restored the store from {copy}")


@store.command()
@of_store
@AS_JSON
def check(url: str, as_json: bool) -> None:
    """Check a store for inconsistencies; exit code 1 if there are any.

    It looks at the file, the numbering of every user's log, event ids, what was taken back, the revisions of users, and
    the audit.
    """
    with show_progress(every=PROGRESS_S) as report:
        found = check_store(url, report)
    if as_json:
        emit_json({"problems": [vars(each) for each in found]})
    else:
        for each in found:
            echo(str(each))
    if found:
        note(f"{len(found):,} rows are wrong; restore a backup")
        raise SystemExit(1)
    note("The store is sound")


@store.command("export")
@in_store
@click.argument("out", type=PATH)
def export_command(store: Store, out: Path) -> None:
    """Write everything in a store to the new folder OUT as Parquet files; servers may keep running."""
    with show_progress(every=PROGRESS_S) as report:
        note(f"Exported {export_store(store, out, report):,} rows to {out}")


@store.command("import")
@of_store
@click.argument("folder", type=PATH)
def import_command(url: str, folder: Path) -> None:
    """Fill an empty store of either kind with an export of `igcf store export`: all of it or nothing.

    (`igcf import` is for logs.)
    """
    with closing(Store(url)) as opened, show_progress(every=PROGRESS_S) as report:
        note(f"Imported {import_store(opened, folder, report):,} rows from {folder}")


@store.command("audit")
@in_store
@click.option("--out", required=True, type=PATH, help="Parquet file to write; it must not exist.")
def audit_command(store: Store, out: Path) -> None:
    """Write every item shown, with the reaction to it, to a Parquet file.

    Reactions count where they name the answer (recommendation_id). `igcf ope` estimates from the audit what another
    model or policy would have achieved.
    """
    note(f"Wrote {export_audit(store, out):,} rows to {out}")
