"""Fill the tables of docs/results.md from a folder of reports: python docs/results_tables.py FOLDER.

FOLDER holds one report per table, `<table>-<dataset>`, as `igcf reproduce --out FOLDER` writes them. A table without
a report there stays as it is; rows of methods that a report does not have stay too.
"""

import json
import re
import sys
from pathlib import Path
from typing import Any

PAGE = Path(__file__).with_name("results.md")
BLOCK = re.compile(r"(<!-- table (\S+) -->\n)(.*?)(<!-- end -->)", re.DOTALL)
ORDER = ("random", "pop", "pop-satisfied", "mf", "icf-ucb", "icf-ts", "nicf", "pca-gp", "igcf-paper", "igcf")


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
    paper = {(each["method"], each["metric"]): each["paper"] for each in results.get("paper", [])}
    starred = {
        (each["method"], each["metric"]): each["p_corrected"] < 0.05 and each["difference"] > 0
        for each in results["comparisons"]
    }
    rows: dict[str, list[str]] = {"": []}
    for each in results["summary"]:
        name, slate, n_seeds = each["method"], each["slate"], len(each["seeds"])
        cells = rows.setdefault(name, [])
        for metric in ("precision", "after_drift", "recall") if slate == 1 else ("ndcg",):
            for t, spread in each[metric].items():
                if metric in ("after_drift", "recall") and t != list(each[metric])[-1]:
                    continue
                label = {"precision": "P", "recall": "R", "ndcg": f"nDCG{slate}", "after_drift": "drift"}[metric]
                key = f"{metric}@{t}" if slate == 1 else f"{metric}_{slate}@{t}"
                header = f"{label}@{t}" if metric != "after_drift" else f"P {int(t) // 2 + 1}-{t}"
                if header not in rows[""]:
                    rows[""].append(header)
                digits = 4 if metric == "recall" else 2
                text = f"{spread['mean']:.{digits}f}" + ("*" if starred.get((name, key)) else "")
                text += f" ± {spread['std']:.{digits}f}" if n_seeds > 1 else ""
                if (printed := paper.get((name, key))) is not None:
                    text += f" ({printed:g})"
                cells.append(text)
    seconds: dict[str, list[float]] = {}
    for row in results["rows"]:
        seconds.setdefault(row["method"], []).append(row["seconds"]["pretrain"])
    rows[""].append("fit s")
    for name, values in seconds.items():
        rows[name].append(f"{sum(values) / len(values):.0f}")
    return rows


def merged(before: str, rows: dict[str, list[str]]) -> list[str]:
    """The lines of a table: new rows in the place of old ones of the same name."""
    cells = {line.split("|")[1].strip(): line for line in before.splitlines()[2:] if line.startswith("|")}
    header = "| " + " | ".join(["method", *rows[""]]) + " |"
    cells.update({name: "| " + " | ".join([name, *values]) + " |" for name, values in rows.items() if name})
    names = sorted(cells, key=lambda name: (ORDER.index(name) if name in ORDER else -1, 0))
    return [header, "|" + "---|" * (len(rows[""]) + 1), *(cells[name] for name in names)]


if __name__ == "__main__":
    PAGE.write_text(filled(PAGE.read_text(), Path(sys.argv[1])))
