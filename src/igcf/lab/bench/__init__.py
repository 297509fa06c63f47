"""Speed: what igcf does beside the bare operations that any implementation must do (docs/bench.md)."""

from igcf.lab.bench.measure import FULL, QUICK, Row, Sizes, compared, interleaved
from igcf.lab.bench.report import PARTS, as_text, run_bench

__all__ = ["FULL", "PARTS", "QUICK", "Row", "Sizes", "as_text", "compared", "interleaved", "run_bench"]
