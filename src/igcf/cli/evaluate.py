"""`igcf evaluate`: methods side by side on users whose reactions are known."""

import os
import shlex
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click
from rich.console import Console

from igcf.cli.columns import ITEMS, SATISFIED, LogFormat, column_options, told, with_options
from igcf.cli.output import console, emit_json, note, parts_display
from igcf.errors import ConfigError, IgcfError

if TYPE_CHECKING:
    from igcf.baselines import Method
    from igcf.evaluate.results import Results
    from igcf.evaluate.run import Step
    from igcf.tables import Table

DEFAULT_METHODS = "random,pop,pop-satisfied,mf,icf-ucb,icf-ts,pca-gp,igcf"
METHODS_OF = {
    "ablation": "igcf",
    "known-users": "pop,pop-satisfied,item-knn,ease,als,pca-gp,igcf-graph,igcf",
    "returning": "igcf",
}
"""Methods that run by default under protocols that have other ones."""
NEED_LOGGED = ("item-knn", "ease", "als")
"""Methods that score by a history alone: not what to meet a new user with."""
FORMATS = ("table", "markdown", "latex")
COMMON: tuple[Callable[[Any], Any], ...] = (
    click.option("--data-dir", default=None, help="Where named data sets lie (or IGCF_DATA_DIR)."),
    click.option("--seeds", default=1, show_default=True, type=click.IntRange(min=1), help="Number of seeds."),
    click.option("--seed", default=0, show_default=True, type=click.IntRange(min=0), help="The first seed."),
    click.option("--tune", is_flag=True, help="First choose the settings on validation users, by grid search."),
    click.option(
        "--grid", type=click.Choice(("quick", "paper")), default="quick", show_default=True, help="For --tune."
    ),
    click.option("--set", "changes", multiple=True, metavar="METHOD:NAME=VALUE", help="A setting; repeatable."),
    click.option("--jobs", default=None, type=click.IntRange(min=1), help="Processes at a time [default: cores]."),
    click.option(
        "--engine",
        type=click.Choice(("local", "ray", "dask")),
        default="local",
        show_default=True,
        help="What runs the jobs; ray and dask start --jobs workers here, or use those at --address.",
    ),
    click.option("--address", metavar="HOST:PORT", help="Of a Ray or Dask cluster that is running."),
    click.option("--out", type=click.Path(path_type=Path, file_okay=False), help="Folder for the report and tables."),
    click.option("--fresh", is_flag=True, help="Do not use results of earlier runs."),
    click.option("--format", "style", type=click.Choice(FORMATS), default="table", show_default=True),
    click.option("--json", "as_json", is_flag=True, help="Print one JSON document."),
)


common_options = with_options(COMMON)
"""Decorator with the options that `evaluate` and `reproduce` share."""


@click.command()
@click.option("--dataset", required=True, help="A known name (igcf data list) or a CSV or Parquet file.")
@click.option(
    "--protocol",
    type=click.Choice(("cold-start", "taste-drift", "top-k", "ablation", "known-users", "returning", "observed")),
    default="cold-start",
    show_default=True,
)
@click.option(
    "--methods",
    default=None,
    help=f"Names, joined by commas, or `all`. [default: {DEFAULT_METHODS}; "
    + "; ".join(f"{name}: {methods}" for name, methods in METHODS_OF.items())
    + "]",
)
@click.option(
    "--rounds", type=click.IntRange(min=1), help="Rounds per user [default: the protocol's, or what the log allows]."
)
@click.option(
    "--users",
    type=click.IntRange(min=1),
    help="Test users [default: 200, or what the log allows; known-users: 600, or a fifth of them].",
)
@click.option("--slate", type=click.IntRange(min=1), help="Items per round.")
@SATISFIED
@click.option("--split", type=click.Choice(("time", "users", "auto")), help="How training users are chosen.")
@click.option("--min-reactions", type=click.IntRange(min=1), help="Least number of reactions of a test user.")
@click.option(
    "--share",
    default=0.2,
    show_default=True,
    type=click.FloatRange(0, 1, min_open=True, max_open=True),
    help="known-users: share of each user's successes that is hidden and looked for.",
)
@click.option(
    "--logged",
    default="1,5,20,100",
    show_default=True,
    help="returning: numbers of logged reactions, joined by commas.",
)
@click.option(
    "--part",
    type=click.Choice(("random", "earliest")),
    default="random",
    show_default=True,
    help="returning: which reactions of a user are logged.",
)
@click.option(
    "--thin",
    type=click.FloatRange(0, 1, min_open=True),
    help="Keep only this share of the log's rows, drawn with --seed, before anything else.",
)
@column_options
@ITEMS
@common_options
def evaluate(  # noqa: PLR0913  (one parameter per option)
    dataset: str,
    protocol: str,
    methods: str | None,
    rounds: int | None,
    users: int | None,
    slate: int | None,
    satisfied: float | None,
    split: str | None,
    min_reactions: int | None,
    share: float,
    logged: str,
    part: Literal["random", "earliest"],
    thin: float | None,
    log_format: LogFormat,
    items: Path | None,
    **common: Any,
) -> None:
    """Compare methods on users whose reactions are known.

    On a log of your own nothing needs to be said: columns, successes, rounds and users are found and told. A run that
    was interrupted goes on where it stopped when it is started again.

    \b
    Examples:
      igcf evaluate --dataset ratings.csv
      igcf evaluate --dataset ml-1m --methods pop,icf-ucb,pca-gp,igcf
      igcf evaluate --dataset ml-1m --protocol top-k --slate 3 --seeds 5 --out results/
      igcf evaluate --dataset ratings.csv --methods pop,igcf --tune --json
      igcf evaluate --dataset ml-1m --protocol observed
      igcf evaluate --dataset ml-1m --protocol known-users --methods pop,ease,igcf
      igcf evaluate --dataset ml-1m --protocol returning --logged 1,20
      igcf evaluate --dataset ml-1m --methods all --seeds 10 --engine ray --address head:6379
    """
    import numpy as np

    from igcf.baselines import METHODS
    from igcf.data import load_dataset, success_in
    from igcf.evaluate import setup_for
    from igcf.evaluate.protocols import thinned
    from igcf.evaluate.report import results_document
    from igcf.evaluate.tables import results_tables
    from igcf.evaluate.verdict import verdict

    if methods is None:
        methods = METHODS_OF.get(protocol, DEFAULT_METHODS)
    if methods == "all":
        names = all_methods(METHODS, protocol)
    else:
        names = [name.strip() for name in methods.split(",") if name.strip()]
    data = load_dataset(dataset, common["data_dir"], **log_format._asdict(), items=items)
    if thin is not None:
        data = thinned(data, thin, rng=np.random.default_rng(common["seed"]))
    success = success_in(data, satisfied)
    if protocol == "observed":
        chosen = None if methods == DEFAULT_METHODS else names
        for line in told(data, success):
            note(line)
        evaluate_observed(data, chosen, success.threshold, rounds, split, common)
        return
    setup = setup_for(
        data,
        protocol,  # type: ignore[arg-type]
        rounds=rounds,
        slate=slate,
        satisfied=success.threshold,
        split=split,  # type: ignore[arg-type]
        n_users=users,
        min_reactions=min_reactions,
    )
    setup = replace(setup, share=share, logged=parse_counts(logged), part=part)
    if thin is not None:
        setup = replace(setup, dataset=f"{setup.dataset}-thin-{thin:g}")  # with settings of its own
    results = run_experiment(data, setup, names, notes=[*told(data, success), setup.sentence], **common)
    if common["out"]:
        write_report(results, data, common["out"])
    if common["as_json"]:
        emit_json(results_document(results) | {"success": success.as_dict()})
    else:
        print_all(results_tables(results), common["style"])
        click.echo(verdict(results).sentence)


def evaluate_observed(
    data: Any,
    names: list[str] | None,
    satisfied: float | None,
    rounds: int | None,
    split: Any,
    common: dict[str, Any],
) -> None:
    """Run the protocol `observed`, which has methods and figures of its own, for one seed."""
    from igcf.evaluate.observed import OBSERVED_METHODS, observed, observed_setup, observed_tables
    from igcf.evaluate.report import write_tables

    setup = observed_setup(data, satisfied=satisfied, rounds=rounds, split=split)
    chosen = list(OBSERVED_METHODS) if names is None else names
    with parts_display(chosen) as step:
        results = observed(data, setup, chosen, seed=common["seed"], step=step, command=command_line())
    if common["out"]:
        write_tables(common["out"], results.as_dict(), observed_tables(results))
        console.print(f"wrote {common['out'] / 'results.md'}", highlight=False)
    if common["as_json"]:
        emit_json(results.as_dict())
    else:
        print_all(observed_tables(results), common["style"])


def all_methods(methods: "Mapping[str, Method]", protocol: str) -> list[str]:
    """Return the methods that make sense under a protocol: from a logged history those that can use it, and others."""
    if protocol in ("known-users", "returning"):
        return [name for name, method in methods.items() if method.uses_logged]
    return [name for name in methods if name not in NEED_LOGGED]


def parse_counts(text: str) -> tuple[int, ...]:
    """Read whole numbers joined by commas, each once, smallest first."""
    try:
        counts = tuple(sorted({int(part) for part in text.split(",")}))
    except ValueError:
        counts = (0,)
    if counts[0] < 1:
        raise ConfigError(f"--logged takes whole numbers of at least 1 joined by commas, got {text!r}")
    return counts


def run_experiment(  # noqa: PLR0913  (the common options of two commands)
    data: Any,
    setup: Any,
    names: list[str],
    *,
    seed: int,
    seeds: int,
    tune: bool,
    grid: Literal["quick", "paper"],
    changes: tuple[str, ...],
    jobs: int | None,
    engine: Literal["local", "ray", "dask"],
    address: str | None,
    out: Path | None,
    fresh: bool,
    notes: Sequence[str] = (),
    **_: Any,
) -> "Results":
    """Run an experiment with progress on stderr; finished jobs are saved in the report's folder or in the cache.

    `notes` are printed when the first job begins: what cannot be run is refused in one line.
    """
    from tempfile import TemporaryDirectory

    from igcf.evaluate import Engine, Execution
    from igcf.evaluate import evaluate as run
    from igcf.evaluate.tuned_settings import parse_changes

    settings = parse_changes(changes)
    place = Engine(engine, jobs or os.cpu_count() or 1, address)
    with TemporaryDirectory(prefix="igcf-jobs-") as temporary, progress_display(notes) as watch:
        folder = Path(temporary) if fresh else out / "jobs" if out else cache_folder()
        return run(
            data,
            setup,
            names,
            seeds=range(seed, seed + seeds),
            settings=settings,
            grid=grid if tune else None,
            execution=Execution(place, folder, watch, command_line()),
        )


def cache_folder() -> Path:
    """Return where finished jobs are saved without --out: `IGCF_CACHE_DIR` or the user's cache folder."""
    from platformdirs import user_cache_path

    configured = os.environ.get("IGCF_CACHE_DIR")
    return (Path(configured) if configured else user_cache_path("igcf")) / "jobs"


def command_line() -> str:
    """Return the command as it was called, to be written beside the numbers."""
    return shlex.join(["igcf", *sys.argv[1:]])


def write_report(results: "Results", data: Any, folder: Path) -> None:
    """Write the HTML page, JSON, Markdown, LaTeX and what was shown."""
    from igcf.evaluate.report import write_results

    try:
        folder.mkdir(parents=True, exist_ok=True)
        write_results(results, data, folder)
    except OSError as error:
        raise IgcfError(f"cannot write the report to {folder}: {error.strerror or error}") from error
    console.print(f"wrote {folder / 'report.html'}", highlight=False)


def print_all(tables: "list[Table]", style: str) -> None:
    """Print tables on stdout, in the style of --format."""
    from igcf.tables import as_latex, as_markdown, print_fitted

    for table in tables:
        if style == "table":
            print_fitted(table, Console())
        else:
            click.echo(as_markdown(table) if style == "markdown" else as_latex(table))


@contextmanager
def progress_display(notes: Sequence[str] = ()) -> "Iterator[Callable[[Step], None]]":
    """Show jobs on stderr: a bar on a terminal; elsewhere a line per event, and one when nothing happens for long.

    `notes` come first, when the first job begins.
    """
    from igcf.progress import show_progress

    began, running, waiting = time.monotonic(), list[str](), list(notes)
    with show_progress() as report:

        def watch(step: "Step") -> None:
            while waiting:
                note(waiting.pop(0))
            told = _told(step)
            if step.what == "started":
                running.append(told)
            elif told in running:
                running.remove(told)
            report("; ".join(running) or "finishing", step.done, step.total)
            if not console.is_terminal:
                seconds = time.monotonic() - began
                click.echo(f"[{step.done}/{step.total}] {seconds:5.0f} s  {told} {step.what}", err=True)

        yield watch


def _told(step: "Step") -> str:
    users = "" if step.job.users == "test" else " on validation users"
    return f"{step.job.method}, seed {step.job.seed}{users}"
