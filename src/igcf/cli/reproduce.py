"""`igcf reproduce`: the paper's tables beside ours."""

from typing import Any

import click

from igcf.cli.experiments import common_options, in_style, run_experiment, write_report
from igcf.cli.options import COUNT, names_in
from igcf.cli.output import AS_JSON, emit_json, note, show

TABLE_NAMES = ("cold-start", "taste-drift", "top-k", "ablation")


@click.command()
@click.argument("table", required=False, type=click.Choice(TABLE_NAMES))
@click.option("--dataset", default=None, help="One of the table's data sets. [default: all that are found]")
@click.option("--methods", default=None, help="Some of the rows only, joined by commas.")
@click.option("--users", default=200, show_default=True, type=COUNT, help="Test users.")
@common_options
@AS_JSON
def reproduce(
    table: str | None, dataset: str | None, methods: str | None, users: int, as_json: bool, style: str, **common: Any
) -> None:
    """Reproduce a table of the paper and print it next to the original; without a name, all tables.

    \b
    Examples:
      igcf reproduce cold-start --dataset ml-1m
      igcf reproduce top-k --dataset ml-1m --methods pop,icf-ucb,igcf --seeds 10
      igcf reproduce --json
    """
    from igcf.data import load_dataset
    from igcf.lab.baselines import method_named
    from igcf.lab.evaluate import setup_for
    from igcf.lab.evaluate.paper import methods_of, side_by_side, side_by_side_tables, tables_to_run
    from igcf.lab.evaluate.protocols import protocol_named

    chosen = names_in(methods)
    documents = []
    for name, data_name in tables_to_run(table, dataset, common["data_dir"], report=note):
        rows = chosen or methods_of(name)
        if table is None:  # among all tables, each takes the rows that it can have
            rows = [each for each in rows if protocol_named(name).accepts(method_named(each))]
        if not rows:
            continue
        data = load_dataset(data_name, common["data_dir"])
        setup = setup_for(data, name, n_users=users)
        out = common["out"] / f"{name}-{data_name}" if common["out"] else None
        changes = tuple(text for text in common["changes"] if table or text.partition(":")[0] in rows)
        results = run_experiment(data, setup, rows, **{**common, "out": out, "changes": changes})
        if out:
            write_report(results, data, out)
        if as_json:
            documents.append(results.as_dict() | {"paper": side_by_side(results)})
        else:
            show(in_style(side_by_side_tables(results), style))
    if as_json:
        emit_json({"tables": documents} if len(documents) != 1 else documents[0])
