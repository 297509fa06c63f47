"""`igcf data`: list, fetch and validate data sets."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from igcf.cli.options import AS_JSON, DATA_DIR, ITEMS, SATISFIED, USERS, column_options
from igcf.cli.output import console, echo, emit_json, in_options

if TYPE_CHECKING:
    from igcf.data.columns import Columns


@click.group()
def data() -> None:
    """List, fetch and validate interaction logs.

    \b
    Examples:
      igcf data list
      igcf data fetch ml-1m
      igcf data validate ratings.csv
      igcf data validate log.tsv --user who --item what --value hours --satisfied 2
    """


@data.command("list")
@DATA_DIR
@AS_JSON
def list_datasets(data_dir: str | None, as_json: bool) -> None:
    """Show the data sets that igcf knows and which of them are present."""
    from igcf.data import DATASETS, default_data_dir, find_dataset

    folder = Path(data_dir) if data_dir else default_data_dir()
    found = {name: find_dataset(info, folder) for name, info in DATASETS.items()}
    if as_json:
        same = ("name", "description", "url", "withdrawn", "satisfied", "licence")
        rows = [
            {name: getattr(info, name) for name in same}
            | {"present": path is not None or not info.files, "path": path and str(path), "split": info.default_split}
            for info, path in ((info, found[info.name]) for info in DATASETS.values())
        ]
        emit_json({"data_dir": str(folder), "datasets": rows})
        return
    for info in DATASETS.values():
        place = "built in" if not info.files else str(found[info.name] or "not present")
        echo(f"{info.name:<10} {place}\n           {info.description}\n           licence: {info.licence}")
    echo(f"\ndata folder: {folder}")


@data.command()
@click.argument("name")
@DATA_DIR
@AS_JSON
def fetch(name: str, data_dir: str | None, as_json: bool) -> None:
    """Download the owner's archive of data set NAME, resume it after a cut, and check it."""
    from rich.progress import BarColumn, DownloadColumn, Progress, TimeRemainingColumn, TransferSpeedColumn

    from igcf.data import dataset_info
    from igcf.data.registry import fetch as download

    info = dataset_info(name)
    columns = (BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
    with Progress(
        "{task.description}", *columns, console=console, transient=True, disable=not console.is_terminal
    ) as bar:
        task = bar.add_task(name, total=None)
        path = download(info, data_dir, lambda have, total: bar.update(task, completed=have, total=total))
    document = {"name": name, "path": str(path), "bytes": path.stat().st_size, "checksum": info.checksum}
    if as_json:
        emit_json(document)
    else:
        echo(f"{name}: {path} ({document['bytes']:,} bytes, {info.checksum or 'not checked'})")
        echo(f"licence: {info.licence}")


@data.command()
@click.argument("path", type=click.Path(exists=True, path_type=Path))
@column_options
@ITEMS
@USERS
@SATISFIED
@AS_JSON
@click.pass_context
def validate(
    ctx: click.Context,
    path: Path,
    columns: "Columns",
    items: Path | None,
    users: Path | None,
    satisfied: float | None,
    as_json: bool,
) -> None:
    """Check the log at PATH: print how igcf reads it, and every defect with its count and its first rows.

    Row 1 is the first one after the header. The exit code is 1 when the log cannot be used.

    \b
    Examples:
      igcf data validate ratings.csv
      igcf data validate plays.dat --value minutes --satisfied 30
      igcf data validate events.csv --kinds view=1,like=4,purchase=5,hide=1
      igcf data validate books.csv --unrated 0 --items titles.csv --min-item-reactions 5
    """
    from igcf.data.findings import validate as check

    report = check(path, columns, satisfied=satisfied, items=items, users=users)
    if as_json:
        emit_json(report.as_dict())
    else:
        for line in report.lines():
            echo(in_options(line))
        echo("usable" if report.is_usable else "not usable: fix the errors first")
    if not report.is_usable:
        ctx.exit(1)
