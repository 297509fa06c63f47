"""Several experiments on one page: who won where, and small multiples, one per data set."""

from collections import Counter
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
    for protocol in dict.fromkeys(results.setup.protocol.name for _, results in experiments):
        own = [(name, results) for name, results in experiments if results.setup.protocol.name == protocol]
        charts: dict[str, str] = {}
        for name, results in own:
            for title, chart in ends(results).items():
                charts[f"{title} ({name})" if title in charts else title] = chart
        first = own[0][1]
        what = first.setup.protocol.unit(first.sessions[0])
        note = f"Mean over users of {what}. Whiskers: 95 % confidence over users."
        parts.append(section(protocol, multiples(charts), note))
    parts.append(section("Every experiment by itself", links({name: f"{name}/report.html" for name, _ in experiments})))
    intro = (
        f"{len(experiments)} experiments, igcf {__version__}. Every choice of a setting was made on validation users."
    )
    return report_page("igcf reproduce", conclusion([each for *_, each in verdicts]), intro, parts)


def conclusion(verdicts: Sequence[Verdict]) -> str:
    """Say in one sentence which method won how many experiments, and how many are ties."""
    wins = Counter(each.winner for each in verdicts if each.winner)
    ties = sum(each.is_tie for each in verdicts)
    if not wins:
        return f"No method won; {ties} of {len(verdicts)} experiments are ties."
    (best, times), *others = wins.most_common()
    words = [f"{best} won {times} of {len(verdicts)} experiments", *(f"{name} {count}" for name, count in others)]
    words += [f"{ties} {'is a tie' if ties == 1 else 'are ties'}"] if ties else []
    return "; ".join(words) + "."


def _winners(verdicts: Sequence[tuple[str, Results, Verdict]]) -> Table:
    header = ("experiment", "data set", "users", "winner", "best", "score", "next best", "more by", "p")
    rows = tuple(
        (
            name,
            results.setup.dataset,
            str(each.n_users),
            "tie" if each.is_tie else each.winner or "–",
            each.best,
            short_number(each.score),
            each.runner_up or "–",
            f"{each.difference:.2g}" if each.runner_up else "–",
            f"{each.p_value:.2g}" if each.runner_up else "–",
        )
        for name, results, each in verdicts
    )
    return Table("Who won", header, rows)
