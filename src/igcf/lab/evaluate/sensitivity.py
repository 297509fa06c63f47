"""How much a setting matters: one setting of a method after the other over a range of values, on validation users."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from igcf.charts import Line, line_chart, standalone
from igcf.data import Interactions
from igcf.errors import ConfigError
from igcf.lab.baselines import Method, method_named
from igcf.lab.evaluate.experiment import grid_jobs
from igcf.lab.evaluate.protocols import Setup
from igcf.lab.evaluate.running import HERE, Execution, run_jobs
from igcf.lab.evaluate.tuned_settings import tuned_settings
from igcf.pages import html_table, multiples, report_page, section
from igcf.tables import Table, as_markdown

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
) -> list[Point]:
    """Play the validation users with every value of each of the settings `names`, one setting at a time."""
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
    return points


def values_of(method: Method, name: str, chosen: Mapping[str, Any]) -> list[Any]:
    """Return the values of a setting that are tried, the chosen one among them."""
    method.settings({name: chosen.get(name)})  # a setting that the method does not have is refused
    values = VALUES.get(name) or (method.paper_grid or {}).get(name) or method.grid.get(name)
    if not values or not all(isinstance(each, int | float) for each in values):
        raise ConfigError(f"--sensitivity needs a number with known values, got {name}; take {', '.join(VALUES)}")
    return sorted({*values, chosen[name]})


def sensitivity_tables(points: Sequence[Point]) -> list[Table]:
    """Return one table per setting: a row for each method and value."""
    tables = []
    for name in dict.fromkeys(point.setting for point in points):
        own = [point for point in points if point.setting == name]
        rows = tuple(
            (
                f"{point.method}, {name} = {point.value:g}" + (" (chosen)" if point.is_chosen else ""),
                *(f"{figure:.3f}" for figure in point.figures.values()),
            )
            for point in own
        )
        header = ("setting", *(f"{own[0].metric}@{t}" for t in own[0].figures))
        tables.append(Table(f"{name}: validation users, other settings as chosen", header, rows))
    return tables


def sensitivity_charts(points: Sequence[Point]) -> dict[str, str]:
    """Draw one chart per setting: the metric in the end by its value, a curve for each method."""
    charts = {}
    for name in dict.fromkeys(point.setting for point in points):
        values = sorted({point.value for point in points if point.setting == name})
        lines: list[Line] = []
        for method in dict.fromkeys(point.method for point in points):
            own = [point for point in points if (point.method, point.setting) == (method, name)]
            places = [values.index(point.value) + 1 for point in own]  # ranges span powers of ten
            ends = [list(point.figures.values())[-1] for point in own]
            lines.append(Line(method, places, ends, "other" if lines else "first", has_points=True))
        metric = f"{points[0].metric}@{list(points[0].figures)[-1]}"
        words = [f"{value:g}" for value in values]
        charts[name] = line_chart(lines, f"{metric} by {name}", name, metric, places=words)
    return charts


def write_sensitivity(points: Sequence[Point], title: str, folder: Path) -> None:
    """Write `sensitivity.html` with curves and tables, and either alone: `sensitivity.svg`, `.md` and `.json`."""
    folder.mkdir(parents=True, exist_ok=True)
    tables, charts = sensitivity_tables(points), sensitivity_charts(points)
    parts = [
        section("Curves", multiples(charts)),
        *(section(t.title, html_table(t)) for t in tables),
    ]
    page = report_page(title, title, "One setting at a time, played with validation users.", parts)
    (folder / "sensitivity.html").write_text(page, encoding="utf-8")
    (folder / "sensitivity.svg").write_text(standalone(title, charts), encoding="utf-8")
    (folder / "sensitivity.md").write_text("\n".join(map(as_markdown, tables)), encoding="utf-8")
    document = [asdict(point) for point in points]
    (folder / "sensitivity.json").write_text(json.dumps(document, indent=1), encoding="utf-8")
