"""Results as tables: for the terminal, Markdown and LaTeX."""

from collections.abc import Sequence
from dataclasses import dataclass

from rich.table import Table as RichTable

from igcf.evaluate.protocols import cutoffs, primary_metric
from igcf.evaluate.results import Results, summary

SIGNIFICANT = 0.05


@dataclass(frozen=True)
class Table:
    """Text in cells; the first column names the row."""

    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    best: frozenset[tuple[int, int]] = frozenset()
    """(row, column) of the best numbers"""
    notes: tuple[str, ...] = ()


def results_tables(results: Results) -> list[Table]:
    """One table per session, then the comparisons and what was chosen on validation users."""
    tables = [_session_table(results, number) for number in range(len(results.sessions))]
    if results.comparisons:
        tables.append(_comparison_table(results))
    if any(each["tried"] for each in results.tuning):
        tables.append(_tuning_table(results))
    return tables


def _session_table(results: Results, number: int) -> Table:
    setup, session = results.setup, results.sessions[number]
    at = [str(t) for t in cutoffs(setup, session)]
    main = primary_metric(session)
    short = "P" if main == "precision" else f"nDCG{session.slate}"
    columns = [(main, t, f"{short}@{t}") for t in at]
    if main == "ndcg":
        columns += [("precision", at[-1], f"P@{at[-1]}")]
    columns += [("recall", t, f"R@{t}") for t in (at if main == "precision" else at[-1:])]
    if setup.protocol == "taste-drift":
        half = session.rounds // 2
        columns.insert(len(at), ("after_drift", at[-1], f"P {half + 1}-{session.rounds}"))
    columns.append(("share", at[-1], f"share@{at[-1]}"))
    summaries = [summary(results, method, session) for method in results.methods]
    values = [[each[name][t]["mean"] for name, t, _ in columns] for each in summaries]
    spreads = [[each[name][t]["std"] for name, t, _ in columns] for each in summaries]
    n_seeds = max(len(each["seeds"]) for each in summaries)
    rows = []
    for method, each, mean, std in zip(results.methods, summaries, values, spreads, strict=True):
        cells = [
            _number(m, name) + (f" ± {_number(s, name)}" if n_seeds > 1 else "")
            for m, s, (name, _, _) in zip(mean, std, columns, strict=True)
        ]
        extra = [f"{each['coverage']['mean']:.3f}", f"{each['novelty']['mean']:.2f}"]
        seconds = [f"{each['seconds'][name]['mean']:.1f}" for name in ("pretrain", "online")]
        rows.append((method, *cells, *extra, *seconds))
    best = {
        (max(range(len(values)), key=lambda row: values[row][column]), column + 1) for column in range(len(columns))
    }
    shape = f"{session.rounds} rounds" + (f" of {session.slate} items" if session.slate > 1 else "")
    return Table(
        title=f"{setup.dataset}, {setup.protocol}: {results.n_users} users, {results.n_items} items, {shape}, "
        f"{n_seeds} seed{'s' if n_seeds > 1 else ''}",
        header=("method", *(label for _, _, label in columns), "coverage", "novelty", "fit s", "online s"),
        rows=tuple(rows),
        best=frozenset(best),
    )


def _comparison_table(results: Results) -> Table:
    rows = [
        (
            each.method,
            each.reference,
            each.metric,
            f"{each.difference:+.3f}",
            f"{each.effect:+.2f}",
            f"{each.p_value:.2g}",
            f"{each.p_corrected:.2g}" + (" *" if each.p_corrected < SIGNIFICANT else ""),
        )
        for each in results.comparisons
    ]
    return Table(
        title="Paired comparisons over users (Wilcoxon signed-rank, rank-biserial effect, Holm's correction)",
        header=("method", "against", "metric", "difference", "effect", "p", "p corrected"),
        rows=tuple(rows),
    )


def _tuning_table(results: Results) -> Table:
    session = results.sessions[0]
    rows = []
    for each in results.tuning:
        if not each["tried"]:
            continue
        tried = [point["settings"] for point in each["tried"]]
        searched = [name for name in each["settings"] if any(point[name] != tried[0][name] for point in tried)]
        chosen = ", ".join(f"{name} {each['settings'][name]}" for name in searched)
        rows.append((each["method"], chosen, str(len(tried)), f"{each['score']:.3f}"))
    metric = "P" if session.slate == 1 else f"nDCG{session.slate}"
    return Table(
        title="Chosen on validation users",
        header=("method", "settings", "points tried", f"{metric}@{session.rounds}"),
        rows=tuple(rows),
    )


def _number(value: float, metric: str) -> str:
    return f"{value:.4f}" if metric in ("recall", "share") else f"{value:.3f}"


def as_rich(table: Table) -> RichTable:
    """For the terminal."""
    found = RichTable(title=table.title, title_justify="left", caption="\n".join(table.notes) or None)
    for number, name in enumerate(table.header):
        found.add_column(name, justify="left" if number == 0 else "right", no_wrap=True)
    for number, row in enumerate(table.rows):
        found.add_row(
            *(f"[bold]{cell}[/]" if (number, column) in table.best else cell for column, cell in enumerate(row))
        )
    return found


def as_markdown(table: Table) -> str:
    """A Markdown table, the best numbers in bold."""
    lines = [f"**{table.title}**", "", _line(table.header), _line(["---", *["---:"] * (len(table.header) - 1)])]
    for number, row in enumerate(table.rows):
        lines.append(_line([f"**{cell}**" if (number, at) in table.best else cell for at, cell in enumerate(row)]))
    return "\n".join([*lines, *(f"\n{note}" for note in table.notes)]) + "\n"


def as_latex(table: Table) -> str:
    """A LaTeX tabular, the best numbers in bold."""
    lines = [f"% {table.title}", rf"\begin{{tabular}}{{l{'r' * (len(table.header) - 1)}}}", r"\hline"]
    lines += [" & ".join(map(_escaped, table.header)) + r" \\", r"\hline"]
    for number, row in enumerate(table.rows):
        cells = [
            rf"\textbf{{{_escaped(cell)}}}" if (number, at) in table.best else _escaped(cell)
            for at, cell in enumerate(row)
        ]
        lines.append(" & ".join(cells) + r" \\")
    return "\n".join([*lines, r"\hline", r"\end{tabular}"]) + "\n"


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _escaped(text: str) -> str:
    for plain, escaped in (("&", r"\&"), ("%", r"\%"), ("_", r"\_"), ("±", r"$\pm$")):
        text = text.replace(plain, escaped)
    return text
