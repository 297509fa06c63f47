"""`igcf store`: back up, restore, verify and export a store."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from igcf.cli.options import AS_JSON, PATH
from igcf.cli.output import echo, emit_json, note
from igcf.cli.service_options import CONFIG, STORE, of_store, store_settings
from igcf.errors import ModelError
from igcf.progress import show_progress

if TYPE_CHECKING:
    from igcf.service.serving.served_model import ServedModel
    from igcf.service.settings import ServiceSettings
    from igcf.service.store.store import Store

PROGRESS_S = 2.0
"""A command that takes longer says how far it is."""


@click.group()
def store() -> None:
    """Copy, put back, check and move the store of a service.

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
    """Copy a SQLite store to OUT, also while servers use it."""
    from igcf.service.store.maintenance import backup_store

    with show_progress(every=PROGRESS_S) as report:
        backup_store(url, out, report)
    note(f"Copied the store to {out}")


@store.command()
@of_store
@click.argument("copy", type=PATH)
def restore(url: str, copy: Path) -> None:
    """Make a new SQLite store from COPY; one that exists is never overwritten."""
    from igcf.service.store.maintenance import restore_store

    with show_progress(every=PROGRESS_S) as report:
        restore_store(copy, url, report)
    note(f"Restored the store from {copy}")


@store.command()
@of_store
@click.option("--rebuild", is_flag=True, help="Bring the table of users in line with the log.")
@AS_JSON
def check(url: str, rebuild: bool, as_json: bool) -> None:
    """Check that everything in a store fits together; exit code 1 where something does not.

    It looks at the file, the numbering of every user's log, event ids, what was taken back, the revisions of users, and
    the audit.
    """
    from igcf.service.store.maintenance import open_existing, problems, rebuild_users

    with _opened(open_existing(url)) as opened:
        with show_progress(every=PROGRESS_S) as report, opened.database.snapshot() as connection:
            found = list(problems(connection, report))
        mended = {each.user_id for each in found if each.user_id is not None} if rebuild else set()
        if mended:
            rebuild_users(opened.database, mended)
    left = [each for each in found if each.user_id is None or each.user_id not in mended]
    if as_json:
        rows = [vars(each) | {"rebuilt": each not in left} for each in found]
        emit_json({"problems": rows})
    else:
        for each in found:
            echo(f"{each}{'' if each in left else '; computed again from the log'}")
    if left:
        note(f"{len(left):,} rows are wrong{'' if rebuild else '; --rebuild mends those of users'}")
        raise SystemExit(1)
    note("The store is sound")


@store.command("export")
@of_store
@click.argument("out", type=PATH)
def export_command(url: str, out: Path) -> None:
    """Write everything in a store to the new folder OUT as Parquet files, also while servers use it."""
    from igcf.service.store.maintenance import open_existing
    from igcf.service.store.transfer import export_store

    with _opened(open_existing(url)) as opened, show_progress(every=PROGRESS_S) as report:
        n_rows = export_store(opened, out, report)
    note(f"Exported {n_rows:,} rows to {out}")


@store.command("import")
@of_store
@click.argument("folder", type=PATH)
def import_command(url: str, folder: Path) -> None:
    """Fill an empty store, of either kind, from what `igcf store export` wrote: all of it, or nothing.

    (`igcf import` is for logs.)
    """
    from igcf.service.store.store import Store
    from igcf.service.store.transfer import import_store

    with _opened(Store(url)) as opened, show_progress(every=PROGRESS_S) as report:
        n_rows = import_store(opened, folder, report)
    note(f"Imported {n_rows:,} rows from {folder}")


@store.command("audit")
@STORE
@CONFIG
@click.option("--model", help="Folder of the model that says what satisfies [default: the one that is announced].")
@click.option("--out", type=PATH, help="Write every item shown to this new Parquet file instead.")
@AS_JSON
def audit_command(store: str | None, config: Path | None, model: str | None, out: Path | None, as_json: bool) -> None:
    """Compare what was shown with the reactions to it: by model, policy and reason.

    "expected" is the mean predicted chance of the items with a reaction; beside "satisfied" it says whether
    chances come true. Reactions count where they name the answer (recommendation_id).
    """
    from igcf.service.store.export import export_audit, shown_items, summary
    from igcf.service.store.maintenance import open_existing

    settings = store_settings(store, config, model)
    with _opened(open_existing(settings.store)) as opened:
        if out is not None:
            note(f"Wrote {export_audit(opened, out):,} rows to {out}")
            return
        served = _served(opened, settings)
        if served is None:
            raise ModelError("no model is announced, or it is not on this machine; name one with --model")
        found = summary(shown_items(opened), served.model.reward.threshold)
    rows = found.to_dicts()
    if as_json:
        emit_json({"audit": rows})
        return
    for row in rows:
        figures = " ".join(f"{name} {row[name]:.3f}" for name in ("satisfied", "expected") if row[name] is not None)
        told = f"{row['shown']:,} shown, {row['reactions']:,} reactions {figures}".rstrip()
        echo(f"{row['model']} {row['policy']} {row['reason']}: {told}")
    note(f"{sum(row['shown'] for row in rows):,} items were shown")


@contextmanager
def _opened(store: "Store") -> "Iterator[Store]":
    try:
        yield store
    finally:
        store.close()


def _served(opened: "Store", settings: "ServiceSettings") -> "ServedModel | None":
    """Load the model that was named, or else the one that is announced, where it is on this machine."""
    from igcf.service.serving.served_model import ServedModel

    if settings.model is not None:
        return ServedModel.from_folder(Path(settings.model), settings)
    folder = opened.generation()[1]
    try:
        return ServedModel.from_folder(Path(folder), settings) if folder else None
    except ModelError:
        return None
