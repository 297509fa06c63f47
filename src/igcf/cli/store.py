"""`igcf store`: copy, put back and check what a service remembers."""

from pathlib import Path

import click

from igcf.cli.output import console, emit_json
from igcf.cli.service_options import CONFIG, STORE, store_url
from igcf.errors import StoreError


@click.group()
def store() -> None:
    """Copy, put back and check the store of a service.

    \b
    Examples:
      igcf store backup copy.db --store igcf.db
      igcf store restore copy.db --store new.db
      igcf store check --store postgresql://igcf@db/igcf
    """


@store.command()
@STORE
@CONFIG
@click.argument("out", type=click.Path(path_type=Path))
def backup(store: str | None, config: Path | None, out: Path) -> None:
    """Copy a SQLite store to OUT, also while servers use it."""
    from igcf.service.store.maintenance import backup_store

    backup_store(store_url(store, config), out)
    console.print(f"Copied the store to {out}")


@store.command()
@STORE
@CONFIG
@click.argument("copy", type=click.Path(path_type=Path))
def restore(store: str | None, config: Path | None, copy: Path) -> None:
    """Make a new SQLite store from COPY; one that exists is never overwritten."""
    from igcf.service.store.maintenance import restore_store

    restore_store(copy, store_url(store, config))
    console.print(f"Restored the store from {copy}")


@store.command()
@STORE
@CONFIG
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document on stdout.")
def check(store: str | None, config: Path | None, as_json: bool) -> None:
    """Check that a store is sound: its file, the numbering of every user's log, and what was taken back."""
    from igcf.service.store.maintenance import check_store

    problems = check_store(store_url(store, config))
    if as_json:
        emit_json({"problems": problems})
    if problems:
        raise StoreError("; ".join(problems))
    console.print("The store is sound")
