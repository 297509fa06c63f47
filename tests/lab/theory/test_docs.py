import json
from pathlib import Path

from igcf.lab.theory.tables import as_text, coverage_table

DOCS = Path(__file__).parents[3] / "docs"


def test_every_number_in_the_tables_of_the_page_was_measured() -> None:
    """The rows of docs/theory.md are those that the command printed when it wrote docs/figures/theory.json."""
    document = json.loads((DOCS / "figures" / "theory.json").read_text(encoding="utf-8"))
    pages = [DOCS / "theory.md", *(DOCS / "theory").glob("*.md")]
    page = [line for each in pages for line in each.read_text(encoding="utf-8").splitlines()]
    left_out = {row for row in coverage_table(document).splitlines() if "| 0 | 0." in row or "| 5 | 0." in row}
    rows = [row for row in as_text(document).splitlines() if row.startswith("| ") and row not in left_out]
    assert len(rows) > 30
    assert [row for row in rows if row not in page] == []
