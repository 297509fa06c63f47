"""Fill the tables of docs/results/ from docs/results-tables.md: python -m tools.results_page.

`make results` runs the published experiments, writes the page of all tables and then calls this. A table
stands between two marks; the first one names the experiment and the columns:

    <!-- table cold-start-ml-1m: P@10, P@120, fit s -->
    <!-- end -->

Without columns the experiment's first table is taken as it is. In brackets stands what the paper prints, and a star
where a model of ours is better than all that it is compared with. An experiment that was not run leaves a sentence.
"""

import re
from collections import Counter
from pathlib import Path

from igcf.lab.evaluate.paper import printed
from igcf.tables import markdown_table
from tools.published import PUBLISHED

DOCS = Path(__file__).parents[1] / "docs"
PAGES = [DOCS / "results.md", *sorted((DOCS / "results").glob("*.md"))]
MARK = re.compile(r"(<!-- table (?P<name>[\w.-]+)(?:: (?P<columns>[^>]+))? -->\n).*?(<!-- end -->)", re.DOTALL)
COMMIT = re.compile(r"(<!-- commit -->\n).*?(<!-- end -->)", re.DOTALL)
METRICS = {
    "P@": "precision@",
    "R@": "recall@",
    "nDCG3@": "ndcg_3@",
    "nDCG5@": "ndcg_5@",
    "nDCG@": "ndcg@",
    "Recall@": "recall@",
    "P 61-": "after_drift@",
}
"""How columns begin, and how the same figures are called in comparisons and in the paper's tables."""
NOT_RUN = "*Not run yet.*"

Rows = list[list[str]]
"""A table as rows of cells, its header first."""


def tables_of(page: str) -> dict[str, list[Rows]]:
    """Return the tables of each experiment on the page of all tables."""
    found: dict[str, list[Rows]] = {}
    for section in re.split(r"^## ", page, flags=re.MULTILINE)[1:]:
        blocks = re.findall(r"(?:^\|.*\|\n)+", section + "\n", flags=re.MULTILINE)
        found[section.splitlines()[0].strip()] = [_rows_of(block) for block in blocks]
    return found


def _rows_of(block: str) -> Rows:
    header, _, *rows = ([cell.strip() for cell in line.strip("|").split("|")] for line in block.splitlines())
    return [header, *rows]


def short_table(name: str, columns: list[str], tables: list[Rows]) -> str:
    """Write some columns of an experiment's tables, joined by the name in the first one; of equal ones the first."""
    experiment = next(each for each in PUBLISHED if each.name == name)
    paper = printed(experiment.protocol, experiment.dataset)
    comparisons = [row for table in tables if table[0][1] == "against" for row in table[1:]]
    is_better = {(row[0], row[2]): True for row in comparisons}
    for row in comparisons:
        is_better[row[0], row[2]] &= row[3].startswith("+") and row[-1].endswith("*")
    figures: dict[str, dict[str, str]] = {}
    for header, *rows in (table for table in tables if table[0][0] == tables[0][0][0] and table[0][1] != "against"):
        for row in rows:
            figures[row[0]] = dict(zip(header, row, strict=True)) | figures.get(row[0], {})
    lines = []
    for method, own in figures.items():
        cells = [method]
        for column in columns:
            metric = metric_of(column)
            star = "*" if is_better.get((method, metric)) and method.startswith("igcf") else ""
            theirs = paper.get(method, {}).get(metric)
            cells.append(own[column].strip("*") + star + ("" if theirs is None else f" ({theirs:g})"))
        lines.append(cells)
    return _markdown([tables[0][0][0], *columns], lines)


def metric_of(column: str) -> str:
    """Return the name of a column's figure in comparisons and in the paper's tables."""
    for begin, name in METRICS.items():
        if column.startswith(begin):
            return name + column.removeprefix(begin)
    return column


def filled(page: str, all_tables: str) -> str:
    """Return the page with every marked table and the commit as the page of all tables has them."""
    known = tables_of(all_tables)

    def table(found: re.Match[str]) -> str:
        tables = known.get(found["name"])
        if tables is None:
            text = NOT_RUN
        elif found["columns"]:
            text = short_table(found["name"], [each.strip() for each in found["columns"].split(",")], tables)
        else:
            text = _markdown(tables[0][0], tables[0][1:])
        return f"{found[1]}{text}\n{found[4]}"

    commits = Counter(
        re.findall(r"^`.+` at commit (\w+(?: with uncommitted changes)?)", all_tables, flags=re.MULTILINE)
    )
    counts = ", ".join(
        f"{number} experiment{'s' if number > 1 else ''} at commit {commit}" for commit, number in commits.items()
    )
    sentence = f"Made by `python -m tools.published`: {counts}."
    return COMMIT.sub(lambda found: f"{found[1]}{sentence}\n{found[2]}", MARK.sub(table, page))


def _markdown(header: list[str], rows: Rows) -> str:
    return markdown_table(header, rows, align="l" + "r" * (len(header) - 1))


if __name__ == "__main__":
    tables_text = (DOCS / "results-tables.md").read_text(encoding="utf-8")
    for each in PAGES:
        each.write_text(filled(each.read_text(encoding="utf-8"), tables_text), encoding="utf-8")
