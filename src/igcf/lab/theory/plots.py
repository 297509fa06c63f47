"""Charts of docs/theory.md and of the page that `igcf theory --out` writes: each a set of small multiples."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from igcf.charts import Bar, Tone, bar_chart
from igcf.curves import Frame, Line, line_chart
from igcf.figures import prepare_folder, standalone

Document = dict[str, Any]
NAMES = {
    "ucb-theorem": "UCB, theorem",
    "ucb-nu-1": "UCB, nu = 1",
    "thompson": "Thompson",
    "greedy": "greedy",
    "random": "random",
}
REPEATS = {True: "items may come again", False: "each item once, as in a recommender"}
CAPTIONS = {
    "coverage": "How often the confidence bound fails, beside the delta that it promises",
    "nu": "Regret by nu, the width of the optimism, beside what the bounds ask for",
    "regret": "Regret by rounds, with the bounds, on logarithmic scales",
    "priors": "Regret by the number of users behind the prior, and with wrong priors",
    "meta-prior": "Error of a prior estimated from M users, on logarithmic scales",
}
MARKS = {"theorem_first_round": "theorem, first round", "theorem_late": "theorem, late", "ellipsoid": "ellipsoid"}


def draw_figures(document: Document, folder: Path) -> list[Path]:
    """Write one SVG per part of the document into `folder`."""
    prepare_folder(folder)
    paths = {folder / f"theory-{name}.svg": standalone(CAPTIONS[name], each) for name, each in charts(document).items()}
    for path, text in paths.items():
        path.write_text(text, encoding="utf-8")
    return list(paths)


def charts(document: Document) -> dict[str, dict[str, str]]:
    """Draw all charts: for each part of the document, charts by name."""
    return {
        "coverage": coverage_charts(document),
        "nu": nu_charts(document),
        "regret": regret_charts(document),
        "priors": prior_charts(document),
        "meta-prior": meta_prior_charts(document),
    }


def coverage_charts(document: Document) -> dict[str, str]:
    """Draw failure rates beside delta, one chart per size of the world."""
    rows = [row for row in document["coverage"]["rows"] if row["seen"] == 20]
    found = {}
    for dim, n_items in sorted({(row["dim"], row["n_items"]) for row in rows}):
        own = sorted((row for row in rows if row["dim"] == dim), key=lambda row: row["delta"])
        deltas = [row["delta"] for row in own]
        lines = [Line("delta", [0.0, *deltas], [0.0, *deltas], "guide")]
        tones: dict[str, Tone] = {"information": "first", "union": "second", "ellipsoid": "other"}
        for bound, tone in tones.items():
            rates = [row[bound] for row in own]
            low, high = [rate["low"] for rate in rates], [rate["high"] for rate in rates]
            name = {"information": "theorem"}.get(bound, bound)
            lines.append(Line(name, deltas, [rate["rate"] for rate in rates], tone, low, high, has_points=True))
        name = f"d = {dim}, N = {n_items}"
        found[name] = line_chart(lines, f"Failures, {name}", Frame("delta", "users with any item outside"))
    return found


def nu_charts(document: Document) -> dict[str, str]:
    """Draw regret against nu, with what the bounds ask for."""
    part, found = document["nu"], {}
    for mode, title in (("again", REPEATS[True]), ("once", REPEATS[False])):
        values = [row[mode] for row in part["regret"]]
        means, halves = [each["mean"] for each in values], [1.96 * each["se"] for each in values]
        low, high = _around(means, halves)
        line = Line("regret", [row["nu"] for row in part["regret"]], means, "first", low, high, has_points=True)
        marks = tuple((part[key], label) for key, label in MARKS.items())
        frame = Frame("nu", f"regret after {part['rounds']} rounds", marks=marks)
        found[title] = line_chart([line], f"Regret by nu, {title}", frame)
    return found


def regret_charts(document: Document) -> dict[str, str]:
    """Draw regret against T with the bound, both ways of choosing candidates."""
    part, found = document["policies"], {}
    for repeats, title in REPEATS.items():
        rows = sorted((row for row in part["rows"] if row["repeats"] is repeats), key=lambda row: row["curve"][-1])
        lines = [
            Line(f"{NAMES[row['policy']]}: T^{row['exponent']['value']:.2f}", part["rounds"], row["curve"], tone)
            for row, tone in zip(rows, _tones(len(rows)), strict=True)
        ]
        lines.append(Line("bound for UCB", part["rounds"], part["bound"]["curve"], "guide"))
        lines.append(Line("trivial bound", part["rounds"], part["bound"]["trivial_curve"], "guide"))
        frame = Frame("round T", "Bayesian regret", x="log", y="log")
        found[title] = line_chart(lines, f"Regret by rounds, {title}", frame)
    return found


def prior_charts(document: Document) -> dict[str, str]:
    """Draw regret with estimated priors against M, and with each other prior."""
    part = document["priors"]
    wanted = (("none", "thompson"), ("practice", "thompson"), ("lemma", "thompson"), ("none", "ucb-theorem"))
    lines = []
    for (widening, policy), tone in zip(wanted, _tones(len(wanted)), strict=True):
        rows = [row for row in part["growth"] if row["widening"] == widening and row["policy"] == policy]
        means = [row["excess"]["mean"] for row in rows]
        low, high = _around(means, [1.96 * row["excess"]["se"] for row in rows])
        name = f"{NAMES[policy]}, gamma: {widening}"
        lines.append(Line(name, [row["n_meta"] for row in rows], means, tone, low, high, has_points=True))
    frame = Frame("users M behind the prior", "regret beyond that of the correct prior", x="log", y="signed")
    found = {"estimated from M users": line_chart(lines, "Regret by users behind the prior", frame)}
    largest = max(row["regret"]["mean"] for row in part["rows"])
    for prior in dict.fromkeys(row["prior"] for row in part["rows"]):
        rows = sorted((row for row in part["rows"] if row["prior"] == prior), key=lambda row: row["regret"]["mean"])
        bars = [
            Bar(NAMES[row["policy"]], row["regret"]["mean"], f"{row['regret']['mean']:.0f}", tone)
            for row, tone in zip(rows, _tones(len(rows)), strict=True)
        ]
        title = f"prior: {prior}; regret after {part['rounds']} rounds"
        found[title] = bar_chart(bars, f"Regret, {prior}", largest=largest)
    return found


def meta_prior_charts(document: Document) -> dict[str, str]:
    """Draw errors of the estimated prior against M."""
    part = document["meta_prior"]
    exact, users = part["exact"], [row["n_meta"] for row in part["exact"]]
    own = [row["n_meta"] for row in part["shrunken"]]
    expected = [row["mean_expected"] for row in exact]
    mean = [
        *_errors(exact, "mean", f"measured: M^{part['mean_exponent']:.2f}"),
        Line("sqrt(trace / M)", users, expected, "guide"),
    ]
    cov = [
        *_errors(exact, "cov", f"exact vectors: M^{part['cov_exponent']:.2f}"),
        Line("posterior means", own, [row["cov_error"] for row in part["shrunken"]], "bad", has_points=True),
        Line("the same, repaired", own, [row["repaired_error"] for row in part["shrunken"]], "second", has_points=True),
    ]
    frame = Frame("users M", x="log", y="log")
    return {
        "error of the mean": line_chart(mean, "Error of the mean", frame),
        "error of the covariance (operator norm)": line_chart(cov, "Error of the covariance", frame),
    }


def _errors(rows: list[dict[str, Any]], which: str, label: str) -> list[Line]:
    users = [row["n_meta"] for row in rows]
    return [
        Line(label, users, [row[f"{which}_error"] for row in rows], "first", has_points=True),
        Line("worst draw", users, [row[f"{which}_worst"] for row in rows], "other", has_points=True),
        Line("bound", users, [row[f"{which}_bound"] for row in rows], "guide"),
    ]


def _around(means: Sequence[float], halves: Sequence[float]) -> tuple[list[float], list[float]]:
    pairs = list(zip(means, halves, strict=True))
    return [mean - half for mean, half in pairs], [mean + half for mean, half in pairs]


def _tones(n: int) -> list[Tone]:
    """Return the tones of things that are sorted, the best first."""
    tones: list[Tone] = ["first", "second"]
    tones += ["other"] * n
    return tones[:n]
