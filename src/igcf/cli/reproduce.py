"""`igcf reproduce`: the paper's tables beside ours."""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from igcf.cli.experiments import common_options, print_all, run_experiment, write_report
from igcf.cli.options import names_in
from igcf.cli.output import emit_json, note
from igcf.errors import ConfigError, DataError

if TYPE_CHECKING:
    from igcf.lab.evaluate.published import Experiment
    from igcf.lab.evaluate.results import Results
    from igcf.tables import Table

TABLE_NAMES = ("cold-start", "taste-drift", "top-k", "ablation")


@click.command()
@click.argument("table", required=False, type=click.Choice(TABLE_NAMES))
@click.option("--dataset", default=None, help="One of the table's data sets. [default: all that are found]")
@click.option("--methods", default=None, help="Some of the rows only, joined by commas.")
@click.option("--users", default=200, show_default=True, type=click.IntRange(min=1), help="Test users.")
@click.option(
    "--all",
    "everything",
    is_flag=True,
    help="Every published experiment, also those beyond the paper, and one page with all tables in --out. "
    "Takes hours; started again, it resumes where it stopped.",
)
@common_options
def reproduce(
    table: str | None, dataset: str | None, methods: str | None, users: int, everything: bool, **common: Any
) -> None:
    """Run a table of the paper and print ours beside it; all tables without a name.

    \b
    Examples:
      igcf reproduce cold-start --dataset ml-1m
      igcf reproduce top-k --dataset ml-1m --methods pop,icf-ucb,igcf --seeds 10
      igcf reproduce --json
      igcf reproduce --all --out reports/all
    """
    if everything:
        reproduce_all(table, dataset, methods, users, common)
        return
    from igcf.data import load_dataset
    from igcf.lab.baselines import method_named
    from igcf.lab.evaluate import setup_for
    from igcf.lab.evaluate.paper import methods_of, side_by_side, side_by_side_tables
    from igcf.lab.evaluate.protocols import protocol_named

    chosen = names_in(methods)
    documents = []
    for name, data_name in wanted(table, dataset, common["data_dir"]):
        rows = chosen or methods_of(name)
        if table is None:  # among all tables, each takes the rows that it can have
            rows = [each for each in rows if protocol_named(name).accepts(method_named(each))]
        if not rows:
            continue
        data = load_dataset(data_name, common["data_dir"])
        setup = setup_for(data, name, n_users=users)
        out = common["out"] / f"{name}-{data_name}" if common["out"] else None
        results = run_experiment(
            data, setup, rows, **{**common, "out": out, "changes": changes_to(rows, common, table)}
        )
        if out:
            write_report(results, data, out)
        if common["as_json"]:
            documents.append(results.as_dict() | {"paper": side_by_side(results)})
        else:
            print_all(side_by_side_tables(results), common["style"])
    if common["as_json"]:
        emit_json({"tables": documents} if len(documents) != 1 else documents[0])


def reproduce_all(
    table: str | None, dataset: str | None, methods: str | None, users: int, common: dict[str, Any]
) -> None:
    """Run every published experiment with a data set at hand, one folder each, and write the page with all tables."""
    from igcf.data import dataset_info, find_dataset
    from igcf.lab.evaluate.published import PUBLISHED, commit_of_the_code, tables_page
    from igcf.lab.evaluate.tables import results_tables

    if common["out"] is None:
        raise ConfigError("--all needs --out DIR, a folder for the tables and for what is finished")
    if common["seeds"] != 1 or common["seed"] or common["tune"] or common["changes"]:
        raise ConfigError("--all runs the published settings and seeds; leave out --seeds, --seed, --tune and --set")
    chosen = [
        each
        for each in PUBLISHED
        if table in (None, each.protocol)
        and dataset in (None, each.dataset)
        and (not dataset_info(each.dataset).files or find_dataset(dataset_info(each.dataset), common["data_dir"]))
    ]
    if not chosen:
        raise DataError("none of the published experiments is left; see igcf data list, or set IGCF_DATA_DIR")
    rows = {each.strip() for each in methods.split(",")} if methods else None
    made: list[tuple[Experiment, Sequence[Table]]] = []
    documents: list[dict[str, Any]] = []
    commit = commit_of_the_code()
    page = common["out"] / "tables.md"
    earlier = page.read_text(encoding="utf-8") if page.exists() else ""
    for number, each in enumerate(chosen):
        note(f"experiment {number + 1} of {len(chosen)}: {each.name}")
        names = tuple(name for name in each.methods if rows is None or name in rows)
        if rows is not None and not names:
            continue
        here = replace(each, methods=names)
        results, data = run_published(here, users, common)
        write_report(results, data, common["out"] / each.name)
        documents.append(results.as_dict() | {"name": each.name})
        made.append((here, results_tables(results)))
        page.write_text(tables_page(made, commit, earlier), encoding="utf-8")
    note(f"wrote {page}: {len(made)} experiments")
    if common["as_json"]:
        emit_json({"commit": commit, "experiments": documents})


def run_published(each: "Experiment", users: int, common: dict[str, Any]) -> "tuple[Results, Any]":
    """Run one published experiment; what is finished is kept in the common folder of all of them."""
    import numpy as np

    from igcf.data import load_dataset
    from igcf.lab.evaluate import Setup, setup_for
    from igcf.lab.evaluate.protocols import protocol_named, thinned

    data = load_dataset(each.dataset, common["data_dir"])
    if each.thin is not None:
        data = thinned(data, each.thin, rng=np.random.default_rng(each.seed))
    protocol = protocol_named(each.protocol, **each.options)
    setup = setup_for(data, protocol)
    setup = replace(setup, n_users=min(setup.n_users, users)) if users < Setup.n_users else setup
    if each.thin is not None:
        setup = replace(setup, dataset=f"{setup.dataset}-thin-{each.thin:g}")
    return run_experiment(data, setup, list(each.methods), **{**common, "seed": each.seed, "seeds": each.seeds}), data


def changes_to(rows: list[str], common: dict[str, Any], table: str | None) -> tuple[str, ...]:
    """Return the settings on the command line; among all tables, each takes those of its rows."""
    changes: tuple[str, ...] = common["changes"]
    return tuple(text for text in changes if table or text.partition(":")[0] in rows)


def wanted(table: str | None, dataset: str | None, data_dir: str | None) -> list[tuple[str, str]]:
    """Return the pairs of table and data set to run: all of the paper's that are asked for and found."""
    from igcf.data import dataset_info, find_dataset
    from igcf.lab.evaluate.paper import TABLES

    if dataset is not None:
        dataset_info(dataset)
        return [(name, dataset) for name in ([table] if table else TABLES) if table or dataset in TABLES[name]]
    pairs = [(name, each) for name, sets in TABLES.items() if table in (None, name) for each in sets]
    found: list[tuple[str, str]] = [
        (name, each) for name, each in pairs if find_dataset(dataset_info(each), data_dir) is not None
    ]
    for missing in sorted({each for _, each in pairs} - {each for _, each in found}):
        note(f"{missing} is not there and left out; see igcf data list")
    if not found:
        raise DataError("none of the table's data sets was found; see igcf data list, or set IGCF_DATA_DIR")
    return found
