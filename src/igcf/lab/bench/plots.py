"""Charts of docs/bench.md and of the page that `igcf bench --out` writes."""

from pathlib import Path
from typing import Any

from igcf.charts import Bar, Tone, bar_chart
from igcf.curves import Frame, Line, line_chart
from igcf.figures import standalone
from igcf.lab.bench.report import all_rows
from igcf.tables import short_number

TONES: dict[bool | None, Tone] = {True: "second", False: "bad", None: "other"}


def draw_figures(document: dict[str, Any], folder: Path) -> list[Path]:
    """Write bench.svg, all ratios, and bench-growth.svg, how a training step grows."""
    paths = {
        folder / "bench.svg": standalone("Our time / that of the reference", ratio_charts(document)),
        folder / "bench-growth.svg": standalone("How a training step grows", growth_charts(document)),
    }
    for path, text in paths.items():
        path.write_text(text, encoding="utf-8")
    return list(paths)


def ratio_charts(document: dict[str, Any]) -> dict[str, str]:
    """Draw all ratios with their targets, on a logarithmic scale."""
    rows = all_rows(document)
    bars = [
        Bar(
            f"{row['job']} / {row['against']}" + (", by the clock" if row["clock"] == "wall" else ""),
            row["ratio"],
            short_number(row["ratio"]),
            TONES[row["met"]],
            target=row["at_most"],
        )
        for row in rows
    ]
    return {"": bar_chart(bars, "Our time / that of the reference", log_from=min(row["ratio"] for row in rows) / 2)}


def growth_charts(document: dict[str, Any]) -> dict[str, str]:
    """Draw how a training step grows with each size."""
    found = {}
    for curve in document["growth"]["curves"]:
        sizes, seconds = ([point[name] for point in curve["points"]] for name in ("size", "seconds"))
        line = Line(
            f"grows as {curve['against']}^{curve['exponents']['seconds']:.2f}", sizes, seconds, "first", has_points=True
        )
        title = f"by {curve['against']}"
        frame = Frame(curve["against"], "seconds", x="log", y="log")
        found[title] = line_chart([line], f"One training step, {title}", frame)
    return found
