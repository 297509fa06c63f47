"""Results of an experiment as tables."""

from igcf.lab.evaluate.results import Results, summary
from igcf.tables import Table, short_number, with_margin


def results_tables(results: Results, *, is_short: bool = False) -> list[Table]:
    """Build one table per session, then the comparisons and the settings that tuning chose on validation users.

    Numbers have as many decimals as the paper's, or, where `is_short`, the three digits that matter to a reader.
    """
    tables = [_session_table(results, number, is_short=is_short) for number in range(len(results.sessions))]
    if results.comparisons:
        tables.append(_comparison_table(results, is_short=is_short))
    if any(each["tried"] for each in results.tuning):
        tables.append(_tuning_table(results))
    return [*tables, *results.setup.protocol.more_tables([(row.outcome, row.counted) for row in results.rows])]


def _session_table(results: Results, number: int, *, is_short: bool) -> Table:
    setup, session = results.setup, results.sessions[number]
    own = [row for row in results.rows if row.outcome.session == session]
    columns = setup.protocol.columns(session, own[0].counted)
    summaries = [summary(results, method, session) for method in results.methods]
    cells_of = [[each[name][t] if t else each[name] for name, t, _ in columns] for each in summaries]
    values = [[each["mean"] for each in row] for row in cells_of]
    n_seeds = max(len(each["seeds"]) for each in summaries)
    rows = []
    for method, each, found in zip(results.methods, summaries, cells_of, strict=True):
        cells = [
            _number(cell["mean"], cell["std"] if n_seeds > 1 else None, name, is_short=is_short)
            for cell, (name, _, _) in zip(found, columns, strict=True)
        ]
        extra = [f"{each['coverage']['mean']:.3f}", f"{each['novelty']['mean']:.2f}"]
        seconds = [f"{each['seconds'][name]['mean']:.1f}" for name in ("pretrain", "online")]
        rows.append((method, *cells, *extra, *seconds))
    best = {
        (max(range(len(values)), key=lambda row: values[row][column]), column + 1) for column in range(len(columns))
    }
    return Table(
        title=f"{setup.dataset}, {setup.protocol.name}: {results.n_users} users, {results.n_items} items, "
        f"{setup.protocol.shape(session)}, {n_seeds} seed{'s' if n_seeds > 1 else ''}",
        header=("method", *(label for _, _, label in columns), "coverage", "novelty", "fit s", "online s"),
        rows=tuple(rows),
        best=frozenset(best),
    )


def _comparison_table(results: Results, *, is_short: bool) -> Table:
    rows = [
        (
            each.method,
            each.reference,
            each.metric,
            f"{each.difference:+.2g}" if is_short else f"{each.difference:+.4f}",
            f"{each.effect:+.2f}",
            f"{each.p_value:.2g} {'tie' if each.is_tie else '*'}",
        )
        for each in results.comparisons
    ]
    return Table(
        title="Paired comparisons over users (Wilcoxon signed-rank, rank-biserial effect, Holm's correction)",
        header=("method", "against", "metric", "difference", "effect", "p"),
        rows=tuple(rows),
        n_keys=3,
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
    name, last = results.setup.protocol.target(session)
    metric = results.setup.protocol.metric_name(name, session, last)
    return Table(
        title="Chosen on validation users",
        header=("method", "settings", "points tried", metric),
        rows=tuple(rows),
    )


def _number(value: float, spread: float | None, metric: str, *, is_short: bool) -> str:
    if is_short:
        return short_number(value) if spread is None else with_margin(value, spread)
    decimals = 4 if metric in ("recall", "share", "mrr") else 3
    return f"{value:.{decimals}f}" + ("" if spread is None else f" ± {spread:.{decimals}f}")
