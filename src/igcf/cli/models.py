"""`igcf models`: which models a store's servers have served, another one, and the way back."""

import shutil
from datetime import UTC, datetime
from pathlib import Path

import click

from igcf.cli.options import AS_JSON, COUNT, EXISTING, PATH
from igcf.cli.output import echo, emit_json, note
from igcf.cli.service_options import in_store
from igcf.errors import ModelError
from igcf.model.files import META, load_model, model_id, saved_metadata
from igcf.service.serving.model_swap import previous_folder, refuse_other_catalogue
from igcf.service.store.decisions import announcements, way_back
from igcf.service.store.store import Store


@click.group()
def models() -> None:
    """List the models of a service, promote another one, go back, delete old ones.

    \b
    Examples:
      igcf models list --store igcf.db
      igcf models promote models/2026-11-18 --store postgresql://igcf@db/igcf
      igcf models rollback --store igcf.db
      igcf models prune models/ --store igcf.db --keep 7
    """


@models.command("list")
@in_store
@AS_JSON
def list_command(store: Store, as_json: bool) -> None:
    """List the models served, newest first, with the verdict of the comparison and the target of a rollback."""
    known = announcements(store.database)
    back = way_back(known)[:1]
    rows = []
    for each in known:
        try:
            verdict = saved_metadata(Path(each.folder)).get("gate", {}).get("verdict")
        except ModelError:
            verdict = "folder is gone"
        role = "in service" if each is known[0] else "rollback leads here" if each in back else ""
        rows.append(each._asdict() | {"verdict": verdict, "role": role})
    if as_json:
        emit_json({"models": rows})
        return
    for row in rows:
        when = datetime.fromtimestamp(row["time"], UTC).strftime("%Y-%m-%d %H:%M")
        told = ", ".join(filter(None, (row["role"], row["verdict"] and f"gate: {row['verdict']}")))
        echo(f"{row['generation']:>4}  {when}  {row['model']}  {row['folder']}{f'  ({told})' if told else ''}")
    if not rows:
        note("No server has used this store yet")


@models.command()
@click.argument("folder", type=PATH)
@in_store
@click.option("--force", is_flag=True, help="Accept a model of another catalogue or scale.")
@AS_JSON
def promote(folder: Path, store: Store, force: bool, as_json: bool) -> None:
    """Serve the model in FOLDER on all servers of the store; they follow within a second."""
    tell_promoted(announced(store, folder, force=force), as_json=as_json)


@models.command()
@in_store
@AS_JSON
def rollback(store: Store, as_json: bool) -> None:
    """Serve the previous model again on all servers of the store; users keep their reactions."""
    known = announcements(store.database)
    now = announced(store, previous_folder(known), force=True, after=known[0].generation)
    tell_promoted(now, as_json=as_json)


@models.command()
@click.argument("folder", type=EXISTING)
@in_store
@click.option("--keep", type=COUNT, default=7, show_default=True, help="Newest models to keep.")
def prune(folder: Path, store: Store, keep: int) -> None:
    """Delete all models in FOLDER except the newest, the one in service, and the target of a rollback."""
    known = announcements(store.database)
    needed = {each.folder for each in (*known[:1], *way_back(known)[:1])}
    found = sorted((path.parent for path in folder.glob(f"*/{META}")), key=lambda own: own.stat().st_mtime)
    unneeded = [path for path in found[:-keep] if str(path.resolve()) not in needed]
    for path in unneeded:
        shutil.rmtree(path)
        note(f"Deleted {path}")
    if not unneeded:
        note(f"Nothing to delete: all {len(found)} models in {folder} are among the newest {keep}, or needed")


def announced(store: Store, folder: Path, *, force: bool = False, after: int | None = None) -> tuple[str, str, int]:
    """Check a model against the one in service and announce it; returns its folder, its id and the generation."""
    model, own = load_model(folder), str(folder.resolve())
    in_service = store.generation()[1]
    if in_service and not force:
        refuse_other_catalogue(load_model(Path(in_service)), model)
    return own, model_id(folder), store.announce(own, model_id(folder), after=after)


def tell_promoted(found: tuple[str, str, int], *, as_json: bool) -> None:
    """Say which folder is served, with its id and generation."""
    folder, model, generation = found
    if as_json:
        emit_json({"folder": folder, "model": model, "generation": generation})
    else:
        note(f"All servers of this store serve {folder} (model {model}) within a second, as generation {generation}")
