"""The tables and the figure of `igcf.bench.retrieval`."""

from pathlib import Path
from typing import Any

COLOURS = ("#999999", "#4878a8", "#c44e52", "#55a868", "#8172b2")


def as_markdown(found: dict[str, Any]) -> str:
    """One table, and what the index costs."""
    exact = found["exact_ms"]
    lines = [
        f"{found['world']}: {found['items']:,} items, d = {found['dim']}; index of {found['lists']:,} lists built in "
        f"{found['build_cpu_s']:.0f} s of one processor, {found['build_peak_mb']:,.0f} MB more at most (the vectors: "
        f"{found['vectors_mb']:,.0f} MB). Exact: {exact['warm']:.1f} ms per decision and reaction for a user "
        f"in memory, {exact['cold']:.0f} ms for one read from the store.",
        "",
        "| reactions | candidates by | lists asked | lost score, first item | worst | ten items | recall@10 | ms | "
        "times faster, warm | cold |",
        "|--:|---|--:|--:|--:|--:|--:|--:|--:|--:|",
    ]
    for line in found["lines"]:
        lines.append(
            f"| {line['reactions']} | {line['way']} | {line['nprobe']} | {line['loss']:.2%} | {line['worst_loss']:.2%} "
            f"| {line['list_loss']:.2%} | {line['recall']:.2f} | {line['ms']:.2f} | {exact['warm'] / line['ms']:.1f} "
            f"| {exact['cold'] / line['ms']:.0f} |"
        )
    return "\n".join(lines)


def draw(worlds: list[dict[str, Any]], folder: Path) -> Path:
    """Write retrieval.svg: what is lost against what a decision costs, by catalogue and number of reactions."""
    import matplotlib
    from matplotlib.figure import Figure

    stages = sorted({line["reactions"] for line in worlds[0]["lines"]})
    ways = list(dict.fromkeys(line["way"] for line in worlds[0]["lines"]))
    with matplotlib.rc_context({"svg.hashsalt": "igcf", "svg.fonttype": "none", "font.size": 8}):
        figure = Figure(figsize=(9, 2.7 * len(worlds) + 0.4), layout="constrained")
        panels = figure.subplots(len(worlds), len(stages), sharey="row", squeeze=False)
        for row, found in enumerate(worlds):
            for column, stage in enumerate(stages):
                axes = panels[row, column]
                for way, colour in zip(ways, COLOURS, strict=True):
                    lines = [each for each in found["lines"] if (each["way"], each["reactions"]) == (way, stage)]
                    lines.sort(key=lambda each: each["ms"])
                    axes.plot(
                        [each["ms"] for each in lines],
                        [100 * each["list_loss"] for each in lines],
                        "o-",
                        color=colour,
                        ms=4,
                        label=way,
                    )
                axes.axvline(found["exact_ms"]["warm"], color="black", lw=0.8, ls="--", label="exact, user in memory")
                axes.axvline(
                    found["exact_ms"]["cold"], color="black", lw=0.8, ls=":", label="exact, user from the store"
                )
                axes.set(xscale="log", title=f"{found['world']}, {stage} reactions", xlabel="ms per decision")
            panels[row, 0].set_ylabel("score lost, ten items, %")
        handles, labels = panels[0, 0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=4)
        path = folder / "retrieval.svg"
        figure.savefig(path, metadata={"Date": None})
    return path
