"""Results of an experiment as tables."""

from igcf.lab.evaluate.protocols import Session, Setup, cutoffs, primary_cutoff, primary_metric
from igcf.lab.evaluate.results import Results, summary
from igcf.tables import Table, short_number, with_margin

SIGNIFICANT = 0.05


def results_tables(results: Results, *, is_short: bool = False) -> list[Table]:
    """Build one table per session, then the comparisons and the settings that tuning chose on validation users.

    Numbers have as many decimals as the paper's, or, where `is_short`, the three digits that matter to a reader.
    """
    tables = [_session_table(results, number, is_short=is_short) for number in range(len(results.sessions))]
    if results.comparisons:
        tables.append(_comparison_table(results, is_short=is_short))
    if any(each["tried"] for each in results.tuning):
        tables.append(_tuning_table(results))
    return tables


def _session_table(results: Results, number: int, *, is_short: bool) -> Table:
    setup, session = results.setup, results.sessions[number]
    columns = _known_users_columns(results) if setup.protocol == "known-users" else _columns(setup, session)
    summaries = [summary(results, method, session) for method in results.methods]
    cells_of = [[each[name][t] if t else each[name] for name, t, _ in columns] for each in summaries]
    values = [[each["mean"] for each in row] for row in cells_of]
    spreads = [[each["std"] for each in row] for row in cells_of]
    n_seeds = max(len(each["seeds"]) for each in summaries)
    rows = []
    for method, each, mean, std in zip(results.methods, summaries, values, spreads, strict=True):
        cells = [
            _number(m, s if n_seeds > 1 else None, name, is_short=is_short)
            for m, s, (name, _, _) in zip(mean, std, columns, strict=True)
        ]
        extra = [f"{each['coverage']['mean']:.3f}", f"{each['novelty']['mean']:.2f}"]
        seconds = [f"{each['seconds'][name]['mean']:.1f}" for name in ("pretrain", "online")]
        rows.append((method, *cells, *extra, *seconds))
    best = {
        (max(range(len(values)), key=lambda row: values[row][column]), column + 1) for column in range(len(columns))
    }
    if setup.protocol == "known-users":
        shape = f"{setup.share:.0%} of the successes hidden"
    else:
        shape = f"{session.rounds} rounds" + (f" of {session.slate} items" if session.slate > 1 else "")
    return Table(
        title=f"{setup.dataset}, {setup.protocol}: {results.n_users} users, {results.n_items} items, {shape}, "
        f"{n_seeds} seed{'s' if n_seeds > 1 else ''}",
        header=("method", *(label for _, _, label in columns), "coverage", "novelty", "fit s", "online s"),
        rows=tuple(rows),
        best=frozenset(best),
    )


def _columns(setup: Setup, session: Session) -> list[tuple[str, str, str]]:
    """Return metric, T and heading of each column of an interactive experiment."""
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
    return columns


def _known_users_columns(results: Results) -> list[tuple[str, str, str]]:
    row = results.rows[0]
    columns = [("ndcg", k, f"nDCG@{k}") for k in row.ndcg]
    columns += [("recall", k, f"Recall@{k}") for k in row.recall]
    return [*columns, ("mrr", "", "MRR")]


def _comparison_table(results: Results, *, is_short: bool) -> Table:
    decimals = 4 if results.setup.protocol == "known-users" else 3
    rows = [
        (
            each.method,
            each.reference,
            each.metric,
            f"{each.difference:+.2g}" if is_short else f"{each.difference:+.{decimals}f}",
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
    is_known = results.setup.protocol == "known-users"
    metric = "P" if session.slate == 1 else "nDCG" if is_known else f"nDCG{session.slate}"
    return Table(
        title="Chosen on validation users",
        header=("method", "settings", "points tried", f"{metric}@{primary_cutoff(results.setup, session)}"),
        rows=tuple(rows),
    )


def _number(value: float, spread: float | None, metric: str, *, is_short: bool) -> str:
    if is_short:
        return short_number(value) if spread is None else with_margin(value, spread)
    decimals = 4 if metric in ("recall", "share", "mrr") else 3
    return f"{value:.{decimals}f}" + ("" if spread is None else f" ± {spread:.{decimals}f}")
