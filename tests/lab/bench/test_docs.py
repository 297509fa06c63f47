import json
from pathlib import Path

from igcf.lab.bench.report import as_text

DOCS = Path(__file__).parents[3] / "docs"


def test_every_number_of_the_page_was_measured() -> None:
    """The tables of docs/bench/measured.md are those that the command printed when it wrote docs/figures/bench.json."""
    document = json.loads((DOCS / "figures" / "bench.json").read_text(encoding="utf-8"))
    page = (DOCS / "bench" / "measured.md").read_text(encoding="utf-8").splitlines()
    lines = [line for line in as_text(document).splitlines() if line]
    assert len(lines) > 30
    assert [line for line in lines if line not in page] == []
