"""Speed: what igcf does beside the bare operations that any implementation must do (docs/bench.md)."""

from igcf.bench.report import PARTS, run_bench
from igcf.bench.sizes import FULL, LARGE, QUICK, Sizes
from igcf.bench.tables import as_text
from igcf.bench.timing import Row, compared, interleaved

__all__ = ["FULL", "LARGE", "PARTS", "QUICK", "Row", "Sizes", "as_text", "compared", "interleaved", "run_bench"]
