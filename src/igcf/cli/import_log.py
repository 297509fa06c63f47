"""`igcf import`: a whole log into the store of a service."""

import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
import numpy as np
from pydantic import TypeAdapter, ValidationError

from igcf.cli.options import DATA_DIR, PATH, USERS, column_options, report, with_users
from igcf.cli.output import Answer, answers, note
from igcf.cli.service_options import model_folder, of_store
from igcf.data import load_dataset
from igcf.data.columns import Columns
from igcf.errors import DataError
from igcf.model.files import load_model, model_id
from igcf.progress import show_progress
from igcf.service.models.requests import PathId
from igcf.service.store.store import Store
from igcf.service.store.transfer import Imported, import_interactions
from igcf.service.store.urls import printed_store


@click.command("import")
@click.argument("log", metavar="LOG")
@of_store
@click.option("--model", type=PATH, help="Folder of the model that is served [default: the model in service].")
@DATA_DIR
@USERS
@column_options
@answers
def import_log(log: str, url: str, **reading: Any) -> Answer:
    """Store the reactions of LOG as its users' history, and with --users their attributes.

    LOG is a known name (igcf data list) or a CSV or Parquet file. Every batch is durable. If an import is
    interrupted, run it again: nothing is stored twice.

    \b
    Examples:
      igcf import ratings.csv --store igcf.db
      igcf import ratings.csv --store igcf.db --model model/
      igcf import ratings.csv --users people.csv --store igcf.db
      igcf import ml-1m --store postgresql://igcf@db/igcf --model model/
      igcf import plays.csv --user userID --item artistID --value plays --store igcf.db --model model/
    """
    started = time.perf_counter()
    done, unknown = import_into(url, log, **reading)
    figures = vars(done) | {"unknown_items": unknown, "seconds": time.perf_counter() - started}
    return Answer({"store": printed_store(url), **figures})


def _refuse_users(user_ids: Sequence[str]) -> None:
    """Refuse a log with users whom no request could name: nobody could ask for them, or delete them."""
    try:
        TypeAdapter(Sequence[PathId]).validate_python(user_ids)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        user_id, reason = user_ids[int(first["loc"][0])], first["msg"].removeprefix("Value error, ")
        raise DataError(
            f"user {user_id[:80]!r} of the log cannot be named in a request: {reason[0].lower()}{reason[1:]}; "
            "nothing was imported, change the id"
        ) from error


def import_into(
    url: str,
    log: str,
    *,
    model: Path | None = None,
    data_dir: str | None = None,
    columns: Columns | None = None,
    users: Path | None = None,
) -> tuple[Imported, int]:
    """Import a log and say what became of it; returns that, and the number of its items that the model lacks."""
    if model is not None:
        model_id(model)  # refused before the log is read
    data = replace(load_dataset(log, data_dir, columns=columns), users=None)  # those of a known data set stay out
    data = with_users(data, users)
    if n_unrated := int(np.isnan(data.values).sum()):
        note(f"{n_unrated:,} reactions without an opinion are left out: the store keeps reactions that have a value")
        data = data.subset(~np.isnan(data.values))
    report(data, None, log)
    _refuse_users(data.user_ids)
    with closing(Store(url)) as opened, show_progress() as progress:
        folder = model_folder(opened, model)
        known = None if folder is None else load_model(folder).row_of
        named = "" if folder is None else model_id(folder)
        started = time.perf_counter()
        done = import_interactions(opened, data, named, lambda n: progress("reactions stored", n, len(data)))
        seconds = time.perf_counter() - started
        name = opened.database.name
    unknown = 0 if known is None else sum(item_id not in known for item_id in data.item_ids)
    note(
        f"{data.name}: {done.reactions:,} reactions of {done.users:,} users, {done.stored:,} of them new in "
        f"{name}; {seconds:.1f} s, {done.reactions / max(seconds, 1e-9):,.0f} reactions a second"
    )
    if unknown:
        note(f"{unknown:,} items are not in the model; their reactions wait for one that knows them")
    return done, unknown
