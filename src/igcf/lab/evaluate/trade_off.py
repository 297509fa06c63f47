"""What it costs to weigh a success by a number of the items: successes against value, on validation users."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from igcf.charts import Line, line_chart, standalone
from igcf.data import Interactions
from igcf.errors import ConfigError
from igcf.item import nearest
from igcf.lab.baselines import method_named
from igcf.lab.baselines.trend import Weighted
from igcf.lab.evaluate.protocols import Setup, prepare
from igcf.lab.evaluate.tuned_settings import tuned_settings
from igcf.online import replay
from igcf.online.slates import success_weights
from igcf.pages import html_table, multiples, report_page, section
from igcf.tables import Table, as_markdown

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
        parts = [section("Curves", multiples(self.charts)), *(section(t.title, html_table(t)) for t in self.tables)]
        texts = {
            "html": report_page(self.title, self.title, "Played with validation users.", parts),
            "svg": standalone(self.title, self.charts),
            "md": "\n".join(map(as_markdown, self.tables)),
            "json": json.dumps(self.points, indent=1),
        }
        for kind, text in texts.items():
            (folder / f"{stem}.{kind}").write_text(text, encoding="utf-8")


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
    rows = []
    for strength, success, value in zip(STRENGTHS, successes, values, strict=True):
        change = f"{value / values[0] - 1:+.1%}" if values[0] else ""
        fewer = f"{success / max(successes[0], 1e-12) - 1:+.1%}"
        rows.append((f"{strength:g}", f"{success:.2f}", fewer, f"{value:.4g}", change))
    header = ("strength", "successes", "change", name, "change")
    table = Table(f"successes against {name}, per validation user", header, tuple(rows))
    title = f"{setup.dataset}: successes against {name}"
    chart = line_chart([Line("igcf", values, successes, "first", has_points=True)], title, name, "successes")
    return Study(title, points, [table], {"From strength 0 to 1": chart})
