"""Fill the tables of docs/results.md from a folder of reports: python tools/results_tables.py FOLDER.

FOLDER holds one report per table, `<table>-<dataset>`, as `igcf reproduce --out FOLDER` writes them, those of several
seeds in its folder `seeds`. A table without a report stays as it is; so do rows of methods that a report does not have.
"""

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from igcf.evaluate.reproduce import PAPER_METHODS

PAGE = Path(__file__).parents[1] / "docs" / "results.md"
BLOCK = re.compile(r"(<!-- table (\S+) -->\n)(.*?)(<!-- end -->)", re.DOTALL)


def filled(page: str, folder: Path) -> str:
    """The page with every table that has a report in `folder`."""

    def replaced(found: re.Match[str]) -> str:
        report = folder / found[2] / "results.json"
        if not report.is_file():
            return found[0]
        rows = table_rows(json.loads(report.read_text()))
        return found[1] + "\n".join(merged(found[3], rows)) + "\n" + found[4]

    return BLOCK.sub(replaced, page)


def table_rows(results: dict[str, Any]) -> dict[str, list[str]]:
    """Cells by row name; `""` is the header."""
    paper = {(each["method"], each["metric"]): each["paper"] for each in results["paper"]}
    starred = {
        (each["method"], each["metric"]): each["p_corrected"] < 0.05 and each["difference"] > 0
        for each in results["comparisons"]
    }
    rows: dict[str, list[str]] = {"": []}
    for each in results["summary"]:
        name = each["method"]
        for header, key, spread in columns(each):
            if header not in rows[""]:
                rows[""].append(header)
            digits = 4 if header.startswith("R@") else 2
            text = f"{spread['mean']:.{digits}f}" + ("*" if starred.get((name, key)) else "")
            text += f" ± {spread['std']:.{digits}f}" if spread.get("std") is not None and len(each["seeds"]) > 1 else ""
            printed = paper.get((name, key))
            rows.setdefault(name, []).append(text if printed is None else f"{text} ({printed:g})")
    if results["protocol"] == "cold-start":  # the other protocols fit the same models
        rows[""].append("fit s")
        for each in results["summary"]:
            rows[each["method"]].append(f"{each['seconds']['pretrain']['mean']:.0f}")
    return rows


def columns(row: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, float]]]:
    """Header, name of the metric, and mean and deviation, of one row of one session."""
    slate = row["slate"]
    if slate > 1:
        for t, spread in row["ndcg"].items():
            yield f"nDCG{slate}@{t}", f"ndcg_{slate}@{t}", spread
        return
    for t, spread in row["precision"].items():
        yield f"P@{t}", f"precision@{t}", spread
    last = list(row["precision"])[-1]
    if row["after_drift"]:
        yield f"P {int(last) // 2 + 1}-{last}", f"after_drift@{last}", row["after_drift"][last]
    yield f"R@{last}", f"recall@{last}", row["recall"][last]
    if len(row["seeds"]) > 1:
        yield f"best of {len(row['seeds'])}, P@{last}", "best", {"mean": row["best"]["precision"][last]}


def merged(before: str, rows: dict[str, list[str]]) -> list[str]:
    """The lines of a table: new rows in the place of old ones of the same name."""
    cells = {line.split("|")[1].strip(): line for line in before.splitlines()[2:] if line.startswith("|")}
    header = "| " + " | ".join(["method", *rows[""]]) + " |"
    cells.update({name: "| " + " | ".join([name, *values]) + " |" for name, values in rows.items() if name})
    names = sorted(cells, key=lambda name: PAPER_METHODS.index(name.split()[0]))
    return [header, "|" + "---|" * (len(rows[""]) + 1), *(cells[name] for name in names)]


if __name__ == "__main__":
    PAGE.write_text(filled(PAGE.read_text(), Path(sys.argv[1])))
