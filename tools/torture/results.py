"""Outcomes of trials: kept in a file that further slices of time add to, and shown in one table."""

import json
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from igcf.tables import Table, as_markdown

FILE = "trials.jsonl"
WHOLE = "the whole store at the end of a round"
"""The last trial of a round: invariants of the store, integrity of its file."""
LONGEST = 2_000
"""Characters of a problem that are kept."""


@dataclass(frozen=True)
class Trial:
    """One thing that was broken and what was found afterwards; several where they are too small to list one by one."""

    scenario: str
    store: str
    problems: list[str] = field(default_factory=list)
    recovery_s: float | None = None
    """From the blow until the service was ready again."""
    tried: int = 1


def append(out: Path, trial: Trial, run: dict[str, Any]) -> None:
    """Add a trial to the file of this folder; `run` names the scenario of the command line, seed and commit."""
    out.mkdir(parents=True, exist_ok=True)
    row = asdict(trial) | {"problems": [problem[:LONGEST] for problem in trial.problems]} | run
    with (out / FILE).open("a", encoding="utf-8") as file:
        file.write(json.dumps(row) + "\n")


def read(out: Path) -> list[dict[str, Any]]:
    """Read all trials so far."""
    file = out / FILE
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()] if file.exists() else []


def summary(rows: Iterable[dict[str, Any]]) -> Table:
    """Count the trials by scenario and store, with the time to recovery where servers were started as usual."""
    grouped: dict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
    for row in rows:
        grouped[row["scenario"], row["store"]].append(row)
    cells = []
    for (scenario, store), found in sorted(grouped.items()):
        times = [row["recovery_s"] for row in found if row["recovery_s"] is not None]
        quantiles = [f"{value:.1f}" for value in np.quantile(times, [0.5, 0.99])] if times else ["", ""]
        tried, failed = sum(row["tried"] for row in found), sum(bool(row["problems"]) for row in found)
        cells.append((scenario, store, f"{tried:,}", str(failed), *quantiles))
    header = ("scenario", "store", "tried", "failed", "recovery p50 s", "recovery p99 s")
    return Table("What was broken, and what was wrong afterwards", header, tuple(cells), n_keys=2)


def write_report(out: Path) -> Path:
    """Write the page: one table, then every failure with the seed that repeats it."""
    rows = read(out)
    commits = sorted({row["commit"] for row in rows})
    lines = ["# Torture of the service", "", as_markdown(summary(rows)), f"Commits: {', '.join(commits)}.", ""]
    for row in (row for row in rows if row["problems"]):
        lines += [f"## {row['scenario']}, {row['store']}: `--only {row['only']} --seed {row['seed']}`", ""]
        lines += [*(f"- {problem}" for problem in row["problems"][:10]), ""]
    page = out / "report.md"
    page.write_text("\n".join(lines), encoding="utf-8")
    return page
