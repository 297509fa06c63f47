"""What `igcf evaluate` and `igcf reproduce` share: their options, running with progress, reports and tables."""

import os
import shlex
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click

from igcf.cli.options import COUNT, DATA_DIR, OUT_FOLDER, with_options
from igcf.cli.output import console, echo, note
from igcf.errors import IgcfError

if TYPE_CHECKING:
    from igcf.lab.evaluate import Execution
    from igcf.lab.evaluate.results import Results
    from igcf.lab.evaluate.running import Step
    from igcf.tables import Table

FORMATS = ("table", "markdown", "latex")
common_options = with_options((
    DATA_DIR,
    click.option("--seeds", default=1, show_default=True, type=COUNT, help="Number of seeds."),
    click.option("--seed", default=0, show_default=True, type=click.IntRange(min=0), help="The first seed."),
    click.option("--tune", is_flag=True, help="First choose the settings on validation users, by grid search."),
    click.option("--grid", type=click.Choice(("quick", "paper")), default="quick", show_default=True, help="Of --tune"),
    click.option("--set", "changes", multiple=True, metavar="METHOD:NAME=VALUE", help="A setting; repeatable."),
    click.option("--jobs", type=COUNT, help="Processes at a time [default: cores]."),
    click.option("--engine", type=click.Choice(("local", "ray")), default="local", show_default=True,
                 help="What runs the jobs; ray starts --jobs workers here, or uses those at --address."),
    click.option("--address", metavar="HOST:PORT", help="Address of a running Ray cluster."),
    click.option("--out", type=OUT_FOLDER, help="Folder for the report and tables."),
    click.option("--fresh", is_flag=True, help="Do not use results of earlier runs."),
    click.option("--format", "style", type=click.Choice(FORMATS), default="table", show_default=True,
                 help="How tables are printed: for a terminal, a page or a paper."),
))  # fmt: skip
"""Decorator with the options that `evaluate` and `reproduce` share."""


def run_experiment(data: Any, setup: Any, names: list[str], *, notes: Sequence[str] = (), **common: Any) -> "Results":
    """Run an experiment with progress on stderr; finished jobs are saved in the report's folder or in the cache.

    `notes` are printed when the first job begins: what cannot be run is refused in one line.
    """
    from igcf.lab.evaluate import evaluate as run
    from igcf.lab.evaluate.tuned_settings import parse_changes

    seeds, settings = range(common["seed"], common["seed"] + common["seeds"]), parse_changes(common["changes"])
    grid = common["grid"] if common["tune"] else None
    with executing(notes=notes, **common) as execution:
        return run(data, setup, names, seeds=seeds, settings=settings, grid=grid, execution=execution)


@contextmanager
def executing(
    *,
    engine: Literal["local", "ray"] = "local",
    jobs: int | None = None,
    address: str | None = None,
    out: Path | None = None,
    fresh: bool = False,
    notes: Sequence[str] = (),
    is_silent: bool = False,
    **_: Any,
) -> "Iterator[Execution]":
    """Yield where jobs run and are saved, with progress on stderr unless silent; takes the common options."""
    from tempfile import TemporaryDirectory

    from igcf.lab.evaluate import Execution

    place: dict[str, Any] = {"engine": engine, "processes": jobs or os.cpu_count() or 1, "address": address}
    command = shlex.join(["igcf", *sys.argv[1:]])
    display = nullcontext() if is_silent else progress_display(notes)
    with TemporaryDirectory(prefix="igcf-jobs-") as temporary, display as watch:
        folder = Path(temporary) if fresh else out / "jobs" if out else cache_folder()
        yield Execution(**place, folder=folder, watch=watch, command=command)


def cache_folder() -> Path:
    """Return where finished jobs are saved without --out: `IGCF_CACHE_DIR` or the user's cache folder."""
    from platformdirs import user_cache_path

    configured = os.environ.get("IGCF_CACHE_DIR")
    return (Path(configured) if configured else user_cache_path("igcf")) / "jobs"


def write_report(results: "Results", data: Any, folder: Path) -> None:
    """Write the HTML page, JSON, Markdown, LaTeX and what was shown."""
    from igcf.lab.evaluate.report import write_results

    try:
        folder.mkdir(parents=True, exist_ok=True)
        write_results(results, data, folder)
    except OSError as error:
        raise IgcfError(f"cannot write the report to {folder}: {error.strerror or error}") from error
    note(f"wrote {folder / 'report.html'}")


def in_style(tables: "list[Table]", style: str) -> "list[Table | str]":
    """Return tables in the style of --format, to be printed."""
    from igcf.tables import as_latex, as_markdown

    return [*tables] if style == "table" else [*map(as_markdown if style == "markdown" else as_latex, tables)]


@contextmanager
def progress_display(notes: Sequence[str] = ()) -> "Iterator[Callable[[Step], None]]":
    """Show jobs on stderr: a bar on a terminal; elsewhere a line per event, and one when nothing happens for long.

    `notes` are printed when the first job begins.
    """
    from igcf.progress import show_progress

    began, running, waiting = time.monotonic(), list[str](), list(notes)
    with show_progress(alike=False) as report:  # one method does not predict the time of another

        def watch(step: "Step") -> None:
            while waiting:
                note(waiting.pop(0))
            users = "" if step.job.users == "test" else " on validation users"
            told = f"{step.job.method}, seed {step.job.seed}{users}"
            if step.what == "started":
                running.append(told)
            elif told in running:
                running.remove(told)
            report("; ".join(running) or "finishing", step.done, step.total)
            if not console.is_terminal:
                seconds = time.monotonic() - began
                echo(f"[{step.done}/{step.total}] {seconds:5.0f} s  {told} {step.what}", err=True)

        yield watch
