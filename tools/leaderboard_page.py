"""Write docs/leaderboard.md from the results files in research/leaderboard/: python -m tools.leaderboard_page."""

import json
from pathlib import Path
from typing import Any

from igcf.lab.evaluate.results import SIGNIFICANT, holm
from igcf.lab.suite import REFERENCE, SUITES, mean_rank
from igcf.tables import markdown_table

ROOT = Path(__file__).parents[1]
HEAD = """# Leaderboard

Agents on the environments of igcf: users outside the training data react as they did in the log, under the
[protocols](protocols.md) of all our experiments. Figures are satisfied items per user (cumulative nDCG for slates) and
their standard errors. `+` and `-` mark what is better and worse than `igcf`, tested user by user (Wilcoxon, Holm's
correction over all tests of a table). Settings are those found on validation users of the log, or defaults.

`igcf lab run --agent mypackage:MyAgent` adds a row, `igcf lab verify FILE` recomputes one ([how](howto/agent.md)).
This page is made from `research/leaderboard/` by `python -m tools.leaderboard_page`.
"""


def page(folder: Path) -> str:
    """Return the page of all results files below a folder, a table for every suite."""
    parts = [HEAD]
    for suite in SUITES:
        files = [json.loads(file.read_text(encoding="utf-8")) for file in sorted((folder / suite).glob("*.json"))]
        if files:
            parts.append(f"## {suite}\n\n{table(suite, files)}\n\n{made_with(files)}\n")
    return "\n".join(parts)


def table(suite: str, files: list[dict[str, Any]]) -> str:
    """Return the table of a suite, the best mean rank first."""
    names = [entry.name for entry in SUITES[suite] if any(entry.name in each["environments"] for each in files)]
    means = {
        name: {each["agent"]: each["environments"][name]["score"] for each in files if name in each["environments"]}
        for name in names
    }
    marks, rows = marked(files), []
    for each in sorted(files, key=lambda one: mean_rank(means, one["agent"])):
        agent, own = each["agent"], each["environments"]
        cells = [
            f"{own[name]['score']:.2f}{marks.get((agent, name), '')} ± {own[name]['error']:.2f}" if name in own else ""
            for name in names
        ]
        rows.append((f"`{agent}`", *cells, f"{mean_rank(means, agent):.1f}"))
    return markdown_table(("agent", *names, "mean rank"), rows, align="l" + "r" * (len(names) + 1))


def marked(files: list[dict[str, Any]]) -> dict[tuple[str, str], str]:
    """Return + or - where an agent differs from igcf, all tests of the table as one family."""
    found = [
        (each["agent"], name, own[f"against_{REFERENCE}"])
        for each in files
        for name, own in each["environments"].items()
        if f"against_{REFERENCE}" in own
    ]
    values = holm([test["p"] for _, _, test in found])
    return {
        (agent, name): "+" if test["difference"] > 0 else "-"
        for (agent, name, test), p in zip(found, values, strict=True)
        if p < SIGNIFICANT
    }


def made_with(files: list[dict[str, Any]]) -> str:
    """Say with which versions and seeds."""
    versions = sorted({f"igcf {each['igcf']}, Python {each['python']}, seed {each['seed']}" for each in files})
    return f"{len(files)} agents; {'; '.join(versions)}."


if __name__ == "__main__":
    (ROOT / "docs" / "leaderboard.md").write_text(page(ROOT / "research" / "leaderboard"), encoding="utf-8")
