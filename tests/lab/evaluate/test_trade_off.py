"""Successes against value."""

import json
from pathlib import Path

import numpy as np
import polars as pl
from click.testing import CliRunner

from igcf.cli.main import cli


def test_more_strength_brings_more_value_for_fewer_successes(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    items, margins = [f"i{n}" for n in range(40)], rng.uniform(1, 9, 40)
    taste = rng.normal(size=(120, 3)) @ rng.normal(size=(3, 40))
    rows = [
        {"user": f"u{user}", "item": items[item], "value": float(np.clip(3 + taste[user, item], 1, 5))}
        for user in range(120)
        for item in rng.permutation(40)[:30]
    ]
    pl.DataFrame(rows).write_csv(tmp_path / "log.csv")
    pl.DataFrame({"item": items, "title": items, "margin": margins}).write_csv(tmp_path / "items.csv")
    asked = ["evaluate", "--dataset", str(tmp_path / "log.csv"), "--items", str(tmp_path / "items.csv")]
    asked += ["--min-reactions", "10", "--rounds", "8", "--satisfied", "4"]
    told = CliRunner().invoke(cli, [*asked, "--objective-weight", "margin", "--out", str(tmp_path / "out"), "--json"])
    assert told.exit_code == 0, told.output
    points = json.loads(told.stdout)
    assert [point["strength"] for point in points][:2] == [0.0, 0.1]
    assert points[-1]["value"] > points[0]["value"]
    assert points[-1]["successes"] < points[0]["successes"]
    assert json.loads((tmp_path / "out" / "trade-off.json").read_text()) == points
    assert "<svg" in (tmp_path / "out" / "trade-off.html").read_text()
    wrong = CliRunner().invoke(cli, [*asked, "--objective-weight", "margins"])
    assert wrong.exit_code == 2
    assert "no item has the number 'margins'" in wrong.output
