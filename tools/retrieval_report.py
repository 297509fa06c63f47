"""Tables and figure of `tools.retrieval`."""

from pathlib import Path
from typing import Any

from igcf.charts import Tone
from igcf.curves import Frame, Line, line_chart
from igcf.figures import standalone
from igcf.tables import markdown_table

TONES: tuple[Tone, ...] = ("other", "other", "second", "other", "first")


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
    charts = {f"{found['world']}, {stage} reactions": _chart(found, stage) for found in measured for stage in stages}
    path = folder / "retrieval.svg"
    path.write_text(standalone("Score lost against time per decision", charts), encoding="utf-8")
    return path


def _chart(found: dict[str, Any], stage: int) -> str:
    here = sorted((each for each in found["lines"] if each["reactions"] == stage), key=lambda each: each["nprobe"])
    lines = []
    for way, tone in zip(dict.fromkeys(each["way"] for each in found["lines"]), TONES, strict=True):
        own = [each for each in here if each["way"] == way]
        losses = [100 * each["list_loss"] for each in own]
        lines.append(Line(way, [each["ms"] for each in own], losses, tone, has_points=True))
    exact = found["exact_ms"]
    marks = ((exact["warm"], "exact, in memory"), (exact["cold"], "exact, from store"))
    frame = Frame("ms per decision", "score lost, ten items, %", x="log", marks=marks)
    return line_chart(lines, f"Score lost, {found['world']}, {stage} reactions", frame)
