"""Fill the tables of docs/bench/measured.md from docs/figures/bench.json: python tools/bench_tables.py.

`igcf bench --out docs/figures` writes that file.
"""

import json
import re
from pathlib import Path

from igcf.lab.bench.report import as_text

PAGE = Path(__file__).parents[1] / "docs" / "bench" / "measured.md"
BLOCK = re.compile(r"(<!-- bench -->\n)(.*?)(<!-- end -->)", re.DOTALL)


def filled(page: str, text: str) -> str:
    """Return the page with `text` between its marks."""
    return BLOCK.sub(lambda found: f"{found[1]}{text}\n{found[3]}", page)


if __name__ == "__main__":
    document = json.loads((PAGE.parents[1] / "figures" / "bench.json").read_text(encoding="utf-8"))
    PAGE.write_text(filled(PAGE.read_text(encoding="utf-8"), as_text(document)), encoding="utf-8")
