"""`igcf items`: the catalogue of a store, which its servers follow within a second."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import polars as pl

from igcf.cli.options import AS_JSON, PATH
from igcf.cli.output import emit_json, note
from igcf.cli.service_options import in_store
from igcf.data.items import read_items
from igcf.errors import ConfigError, DataError, ModelError, refuse_other_than_file
from igcf.item import Item, parse_fields, parse_items
from igcf.model.files import ITEMS, saved_metadata
from igcf.service.store.items import ItemStore
from igcf.service.store.store import Store

MODEL = click.option(
    "--model",
    type=PATH,
    help="Folder of the model with the known items [default: the model in service].",
)


@click.group()
def items() -> None:
    """Add, change, retire and list the items of a running service; its servers follow within a second.

    \b
    Examples:
      igcf items add new.csv --store igcf.db
      igcf items update 2571 hidden=true title="The Matrix" --store igcf.db --model model/
      igcf items retire 2571 318 --store igcf.db --model model/
      igcf items list --store igcf.db
    """


@items.command()
@click.argument("file", type=PATH)
@click.option("--event-id", help="Makes a repetition safe: the same id twice counts once.")
@MODEL
@in_store
@AS_JSON
def add(file: Path, event_id: str | None, model: Path | None, store: Store, as_json: bool) -> None:
    """Add the items of FILE, or update known ones: all of them or none.

    FILE is JSON (a list of items), one item per line (.jsonl), or a table of items (CSV, Parquet).
    """
    receipt = ItemStore(store.database).put(read_batch(file), event_id, is_known=known_items(store, model))
    if as_json:
        emit_json(vars(receipt))
    note(
        "This batch was stored before"
        if receipt.duplicate
        else f"{receipt.added} added, {receipt.changed} changed, {receipt.returned} back, {receipt.unchanged} unchanged"
    )


@items.command()
@click.argument("item")
@click.argument("changes", nargs=-1, required=True, metavar="FIELD=VALUE...")
@MODEL
@in_store
@AS_JSON
def update(item: str, changes: tuple[str, ...], model: Path | None, store: Store, as_json: bool) -> None:
    """Change fields of ITEM: title=..., categories='["A", "B"]', numbers='{"year": 1999}', hidden=true, text=null."""
    fields: dict[str, Any] = {}
    for change in changes:
        name, sign, value = change.partition("=")
        if not sign:
            raise ConfigError(f"{change!r} is not a change; expected FIELD=VALUE, for instance hidden=true")
        fields[name] = _value(value)
    parsed = parse_fields(fields, f"item {item!r}")
    revision = ItemStore(store.database).patch(item, parsed, is_known=known_items(store, model))
    if as_json:
        emit_json({"item": item, "revision": revision})
    note(f"Changed {', '.join(fields)} of {item}")


@items.command()
@click.argument("ids", nargs=-1, required=True, metavar="ITEM...")
@MODEL
@in_store
@AS_JSON
def retire(ids: tuple[str, ...], model: Path | None, store: Store, as_json: bool) -> None:
    """Retire items: no answer shows them any longer. If one does not exist, none is retired."""
    revision, n_retired = ItemStore(store.database).retire(ids, is_known=known_items(store, model))
    if as_json:
        emit_json({"retired": n_retired, "revision": revision})
    note(f"{n_retired} retired" + (f", {len(ids) - n_retired} were before" if n_retired < len(ids) else ""))


@items.command("list")
@in_store
@AS_JSON
def list_items(store: Store, as_json: bool) -> None:
    """List what was added, changed and retired since the model was trained."""
    found = ItemStore(store.database).changes()
    if as_json:
        rows = [{"item": it.item_id, "retired": it.is_retired, "revision": it.revision, **it.fields} for it in found]
        emit_json({"items": rows})
        return
    for each in found:
        state = "retired" if each.is_retired else "hidden" if each.fields.get("hidden") else "active"
        note(f"{each.item_id}\t{state}\t{each.fields.get('title') or ''}")
    note(f"{len(found)} items were added, changed or retired")


def known_items(store: Store, model: Path | None) -> Callable[[str], bool]:
    """Tell which items the model has: the one that is named, or that the store says to serve."""
    folder = model or (Path(served) if (served := store.generation()[1]) else None)
    if folder is None:
        return lambda _: False
    try:
        saved_metadata(folder)
        return frozenset(pl.read_parquet(folder / ITEMS, columns=["item_id"])["item_id"].to_list()).__contains__
    except (ModelError, OSError, pl.exceptions.PolarsError) as error:
        if model is not None:
            raise ModelError(f"cannot read the items of {folder}: {error}") from error
        return lambda _: False


def read_batch(file: Path) -> list[Item]:
    """Read items from JSON, from lines of JSON, or from a table of items."""
    try:
        refuse_other_than_file(file)
        if file.suffix not in (".json", ".jsonl"):
            return parse_items(read_items(file).items)
        text = file.read_text(encoding="utf-8")
        is_lines = file.suffix == ".jsonl"
        given = [json.loads(line) for line in text.split("\n") if line.strip()] if is_lines else json.loads(text)
    except (OSError, ValueError, RecursionError) as error:
        raise DataError(f"cannot read the items of {file}: {error}") from error
    given = given.get("items") if isinstance(given, dict) else given
    if not isinstance(given, list):
        raise DataError(f"{file} holds {type(given).__name__}; expected a list of items")
    return parse_items(given)


def _value(text: str) -> Any:
    """Read a value: JSON where it is, otherwise the text as it stands."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text
