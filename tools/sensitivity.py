"""How much settings matter: a range of values of each, one setting at a time, played with validation users.

python -m tools.sensitivity layers,dim,gamma,nu --dataset ml-1m --methods igcf-paper --out study/
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import click

from igcf.charts import Line, line_chart
from igcf.cli.experiments import common_options, executing, in_style
from igcf.cli.options import names_in
from igcf.cli.output import show
from igcf.data import Interactions, load_dataset
from igcf.errors import ConfigError
from igcf.lab.baselines import Method, method_named
from igcf.lab.evaluate import Execution, Setup, setup_for
from igcf.lab.evaluate.experiment import grid_jobs
from igcf.lab.evaluate.running import HERE, run_jobs
from igcf.lab.evaluate.trade_off import Study
from igcf.lab.evaluate.tuned_settings import parse_changes, tuned_settings
from igcf.tables import Table

VALUES: dict[str, tuple[Any, ...]] = {
    "layers": (0, 1, 2, 3, 4),
    "dim": (16, 32, 64, 128),
    "gamma": (0.01, 0.1, 1.0, 10.0, 100.0),
    "nu": (0.0, 0.1, 0.3, 1.0, 3.0),
    "noise_var": (0.1, 0.3, 1.0, 3.0, 10.0),
}
"""Values of the settings that many methods have; those of others are the ones that tuning tries."""


@dataclass(frozen=True)
class Point:
    """What a method reaches with one value of one setting, all others as they were chosen."""

    method: str
    setting: str
    value: Any
    is_chosen: bool
    """Whether it is the value that the method has otherwise."""
    metric: str
    figures: dict[str, float]
    """The metric by T."""


def sensitivity(
    data: Interactions,
    setup: Setup,
    methods: Sequence[str],
    names: Sequence[str],
    *,
    seed: int = 0,
    settings: Mapping[str, Mapping[str, Any]] | None = None,
    execution: Execution = HERE,
) -> Study:
    """Play every value of each of the settings `names`, one setting at a time."""
    cases: list[tuple[Method, dict[str, Any], list[tuple[str, Any]]]] = []
    for each in methods:
        method, chosen = method_named(each), tuned_settings(setup.dataset, setup.protocol, each, settings)
        changes = [(name, value) for name in names for value in values_of(method, name, chosen)]
        cases.append((method, chosen, changes))
    jobs = [
        grid_jobs(method, setup, seed, [{**chosen, name: value} for name, value in changes])
        for method, chosen, changes in cases
    ]
    finished = iter(run_jobs(data, [job for own in jobs for job in own], execution))
    points = []
    for (method, chosen, changes), own in zip(cases, jobs, strict=True):
        outcomes = {int(each.label): each for _ in own for each in next(finished)}
        for number, (name, value) in enumerate(changes):
            metric, _ = setup.protocol.target(outcomes[number].session)
            figures = setup.protocol.count(outcomes[number], setup).figures[metric]
            points.append(Point(method.name, name, value, value == chosen[name], metric, dict(figures)))
    parts = [[point for point in points if point.setting == name] for name in names]
    charts = {part[0].setting: _curves(part) for part in parts}
    title = f"{setup.dataset}: how much settings matter"
    return Study(title, [asdict(point) for point in points], list(map(_values_table, parts)), charts)


def values_of(method: Method, name: str, chosen: Mapping[str, Any]) -> list[Any]:
    """Return the values of a setting that are tried, the chosen one among them."""
    method.settings({name: chosen.get(name)})  # a setting that the method does not have is refused
    values = VALUES.get(name) or (method.paper_grid or {}).get(name) or method.grid.get(name)
    if not values or not all(isinstance(each, int | float) for each in values):
        raise ConfigError(f"expected a number with known values, got {name}; take {', '.join(VALUES)}")
    return sorted({*values, chosen[name]})


def _values_table(points: Sequence[Point]) -> Table:
    """Return the table of one setting: a row for each method and value."""
    first = points[0]
    rows = tuple(
        (
            f"{point.method}, {first.setting} = {point.value:g}" + (" (chosen)" if point.is_chosen else ""),
            *(f"{figure:.3f}" for figure in point.figures.values()),
        )
        for point in points
    )
    header = ("setting", *(f"{first.metric}@{t}" for t in first.figures))
    return Table(f"{first.setting}: validation users, other settings as chosen", header, rows)


def _curves(points: Sequence[Point]) -> str:
    """Draw the metric in the end by the value of one setting, a curve for each method."""
    name, values, lines = points[0].setting, sorted({point.value for point in points}), list[Line]()
    for method in dict.fromkeys(point.method for point in points):
        own = [point for point in points if point.method == method]
        places = [values.index(point.value) + 1 for point in own]  # ranges span powers of ten
        ends = [list(point.figures.values())[-1] for point in own]
        lines.append(Line(method, places, ends, "other" if lines else "first", has_points=True))
    metric = f"{points[0].metric}@{list(points[0].figures)[-1]}"
    return line_chart(lines, f"{metric} by {name}", name, metric, places=[f"{value:g}" for value in values])


@click.command()
@click.argument("names")
@click.option("--dataset", required=True)
@click.option("--methods", default="igcf-paper", show_default=True)
@common_options
def main(names: str, dataset: str, methods: str, **common: Any) -> None:
    """Play a range of values of each of NAMES; print tables, write curves to --out."""
    data, changes = load_dataset(dataset, common["data_dir"]), parse_changes(common["changes"])
    where = {name: common[name] for name in ("engine", "jobs", "address", "out", "fresh")}
    with executing(**where) as execution:
        found = sensitivity(
            data, setup_for(data, "cold-start"), names_in(methods), names_in(names), seed=common["seed"],
            settings=changes, execution=execution,
        )  # fmt: skip
    if common["out"]:
        found.write(common["out"], "sensitivity")
    show(in_style(found.tables, common["style"]))


if __name__ == "__main__":
    main()
