"""Successes against value: what it costs and brings to weigh a success by a number of its item, such as a margin."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from igcf.charts import Line, line_chart
from igcf.data import Interactions
from igcf.errors import ConfigError
from igcf.item import nearest
from igcf.lab.baselines import method_named
from igcf.lab.baselines.trend import Weighted
from igcf.lab.evaluate.protocols import Setup, prepare
from igcf.lab.evaluate.tuned_settings import tuned_settings
from igcf.online.replay import replay
from igcf.online.slates import success_weights
from igcf.pages import html_table, report_page, section
from igcf.tables import Table

STRENGTHS = (0.0, 0.1, 0.2, 0.3, 0.5, 0.7, 1.0)
"""Strengths of the weight that are played."""


@dataclass(frozen=True)
class TradeOff:
    """Means per user at one strength."""

    strength: float
    successes: float
    value: float


def trade_off(data: Interactions, setup: Setup, name: str, *, seed: int = 0) -> list[TradeOff]:
    """Play igcf with validation users at every strength of the weight `name`, a number of the items."""
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
        per_user = (is_success.sum(axis=(1, 2)), (is_success * worth[shown.rows]).sum(axis=(1, 2)))
        points.append(TradeOff(strength, *(float(each.mean()) for each in per_user)))
    return points


def trade_off_table(points: Sequence[TradeOff], name: str) -> Table:
    """Lay out the points beside their change from no weight."""
    first = points[0]
    rows = tuple(
        (
            f"{point.strength:g}",
            f"{point.successes:.2f}",
            f"{point.successes / max(first.successes, 1e-12) - 1:+.1%}",
            f"{point.value:.4g}",
            f"{point.value / first.value - 1:+.1%}" if first.value else "",
        )
        for point in points
    )
    header = ("strength", "successes", "change", name, "change")
    return Table(f"successes against {name}, per validation user", header, rows)


def write_trade_off(points: Sequence[TradeOff], name: str, title: str, folder: Path) -> None:
    """Write `trade-off.html` with curve and table, and `trade-off.json`."""
    folder.mkdir(parents=True, exist_ok=True)
    successes, values = [point.successes for point in points], [point.value for point in points]
    chart = line_chart([Line("igcf", values, successes, "first", has_points=True)], title, name, "successes")
    table = trade_off_table(points, name)
    parts = [section("Curve", chart, "From strength 0 to 1."), section(table.title, html_table(table))]
    page = report_page(title, title, "Played with validation users.", parts)
    (folder / "trade-off.html").write_text(page, encoding="utf-8")
    (folder / "trade-off.json").write_text(json.dumps([asdict(point) for point in points], indent=1), encoding="utf-8")
