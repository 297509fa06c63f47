"""Figure of docs/bench.md."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from igcf.bench.report import all_rows
from igcf.figures import BLUE, GREY, RED, svg

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def draw_figure(document: dict[str, Any], folder: Path) -> Path:
    """Write bench.svg."""
    path = folder / "bench.svg"
    path.write_text(figure_text(document), encoding="utf-8")
    return path


def figure_text(document: dict[str, Any]) -> str:
    """Draw all ratios with their targets, and the growth of a training step, as SVG."""
    rows = all_rows(document)
    curves = document["growth"]["curves"]

    def draw(figure: "Figure") -> None:
        grid = figure.add_gridspec(2, len(curves), height_ratios=[0.19 * len(rows) + 0.4, 2.2])
        _ratios(figure.add_subplot(grid[0, :]), rows)
        for column, curve in enumerate(curves):
            _growth(figure.add_subplot(grid[1, column]), curve)

    return svg(draw, 10, 2.6 + 0.19 * len(rows))


def _ratios(axes: "Axes", rows: list[dict[str, Any]]) -> None:
    colours = {True: BLUE, False: RED, None: GREY}
    places = list(range(len(rows)))
    axes.barh(places, [row["ratio"] for row in rows], color=[colours[row["met"]] for row in rows], height=0.7)
    for place, row in zip(places, rows, strict=True):
        if row["at_most"] is not None:
            axes.plot([row["at_most"]] * 2, [place - 0.45, place + 0.45], color="black", lw=1.5)
    axes.set_yticks(places, [f"{row['job']} / {row['against']} ({row['clock']})" for row in rows], fontsize=6)
    axes.invert_yaxis()
    axes.margins(y=0.01)
    axes.grid(visible=False)
    axes.axvline(1.0, color="black", lw=0.5, ls=":")
    axes.set(xscale="log", xlabel="our time / reference (black: target; red: missed)")


def _growth(axes: "Axes", curve: dict[str, Any]) -> None:
    sizes = [point["size"] for point in curve["points"]]
    axes.plot(sizes, [point["seconds"] for point in curve["points"]], "o-", color=BLUE, ms=3)
    title = f"one step: {curve['against']}^{curve['exponents']['seconds']:.2f}"
    axes.set(xscale="log", yscale="log", xlabel=curve["against"], ylabel="seconds", title=title)
