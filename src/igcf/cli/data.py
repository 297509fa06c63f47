"""`igcf data`: list, fetch and validate data sets."""

from pathlib import Path
from typing import Any

import click

from igcf.cli.options import DATA_DIR, ITEMS, SATISFIED, USERS, column_options
from igcf.cli.output import Answer, answers, in_options
from igcf.progress import show_progress


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


class LogPath(click.Path):
    """The path of a log, where the name of a data set is a likely slip."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the path; a data set known by name is refused, since igcf knows how to read it."""
        from igcf.data import DATASETS

        if value in DATASETS and not Path(value).exists():
            self.fail(f"{value} is a data set known by name and needs no check; pass the path of a file", param, ctx)
        return super().convert(value, param, ctx)


@data.command("list")
@DATA_DIR
@answers
def list_datasets(data_dir: str | None) -> Answer:
    """Show the data sets that igcf knows and which of them are present."""
    from igcf.data import DATASETS, default_data_dir, find_dataset

    folder = Path(data_dir) if data_dir else default_data_dir()
    same = ("name", "description", "url", "withdrawn", "satisfied", "licence")
    rows, lines = [], []
    width = max(map(len, DATASETS))
    indent = " " * (width + 1)
    for info in DATASETS.values():
        path = find_dataset(info, folder)
        found = {"present": path is not None or not info.files, "path": path and str(path), "split": info.default_split}
        rows.append({name: getattr(info, name) for name in same} | found)
        place = "built in" if not info.files else path or "not present"
        lines += [f"{info.name:<{width}} {place}", f"{indent}{info.description}", f"{indent}licence: {info.licence}"]
    return Answer({"data_dir": str(folder), "datasets": rows}, [*lines, "", f"data folder: {folder}"])


@data.command()
@click.argument("name")
@DATA_DIR
@answers
def fetch(name: str, data_dir: str | None) -> Answer:
    """Download the owner's archive of data set NAME, resume it after a cut, and check it."""
    from igcf.data import dataset_info
    from igcf.data.registry import fetch as download

    info = dataset_info(name)
    with show_progress() as progress:
        path = download(info, data_dir, lambda have, total: progress("kB", have // 1000, total and total // 1000))
    size = path.stat().st_size
    return Answer(
        {"name": name, "path": str(path), "bytes": size, "checksum": info.checksum},
        [f"{name}: {path} ({size:,} bytes, {info.checksum or 'not checked'})", f"licence: {info.licence}"],
    )


@data.command()
@click.argument("path", type=LogPath(path_type=Path, exists=True))
@column_options
@ITEMS
@USERS
@SATISFIED
@answers
def validate(path: Path, **reading: Any) -> Answer:
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

    report = check(path, **reading)
    verdict = "usable" if report.is_usable else "not usable: fix the errors first"
    return Answer(report.as_dict(), [*map(in_options, report.lines()), verdict], exit_code=0 if report.is_usable else 1)
