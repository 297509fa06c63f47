"""The tables and the figure of `igcf.bench.retrieval`."""

from pathlib import Path
from typing import Any

from igcf.figures import SVG

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
    ]
    stages = sorted({line["reactions"] for line in found["lines"]})
    told = " | ".join(f"{stage}" for stage in stages)
    lines += [
        "Score lost, first and ten items, and recall@10, for users with "
        f"{', '.join(map(str, stages))} reactions; `worst` is the first item's largest loss of any user.",
        "",
        f"| candidates by | lists | first: {told} | ten: {told} | recall: {told} | worst | ms "
        "| times faster, warm | cold |",
        "|---|--:|" + "--:|" * (3 * len(stages) + 4),
    ]
    groups: dict[tuple[str, int], list[dict[str, Any]]] = {}
    for line in found["lines"]:
        groups.setdefault((line["way"], line["nprobe"]), []).append(line)
    for (way, nprobe), group in groups.items():
        group.sort(key=lambda line: line["reactions"])
        cells = [f"{line[name]:.1%}" for name in ("loss", "list_loss") for line in group]
        cells += [f"{line['recall']:.2f}" for line in group]
        ms = max(line["ms"] for line in group)
        cells += [f"{max(line['worst_loss'] for line in group):.0%}", f"{ms:.1f}"]
        cells += [f"{exact['warm'] / ms:.0f}", f"{exact['cold'] / ms:.0f}"]
        lines.append(f"| {way} | {nprobe} | {' | '.join(cells)} |")
    return "\n".join(lines)


def draw(worlds: list[dict[str, Any]], folder: Path) -> Path:
    """Write retrieval.svg: what is lost against what a decision costs, by catalogue and number of reactions."""
    import matplotlib
    from matplotlib.figure import Figure

    stages = sorted({line["reactions"] for line in worlds[0]["lines"]})
    ways = list(dict.fromkeys(line["way"] for line in worlds[0]["lines"]))
    with matplotlib.rc_context({**SVG, "font.size": 8}):
        figure = Figure(figsize=(9, 2.7 * len(worlds) + 0.4), layout="constrained")
        panels = figure.subplots(len(worlds), len(stages), sharey="row", squeeze=False)
        for row, found in enumerate(worlds):
            for column, stage in enumerate(stages):
                axes = panels[row, column]
                for way, colour in zip(ways, COLOURS, strict=True):
                    lines = [each for each in found["lines"] if (each["way"], each["reactions"]) == (way, stage)]
                    lines.sort(key=lambda each: each["nprobe"])
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
