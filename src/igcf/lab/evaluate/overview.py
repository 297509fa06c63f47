"""Several experiments on one page: who won where, and small multiples, one per data set."""

from collections.abc import Sequence

from igcf.lab.evaluate.plots import ends
from igcf.lab.evaluate.results import Results
from igcf.lab.evaluate.verdict import Verdict, verdict
from igcf.pages import html_table, links, multiples, report_page, section
from igcf.tables import Table, short_number
from igcf.version import __version__


def overview_page(experiments: Sequence[tuple[str, Results]]) -> str:
    """Write one HTML page about experiments, each with the name of its folder beside the page."""
    verdicts = [(name, results, verdict(results)) for name, results in experiments]
    parts = [section("Who won", html_table(_winners(verdicts)))]
    for protocol in dict.fromkeys(results.setup.protocol for _, results in experiments):
        own = [(name, results) for name, results in experiments if results.setup.protocol == protocol]
        charts: dict[str, str] = {}
        for name, results in own:
            for title, chart in ends(results).items():
                charts[f"{title} ({name})" if title in charts else title] = chart
        what = "nDCG" if protocol == "known-users" else "Satisfied items per user (with lists: cumulative nDCG)"
        note = f"{what} in the end. Whiskers: 95 % confidence over users."
        parts.append(section(protocol, multiples(charts), note))
    parts.append(section("Every experiment by itself", links({name: f"{name}/report.html" for name, _ in experiments})))
    intro = (
        f"{len(experiments)} experiments, igcf {__version__}. Every choice of a setting was made on validation users."
    )
    return report_page("igcf reproduce", conclusion([each for *_, each in verdicts]), intro, parts)


def conclusion(verdicts: Sequence[Verdict]) -> str:
    """Say in one sentence which method won how many experiments, and how many of these are more than chance."""
    wins = [each.winner for each in verdicts if not each.is_level]
    if not wins:
        return "No method won: the two best are level in every experiment."
    counted = sorted({name: wins.count(name) for name in wins}.items(), key=lambda each: -each[1])
    best, times = counted[0]
    others = [f"{name} {count}" for name, count in counted[1:]]
    sure = sum(each.is_more_than_chance for each in verdicts if each.winner == best)
    return (
        f"{best} won {times} of {len(verdicts)} experiments, {sure} of these by more than chance"
        + (f"; {', '.join(others)}" if others else "")
        + "."
    )


def _winners(verdicts: Sequence[tuple[str, Results, Verdict]]) -> Table:
    header = ("experiment", "data set", "users", "winner", "score", "next best", "more by", "more than chance")
    rows = tuple(
        (
            name,
            results.setup.dataset,
            str(each.n_users),
            "none" if each.is_level else each.winner,
            short_number(each.score),
            each.runner_up or "–",
            f"{each.difference:.2g}" if each.runner_up else "–",
            "yes" if each.is_more_than_chance else "no",
        )
        for name, results, each in verdicts
    )
    return Table("Who won", header, rows)
