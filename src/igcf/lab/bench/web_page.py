"""The benchmark as one HTML page: how many targets are met, a picture of it, then everything."""

from typing import Any

from igcf.charts import Bar, bar_chart
from igcf.lab.bench.plots import growth_charts, ratio_charts
from igcf.lab.bench.report import all_rows
from igcf.lab.bench.tables import as_text, conclusion
from igcf.pages import folded, multiples, preformatted, report_page, section, terms

WORDS = {
    "ratio": "Our time divided by that of the reference, measured in turns; 0.05 is twenty times faster.",
    "target": "The largest ratio that is accepted; fixed before the measurement.",
    "clock": "cpu: one thread, processor time, to be trusted on a busy machine. wall: all threads, by the clock.",
    "one matrix-vector product": "The least that a change of belief costs, because it changes every score.",
    "the textbook way": "Invert the precision and compute every mean and variance anew.",
    "resync": "Every 200 reactions all means and variances are computed anew.",
}

RATIOS = "On a logarithmic scale. The upright mark is the target, red bars missed it; grey ones have none."


def web_page(document: dict[str, Any]) -> str:
    """Write the page."""
    bars = [
        Bar(
            f"{row['job']} / {row['against']}" + (", by the clock" if row["clock"] == "wall" else ""),
            row["ratio"] / row["at_most"],
            f"{row['ratio'] / row['at_most']:.0%}",
            "second" if row["met"] else "bad",
            target=1.0,
        )
        for row in all_rows(document)
        if row["at_most"] is not None
    ]
    parts = [
        section(
            "Share of the allowed time that is used",
            multiples({"": bar_chart(bars, "Share of the allowed time")}),
            "The upright mark is the target: what ends before it is faster than asked for.",
        ),
        section("All ratios: our time / that of the reference", multiples(ratio_charts(document)), RATIOS),
        section("How a training step grows", multiples(growth_charts(document))),
        section("The words", terms(WORDS)),
        folded("All figures", preformatted(as_text(document))),
    ]
    machine = document["machine"]
    intro = (
        f"igcf {machine['igcf']}, Python {machine['python']}, {machine['cores']} cores, load {machine['load']} at the "
        "start. Ratios travel between machines, milliseconds do not."
    )
    return report_page("igcf bench", conclusion(document), intro, parts)
