"""`igcf models`: which models a store's servers have served, another one, and the way back."""

import shutil
from datetime import UTC, datetime
from pathlib import Path

import click

from igcf.cli.options import COUNT, EXISTING, PATH
from igcf.cli.output import Answer, answers
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
@answers
def list_command(store: Store) -> Answer:
    """List the models served, newest first, with the verdict of the comparison and the target of a rollback."""
    known = announcements(store.database)
    back = way_back(known)[:1]
    rows, lines = [], []
    for each in known:
        try:
            verdict = saved_metadata(Path(each.folder)).get("gate", {}).get("verdict")
        except ModelError:
            verdict = "folder is gone"
        role = "in service" if each is known[0] else "rollback leads here" if each in back else ""
        rows.append(each._asdict() | {"verdict": verdict, "role": role})
        when = datetime.fromtimestamp(each.time, UTC).strftime("%Y-%m-%d %H:%M")
        told = ", ".join(filter(None, (role, verdict and f"gate: {verdict}")))
        lines.append(f"{each.generation:>4}  {when}  {each.model}  {each.folder}{f'  ({told})' if told else ''}")
    return Answer({"models": rows}, lines, "" if rows else "No server has used this store yet")


@models.command()
@click.argument("folder", type=PATH)
@in_store
@click.option("--force", is_flag=True, help="Accept a model of another catalogue or scale.")
@answers
def promote(folder: Path, store: Store, force: bool) -> Answer:
    """Serve the model in FOLDER on all servers of the store; they follow within a second."""
    return promoted(*announced(store, folder, force=force))


@models.command()
@in_store
@answers
def rollback(store: Store) -> Answer:
    """Serve the previous model again on all servers of the store; users keep their reactions."""
    known = announcements(store.database)
    return promoted(*announced(store, previous_folder(known), force=True, after=known[0].generation))


@models.command()
@click.argument("folder", type=EXISTING)
@in_store
@click.option("--keep", type=COUNT, default=7, show_default=True, help="Newest models to keep.")
@answers
def prune(folder: Path, store: Store, keep: int) -> Answer:
    """Delete all models in FOLDER except the newest, the one in service, and the target of a rollback."""
    known = announcements(store.database)
    needed = {each.folder for each in (*known[:1], *way_back(known)[:1])}
    found = sorted((path.parent for path in folder.glob(f"*/{META}")), key=lambda own: own.stat().st_mtime)
    unneeded = [path for path in found[:-keep] if str(path.resolve()) not in needed]
    for path in unneeded:
        shutil.rmtree(path)
    nothing = f"Nothing to delete: all {len(found)} models in {folder} are among the newest {keep}, or needed"
    names = [str(path) for path in unneeded]
    return Answer({"deleted": names}, note="\n".join(f"Deleted {name}" for name in names) or nothing)


def announced(store: Store, folder: Path, *, force: bool = False, after: int | None = None) -> tuple[str, str, int]:
    """Check a model against the one in service and announce it; returns its folder, its id and the generation."""
    model, own = load_model(folder), str(folder.resolve())
    in_service = store.generation()[1]
    if in_service and not force:
        refuse_other_catalogue(load_model(Path(in_service)), model)
    return own, model_id(folder), store.announce(own, model_id(folder), after=after)


def promoted(folder: str, model: str, generation: int) -> Answer:
    """Say which folder is served, with its id and generation."""
    return Answer(
        {"folder": folder, "model": model, "generation": generation},
        note=f"All servers of this store serve {folder} (model {model}) within a second, as generation {generation}",
    )
