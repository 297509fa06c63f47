import json
from pathlib import Path

from igcf.bench.tables import as_text

DOCS = Path(__file__).parents[2] / "docs"


def test_every_number_of_the_page_was_measured() -> None:
    """The tables of docs/bench.md are those that the command printed when it wrote docs/figures/bench.json."""
    document = json.loads((DOCS / "figures" / "bench.json").read_text(encoding="utf-8"))
    page = (DOCS / "bench.md").read_text(encoding="utf-8").splitlines()
    lines = [line for line in as_text(document).splitlines() if line]
    assert len(lines) > 30
    assert [line for line in lines if line not in page] == []


def test_the_figure_of_the_page_exists_and_is_small() -> None:
    assert "figures/bench.svg" in (DOCS / "bench.md").read_text(encoding="utf-8")
    assert (DOCS / "figures" / "bench.svg").stat().st_size < 300_000
