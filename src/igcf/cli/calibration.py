"""`igcf calibration`: do predicted probabilities come true?"""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from igcf.cli.experiments import print_all
from igcf.cli.options import AS_JSON, COUNT, DATA_DIR, SATISFIED, SEED, column_options, names_in, report
from igcf.cli.output import emit_json, note, parts_display
from igcf.errors import IgcfError

if TYPE_CHECKING:
    from igcf.data import Interactions
    from igcf.data.columns import Columns
    from igcf.model import Model


@click.command()
@click.option("--dataset", required=True, help="A known name (igcf data list) or a CSV or Parquet file.")
@click.option("--methods", default="pca-gp,igcf", show_default=True, help="Names, joined by commas.")
@DATA_DIR
@column_options
@SATISFIED
@click.option("--rounds", type=COUNT, help="Rounds per user.")
@click.option("--set", "changes", multiple=True, metavar="METHOD:NAME=VALUE", help="A setting; repeatable.")
@click.option("--intervals", is_flag=True, help="Instead: intervals of new users, by how well the items are known.")
@click.option(
    "--thin",
    default=1.0,
    show_default=True,
    type=click.FloatRange(0.0, 1.0),
    help="With --intervals: share of the reactions to learn from.",
)
@SEED
@click.option("--out", type=click.Path(path_type=Path, dir_okay=False), help="Draw both plots into this SVG file.")
@AS_JSON
def calibration(  # noqa: PLR0913  (one parameter per option)
    dataset: str,
    methods: str,
    data_dir: str | None,
    columns: "Columns",
    satisfied: float | None,
    rounds: int | None,
    changes: tuple[str, ...],
    intervals: bool,
    thin: float,
    seed: int,
    out: Path | None,
    as_json: bool,
) -> None:
    """Compare predicted satisfaction with what comes true, on test users.

    \b
    Examples:
      igcf calibration --dataset ml-1m --out calibration.svg
      igcf calibration --dataset ratings.csv --methods igcf --json
      igcf calibration --dataset ratings.csv --intervals
    """
    from igcf.data import load_dataset, success_in
    from igcf.lab.evaluate import setup_for
    from igcf.lab.evaluate.calibration import calibration as run
    from igcf.lab.evaluate.calibration import calibration_table, draw_calibration
    from igcf.lab.evaluate.tuned_settings import parse_changes

    data = load_dataset(dataset, data_dir, columns=columns)
    if intervals:
        _intervals(data, satisfied, thin, seed, as_json=as_json)
        return
    names = names_in(methods)
    success = success_in(data, satisfied)
    setup = setup_for(data, "cold-start", rounds=rounds, satisfied=success.threshold)
    report(data, success, dataset)
    note(setup.sentence)
    with parts_display(names) as step:
        found = run(data, setup, names, seed=seed, settings=parse_changes(changes), step=step)
    if out is not None:
        try:
            draw_calibration(found, out)
        except OSError as error:
            raise IgcfError(f"cannot write {out}: {error.strerror or error}; choose another --out") from error
        note(f"wrote {out}")
    if as_json:
        emit_json({"dataset": data.name, "users": "test", "methods": [each.as_dict() for each in found]})
        return
    print_all([calibration_table(data.name, found)], "table")


def _intervals(data: "Interactions", satisfied: float | None, thin: float, seed: int, *, as_json: bool) -> None:
    from igcf.config import ExpertsConfig
    from igcf.lab.evaluate.intervals import interval_table, measure_intervals
    from igcf.training import pretrain

    def train(rest: "Interactions", own_seed: int) -> "Model":
        note(f"learning from {len(rest.values):,} reactions of {rest.n_users:,} users, split {own_seed}")
        return pretrain(rest, config=ExpertsConfig(satisfied=satisfied), seed=own_seed)

    rows = measure_intervals(data, train, thin=thin, seed=seed)
    if as_json:
        emit_json({"dataset": data.name, "thin": thin, "classes": rows})
        return
    print_all([interval_table(data.name, rows)], "table")
