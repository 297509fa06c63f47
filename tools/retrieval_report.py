"""Tables and figure of `tools.retrieval`."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from igcf.figures import BLUE, GREY, RED, svg
from igcf.tables import markdown_table

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLOURS = (GREY, BLUE, RED, "#55a868", "#8172b2")


def as_markdown(found: dict[str, Any]) -> str:
    """Describe one catalogue: what the index costs, then a table of what is lost."""
    exact = found["exact_ms"]
    stages = sorted({line["reactions"] for line in found["lines"]})
    intro = (
        f"{found['world']}: {found['items']:,} items, d = {found['dim']}; index of {found['lists']:,} lists built in "
        f"{found['build_cpu_s']:.0f} s of one processor, {found['build_peak_mb']:,.0f} MB more at most (the vectors: "
        f"{found['vectors_mb']:,.0f} MB). Exact: {exact['warm']:.1f} ms per decision and reaction for a user "
        f"in memory, {exact['cold']:.0f} ms for one read from the store.\n\n"
        "Score lost, first and ten items, and recall@10, for users with "
        f"{', '.join(map(str, stages))} reactions; `worst` is the first item's largest loss of any user."
    )
    first, *later = map(str, stages)
    header = ["candidates by", "lists"]
    for what in ("first", "ten", "recall"):
        header += [f"{what}: {first}", *later]
    header += ["worst", "ms", "times faster, warm", "cold"]
    groups: dict[tuple[str, int], list[dict[str, Any]]] = {}
    for line in sorted(found["lines"], key=lambda line: line["reactions"]):
        groups.setdefault((line["way"], line["nprobe"]), []).append(line)
    rows = []
    for (way, nprobe), group in groups.items():
        ms = max(line["ms"] for line in group)
        rows.append(
            (
                way,
                nprobe,
                *(f"{line[name]:.1%}" for name in ("loss", "list_loss") for line in group),
                *(f"{line['recall']:.2f}" for line in group),
                f"{max(line['worst_loss'] for line in group):.0%}",
                f"{ms:.1f}",
                f"{exact['warm'] / ms:.0f}",
                f"{exact['cold'] / ms:.0f}",
            )
        )
    return f"{intro}\n\n{markdown_table(header, rows, align='l' + 'r' * (len(header) - 1))}"


def draw_losses(measured: list[dict[str, Any]], folder: Path) -> Path:
    """Write retrieval.svg: what is lost against what a decision costs, by catalogue and number of reactions."""
    stages = sorted({line["reactions"] for line in measured[0]["lines"]})

    def draw(figure: "Figure") -> None:
        panels = figure.subplots(len(measured), len(stages), sharey="row", squeeze=False)
        for row, found in enumerate(measured):
            for column, stage in enumerate(stages):
                _panel(panels[row, column], found, stage)
            panels[row, 0].set_ylabel("score lost, ten items, %")
        handles, labels = panels[0, 0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=4)

    path = folder / "retrieval.svg"
    path.write_text(svg(draw, 9, 2.7 * len(measured) + 0.4), encoding="utf-8")
    return path


def _panel(axes: "Axes", found: dict[str, Any], stage: int) -> None:
    here = sorted((each for each in found["lines"] if each["reactions"] == stage), key=lambda each: each["nprobe"])
    ways = dict.fromkeys(each["way"] for each in found["lines"])
    for way, colour in zip(ways, COLOURS, strict=True):
        lines = [each for each in here if each["way"] == way]
        losses = [100 * each["list_loss"] for each in lines]
        axes.plot([each["ms"] for each in lines], losses, "o-", color=colour, ms=4, label=way)
    exact = found["exact_ms"]
    axes.axvline(exact["warm"], color="black", lw=0.8, ls="--", label="exact, user in memory")
    axes.axvline(exact["cold"], color="black", lw=0.8, ls=":", label="exact, user from the store")
    axes.set(xscale="log", title=f"{found['world']}, {stage} reactions", xlabel="ms per decision")
