import json
import re
from pathlib import Path

from igcf.figures import standalone
from igcf.lab.bench.plots import growth_charts, ratio_charts
from igcf.lab.bench.tables import as_text

DOCS = Path(__file__).parents[3] / "docs"


def test_every_number_of_the_page_was_measured() -> None:
    """The tables of docs/bench.md are those that the command printed when it wrote docs/figures/bench.json."""
    document = json.loads((DOCS / "figures" / "bench.json").read_text(encoding="utf-8"))
    page = (DOCS / "bench.md").read_text(encoding="utf-8").splitlines()
    lines = [line for line in as_text(document).splitlines() if line]
    assert len(lines) > 30
    assert [line for line in lines if line not in page] == []


def test_the_figures_of_the_page_exist_and_are_those_of_the_numbers() -> None:
    document = json.loads((DOCS / "figures" / "bench.json").read_text(encoding="utf-8"))
    for name, charts in (("bench.svg", ratio_charts(document)), ("bench-growth.svg", growth_charts(document))):
        assert f"figures/{name}" in (DOCS / "bench.md").read_text(encoding="utf-8")
        drawn = (DOCS / "figures" / name).read_text(encoding="utf-8")
        assert len(drawn) < 60_000
        assert drawn == standalone(re.findall("<title>(.*)</title>", drawn)[0], charts)
