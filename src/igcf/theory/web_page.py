"""The simulated guarantees as one HTML page: what holds, a picture of it, then everything."""

import json

from igcf.charts import Bar, Line, Tone, bar_chart, line_chart
from igcf.pages import drawing, folded, multiples, preformatted, report_page, section, terms
from igcf.tables import with_margin
from igcf.theory.plots import figure_texts
from igcf.theory.tables import Document, as_text, conclusion

NAMES = {
    "ucb-theorem": "UCB, theorem",
    "ucb-nu-1": "UCB, nu = 1",
    "thompson": "Thompson",
    "greedy": "greedy",
    "random": "random",
}
CAPTIONS = {
    "coverage": "How often the confidence bound fails, beside the delta that it promises (dashed)",
    "nu": "Regret by nu, the width of the optimism, beside what the bounds ask for",
    "regret": "Regret by rounds, with the bounds",
    "priors": "Regret by the number of users behind the prior, and with wrong priors",
    "meta-prior": "Error of a prior estimated from M users",
}
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
    ends, ways = {}, {}
    for repeats, name in ((True, "items may come again"), (False, "each item once, as in a recommender")):
        rows = sorted((row for row in part["rows"] if row["repeats"] is repeats), key=lambda row: row["regret"]["mean"])
        tones: list[Tone] = ["first", "second", *["other"] * len(rows)]  # type: ignore[list-item]
        bars, lines = [], []
        for row, tone in zip(rows, tones, strict=False):
            mean, half = row["regret"]["mean"], 1.96 * row["regret"]["se"]
            text = with_margin(mean, half)
            bars.append(Bar(NAMES[row["policy"]], mean, text, tone, mean - half, mean + half))
            lines.append(Line(NAMES[row["policy"]], part["rounds"], row["curve"], tone))
        ends[name] = bar_chart(bars, f"Regret, {name}")
        ways[name] = line_chart(lines, f"Regret by rounds, {name}", "round")
    parts = [
        section(
            f"Regret after {part['rounds'][-1]} rounds: less is better",
            multiples(ends),
            "Whiskers: 95 % confidence over simulated users.",
        ),
        section("Regret round by round", multiples(ways)),
        *(section(CAPTIONS[name], drawing(text, CAPTIONS[name])) for name, text in figure_texts(document).items()),
        section("The words", terms(WORDS)),
        folded("All figures", preformatted(as_text(document))),
        folded("Settings", preformatted(json.dumps(document["settings"], indent=1))),
    ]
    intro = "Simulated users in a world that satisfies every assumption of the theorems; no data set is involved."
    return report_page("igcf theory", conclusion(document), intro, parts)
