"""The simulated guarantees as one HTML page: what holds, a picture of it, then everything."""

import json

from igcf.charts import Bar, bar_chart
from igcf.lab.theory.plots import CAPTIONS, NAMES, REPEATS, charts
from igcf.lab.theory.tables import Document, as_text, conclusion
from igcf.pages import folded, multiples, preformatted, report_page, section, terms
from igcf.tables import with_margin

WORDS = {
    "regret": "What was lost against somebody who knows the user: the differences to the best item, summed.",
    "policy": "The rule by which the next item is chosen from the belief.",
    "UCB, nu": "Choose by expectation plus nu standard deviations; the theorem prescribes a nu for each round.",
    "Thompson": "Draw a user from the belief and choose what would be best for them.",
    "prior": "What is believed of a user before the first reaction; estimated from M earlier users.",
    "gamma": "By how much an estimated prior is widened, because it is only an estimate.",
    "delta": "The probability with which a confidence bound may fail.",
    "vacuous": "A bound that is larger than the most that can be lost at all, and so says nothing.",
    "tau": "The number of rounds until the belief is narrow enough for the second part of the bound.",
}


def web_page(document: Document) -> str:
    """Write the page."""
    part = document["policies"]
    ends = {}
    for repeats, name in REPEATS.items():
        rows = sorted((row for row in part["rows"] if row["repeats"] is repeats), key=lambda row: row["regret"]["mean"])
        bars = []
        for place, row in enumerate(rows):
            mean, half = row["regret"]["mean"], 1.96 * row["regret"]["se"]
            tone = "first" if place == 0 else "second" if place == 1 else "other"
            text = with_margin(mean, half)
            bars.append(Bar(NAMES[row["policy"]], mean, text, tone, mean - half, mean + half))  # type: ignore[arg-type]
        ends[name] = bar_chart(bars, f"Regret, {name}")
    note = "Whiskers: 95 % confidence over simulated users."
    parts = [
        section(f"Regret after {part['rounds'][-1]} rounds: less is better", multiples(ends), note),
        *(section(CAPTIONS[name], multiples(each)) for name, each in charts(document).items()),
        section("The words", terms(WORDS)),
        folded("All figures", preformatted(as_text(document))),
        folded("Settings", preformatted(json.dumps(document["settings"], indent=1))),
    ]
    intro = "Simulated users in a world that satisfies every assumption of the theorems; no data set is involved."
    return report_page("igcf theory", conclusion(document), intro, parts)
