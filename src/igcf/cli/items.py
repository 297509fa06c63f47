"""`igcf items`: the catalogue of a store, which its servers follow within a second."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from igcf.cli.options import PATH
from igcf.cli.output import Answer, answers
from igcf.cli.service_options import in_store, model_folder
from igcf.data.items import read_batch
from igcf.errors import ConfigError
from igcf.item import parse_fields
from igcf.model.files import load_model
from igcf.service.store.items import ItemStore
from igcf.service.store.store import Store

MODEL = click.option("--model", type=PATH, help="Folder of the model with the known items [default: that in service].")


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
@answers
def add(file: Path, event_id: str | None, model: Path | None, store: Store) -> Answer:
    """Add the items of FILE, or update known ones: all of them or none.

    FILE is JSON (a list of items), one item per line (.jsonl), or a table of items (CSV, Parquet).
    """
    done = ItemStore(store.database).put(read_batch(file), event_id, is_known=_known(store, model))
    counts = f"{done.added} added, {done.changed} changed, {done.returned} restored, {done.unchanged} unchanged"
    return Answer(vars(done), note="This batch was stored before" if done.duplicate else counts)


@items.command()
@click.argument("item")
@click.argument("changes", nargs=-1, required=True, metavar="FIELD=VALUE...")
@MODEL
@in_store
@answers
def update(item: str, changes: tuple[str, ...], model: Path | None, store: Store) -> Answer:
    """Change fields of ITEM: title=..., categories='["A", "B"]', numbers='{"year": 1999}', hidden=true, text=null."""
    fields: dict[str, Any] = {}
    for change in changes:
        name, sign, value = change.partition("=")
        if not sign:
            raise ConfigError(f"{change!r} is not a change; expected FIELD=VALUE, for instance hidden=true")
        try:
            fields[name] = json.loads(value)
        except (ValueError, RecursionError):
            fields[name] = value  # plain text needs no quotes
    parsed = parse_fields(fields, f"item {item!r}")
    revision = ItemStore(store.database).patch(item, parsed, is_known=_known(store, model))
    return Answer({"item": item, "revision": revision}, note=f"Changed {', '.join(fields)} of {item}")


@items.command()
@click.argument("ids", nargs=-1, required=True, metavar="ITEM...")
@MODEL
@in_store
@answers
def retire(ids: tuple[str, ...], model: Path | None, store: Store) -> Answer:
    """Retire items: no answer shows them any longer. If one does not exist, none is retired."""
    revision, n_retired = ItemStore(store.database).retire(ids, is_known=_known(store, model))
    before = f", {len(ids) - n_retired} were before" if n_retired < len(ids) else ""
    return Answer({"retired": n_retired, "revision": revision}, note=f"{n_retired} retired{before}")


@items.command("list")
@in_store
@answers
def list_items(store: Store) -> Answer:
    """List what was added, changed and retired since the model was trained."""
    rows, lines = [], []
    for each in ItemStore(store.database).changes():
        rows.append({"item": each.item_id, "retired": each.is_retired, "revision": each.revision, **each.fields})
        state = "retired" if each.is_retired else "hidden" if each.fields.get("hidden") else "active"
        lines.append(f"{each.item_id}\t{state}\t{each.fields.get('title') or ''}")
    return Answer({"items": rows}, lines, f"{len(rows)} items were added, changed or retired")


def _known(store: Store, model: Path | None) -> Callable[[str], bool]:
    folder = model_folder(store, model)
    return frozenset(() if folder is None else load_model(folder).item_ids).__contains__
