"""Studies on validation users: how much a setting matters, and what it costs to weigh a success by a number."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from igcf.charts import Line, line_chart, standalone
from igcf.data import Interactions
from igcf.errors import ConfigError
from igcf.item import nearest
from igcf.lab.baselines import Method, method_named
from igcf.lab.baselines.trend import Weighted
from igcf.lab.evaluate.experiment import grid_jobs
from igcf.lab.evaluate.protocols import Setup, prepare
from igcf.lab.evaluate.running import HERE, Execution, run_jobs
from igcf.lab.evaluate.tuned_settings import tuned_settings
from igcf.online import replay
from igcf.online.slates import success_weights
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
STRENGTHS = (0.0, 0.1, 0.2, 0.3, 0.5, 0.7, 1.0)
"""Strengths of the weight of a success that are played."""


@dataclass(frozen=True, eq=False)
class Study:
    """What was found, as plain values, tables and charts."""

    title: str
    points: list[dict[str, Any]]
    tables: list[Table]
    charts: dict[str, str]

    def write(self, folder: Path, stem: str) -> None:
        """Write the page with curves and tables, and either alone: `.html`, `.svg`, `.md` and `.json`."""
        folder.mkdir(parents=True, exist_ok=True)
        curves, tables = (
            section("Curves", multiples(self.charts)),
            (section(t.title, html_table(t)) for t in self.tables),
        )
        texts = {
            "html": report_page(self.title, self.title, "Played with validation users.", [curves, *tables]),
            "svg": standalone(self.title, self.charts),
            "md": "\n".join(map(as_markdown, self.tables)),
            "json": json.dumps(self.points, indent=1),
        }
        for kind, text in texts.items():
            (folder / f"{stem}.{kind}").write_text(text, encoding="utf-8")


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
        raise ConfigError(f"--sensitivity needs a number with known values, got {name}; take {', '.join(VALUES)}")
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


def trade_off(data: Interactions, setup: Setup, name: str, *, seed: int = 0) -> Study:
    """Play igcf at every strength of the weight `name`, a number of the items such as a margin: successes and value."""
    known = {} if data.attributes is None else data.attributes.numbers
    if name not in known:
        raise ConfigError(f"no item has the number {name[:80]!r}{nearest(name, known)}; give it with --items FILE")
    case, method = prepare(data, setup, seed, "validation"), method_named("igcf")
    settings = tuned_settings(setup.dataset, setup.protocol, "igcf", None)
    fitted = method.fit(case.task, settings, np.random.default_rng(seed))
    numbers = known[name]
    worth = np.where(np.isnan(numbers), np.nanmean(numbers), numbers)
    points = []
    for strength in STRENGTHS:
        learner = method.play(fitted, settings)
        learner.policy = Weighted(learner.policy, success_weights(numbers, name, strength))  # type: ignore[attr-defined]
        rng = np.random.default_rng(seed)
        shown = replay(learner, case.truth, rounds=case.task.rounds, slate=case.task.slate, rng=rng)
        is_success = shown.values >= case.task.satisfied
        found = {"successes": is_success.sum(axis=(1, 2)), "value": (is_success * worth[shown.rows]).sum(axis=(1, 2))}
        points.append({"strength": strength, **{what: float(each.mean()) for what, each in found.items()}})
    successes, values = ([point[what] for point in points] for what in ("successes", "value"))
    rows = tuple(
        (
            f"{point['strength']:g}",
            f"{point['successes']:.2f}",
            f"{point['successes'] / max(successes[0], 1e-12) - 1:+.1%}",
            f"{point['value']:.4g}",
            f"{point['value'] / values[0] - 1:+.1%}" if values[0] else "",
        )
        for point in points
    )
    header = ("strength", "successes", "change", name, "change")
    table = Table(f"successes against {name}, per validation user", header, rows)
    title = f"{setup.dataset}: successes against {name}"
    chart = line_chart([Line("igcf", values, successes, "first", has_points=True)], title, name, "successes")
    return Study(title, points, [table], {"From strength 0 to 1": chart})
