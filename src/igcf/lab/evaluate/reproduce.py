"""Tables of the paper beside ours."""

from typing import Any

from igcf.lab.baselines import method_named
from igcf.lab.evaluate.paper import printed
from igcf.lab.evaluate.protocols import protocol_named
from igcf.lab.evaluate.results import Results, summary
from igcf.tables import Table

PAPER_METHODS = (
    "random",
    "pop",
    "pop-satisfied",
    "mf",
    "icf-ucb",
    "icf-ts",
    "nicf",
    "pca-gp",
    "igcf-paper-printed",
    "igcf-paper-info-ucb",
    "igcf-paper-binary",
    "igcf-paper-sgc",
    "igcf-paper-appnp",
    "igcf-paper",
    "igcf-graph",
    "igcf",
)
"""Rows of the paper's tables and the honest rivals that it left out, ours last."""
LEFT_OUT = {("ablation", "igcf")}
"""Rows that a table could have and has not: the default model has an ablation table of its own."""
TABLES: dict[str, tuple[str, ...]] = {
    "cold-start": ("kuairec", "ml-1m", "eachmovie"),
    "taste-drift": ("kuairec", "ml-1m"),
    "top-k": ("kuairec", "ml-1m", "eachmovie"),
    "ablation": ("kuairec",),
}
"""Tables of the paper and the data sets in each."""


def methods_of(table: str) -> list[str]:
    """Return the rows of a table, with those that the paper leaves out."""
    protocol = protocol_named(table)
    return [name for name in PAPER_METHODS if protocol.accepts(method_named(name)) and (table, name) not in LEFT_OUT]


def side_by_side(results: Results) -> list[dict[str, Any]]:
    """Return one entry per method and metric: ours (mean over seeds, best seed), the paper's, and the difference."""
    theirs = printed(results.setup.protocol.name, results.setup.dataset)
    found = []
    for session in results.sessions:
        for method in results.methods:
            each = summary(results, method, session)
            for metric in ("precision", "after_drift", "recall", "ndcg"):
                if (metric == "ndcg") != (session.slate > 1):
                    continue
                for t, spread in each[metric].items():
                    name = results.setup.protocol.metric_name(metric, session, int(t))
                    paper = theirs.get(method, {}).get(name)
                    found.append(
                        {
                            "method": method,
                            "metric": name,
                            "ours": spread["mean"],
                            "std": spread["std"],
                            "best": each["best"][metric][t],
                            "paper": paper,
                            "difference": None if paper is None else spread["mean"] - paper,
                        }
                    )
    return found


def side_by_side_tables(results: Results) -> list[Table]:
    """Build one table per kind of metric: ours, the best seed of several, the paper's, and the difference."""
    entries, setup = side_by_side(results), results.setup
    is_printed = any(each["paper"] is not None for each in entries)
    n_seeds = len({row.outcome.seed for row in results.rows})
    tables = []
    for kind in ("precision", "after_drift", "recall", "ndcg"):
        metrics = list(dict.fromkeys(each["metric"] for each in entries if each["metric"].startswith(kind)))
        if len(results.sessions) > 1:  # of several sessions the paper prints some figures only
            names = {name for row in printed(setup.protocol.name, setup.dataset).values() for name in row}
            metrics = [name for name in metrics if not names or name in names]
        if not metrics:
            continue
        lookup = {(each["method"], each["metric"]): each for each in entries}
        digits = 4 if kind == "recall" else 2
        rows = []
        for method in results.methods:
            cells: list[str] = []
            for metric in metrics:
                each = lookup[method, metric]
                if n_seeds > 1:
                    cells += [f"{each['ours']:.{digits}f} ± {each['std']:.{digits}f}", f"{each['best']:.{digits}f}"]
                else:
                    cells.append(f"{each['ours']:.{digits}f}")
                if is_printed:
                    paper, difference = each["paper"], each["difference"]
                    cells += ["", ""] if paper is None else [f"{paper:.{digits}f}", f"{difference:+.{digits}f}"]
            rows.append((method, *cells))
        group = (() if n_seeds == 1 else (f"best of {n_seeds}",)) + (("paper", "+/-") if is_printed else ())
        tables.append(
            Table(
                title=f"{setup.dataset}, {setup.protocol.name}, {kind}: "
                + ("ours, the paper's, difference" if is_printed else "the paper prints nothing for this data set"),
                header=("method", *(part for metric in metrics for part in (metric, *group))),
                rows=tuple(rows),
            )
        )
    return tables
