"""Numbers that the paper prints (`paper.json`: tables cold-s, warm-s, topk and ablation), beside ours."""

import json
from collections.abc import Callable
from importlib.resources import files
from typing import Any

from igcf.data import dataset_info, find_dataset
from igcf.errors import DataError
from igcf.lab.baselines import method_named
from igcf.lab.evaluate.protocols import protocol_named
from igcf.lab.evaluate.results import Results, summary
from igcf.tables import Table

PAPER_METHODS = (
    *("random", "pop", "pop-satisfied", "mf", "icf-ucb", "icf-ts", "nicf", "pca-gp"),
    *("igcf-paper-printed", "igcf-paper-info-ucb", "igcf-paper-binary", "igcf-paper-sgc", "igcf-paper-appnp"),
    *("igcf-paper", "igcf-graph", "igcf"),
)
"""Rows of the paper's tables and the honest rivals that it left out, ours last."""
KINDS = ("precision", "after_drift", "recall", "ndcg")
LEFT_OUT = {("ablation", "igcf")}
"""Rows that a table could have and has not: the default model has an ablation table of its own."""
TABLES: dict[str, tuple[str, ...]] = {
    "cold-start": ("kuairec", "ml-1m", "eachmovie"),
    "taste-drift": ("kuairec", "ml-1m"),
    "top-k": ("kuairec", "ml-1m", "eachmovie"),
    "ablation": ("kuairec",),
}
"""Tables of the paper and the data sets in each."""


def printed(table: str, dataset: str) -> dict[str, dict[str, float]]:
    """Return what the paper prints for a data set: method -> `metric@T` -> number; empty where it prints nothing.

    What comes after a drift is the difference of two printed numbers.
    """
    text = files("igcf.lab.evaluate").joinpath("paper.json").read_text(encoding="utf-8")
    found: dict[str, dict[str, float]] = json.loads(text).get(table, {}).get(dataset, {})
    if table == "taste-drift":
        for row in found.values():
            before = row["precision@60"]
            row |= {f"after_drift@{t}": round(row[f"precision@{t}"] - before, 2) for t in (80, 100, 120)}
    return found | ({"igcf-paper-printed": found["igcf-paper"]} if found else {})  # both rows are the paper's model


def tables_to_run(
    table: str | None, dataset: str | None, data_dir: str | None, *, report: Callable[[str], None]
) -> list[tuple[str, str]]:
    """Return pairs of a table and a data set: all that are asked for and found; `report` hears what is missing."""
    if dataset is not None:
        dataset_info(dataset)
        pairs = [(name, dataset) for name in ([table] if table else TABLES) if table or dataset in TABLES[name]]
        if not pairs:
            raise DataError(f"no table of the paper has the data set {dataset}; name the table to make with it")
        return pairs
    pairs = [(name, each) for name, sets in TABLES.items() if table in (None, name) for each in sets]
    missing = {each for _, each in pairs if find_dataset(dataset_info(each), data_dir) is None}
    for each in sorted(missing):
        report(f"{each} is not there and left out; see igcf data list")
    if not (found := [(name, each) for name, each in pairs if each not in missing]):
        raise DataError("none of the table's data sets was found; see igcf data list, or set IGCF_DATA_DIR")
    return found


def methods_of(table: str) -> list[str]:
    """Return the rows of a table, with those that the paper leaves out."""
    protocol = protocol_named(table)
    return [name for name in PAPER_METHODS if protocol.accepts(method_named(name)) and (table, name) not in LEFT_OUT]


def side_by_side(results: Results) -> list[dict[str, Any]]:
    """Return one entry per method and metric: ours (mean over seeds, best seed), the paper's, and the difference."""
    protocol = results.setup.protocol
    theirs = printed(protocol.name, results.setup.dataset)
    found = []
    for session in results.sessions:
        for method in results.methods:
            each = summary(results, method, session)
            for metric in KINDS[:-1] if session.slate == 1 else KINDS[-1:]:
                for t, spread in each[metric].items():
                    name = protocol.metric_name(metric, session, int(t))
                    paper = theirs.get(method, {}).get(name)
                    ours = {"ours": spread["mean"], "std": spread["std"], "best": each["best"][metric][t]}
                    difference = None if paper is None else spread["mean"] - paper
                    found.append({"method": method, "metric": name, **ours, "paper": paper, "difference": difference})
    return found


def side_by_side_tables(results: Results) -> list[Table]:
    """Build one table per kind of metric: ours, the best seed of several, the paper's, and the difference."""
    lookup = {(each["method"], each["metric"]): each for each in side_by_side(results)}
    setup = results.setup
    names = {name for row in printed(setup.protocol.name, setup.dataset).values() for name in row}
    is_printed = any(each["paper"] is not None for each in lookup.values())
    n_seeds = len({row.outcome.seed for row in results.rows})
    group = (() if n_seeds == 1 else (f"best of {n_seeds}",)) + (("paper", "+/-") if is_printed else ())
    tables = []
    for kind in KINDS:
        metrics = list(dict.fromkeys(metric for _, metric in lookup if metric.startswith(kind)))
        if len(results.sessions) > 1:  # of several sessions the paper prints some figures only
            metrics = [name for name in metrics if not names or name in names]
        if not metrics:
            continue
        title = "ours, the paper's, difference" if is_printed else "the paper prints nothing for this data set"
        digits = 4 if kind == "recall" else 2
        rows = []
        for method in results.methods:
            cells: list[str] = []
            for each in (lookup[method, metric] for metric in metrics):
                ours, paper = f"{each['ours']:.{digits}f}", each["paper"]
                cells += [f"{ours} ± {each['std']:.{digits}f}", f"{each['best']:.{digits}f}"] if n_seeds > 1 else [ours]
                if is_printed:
                    both = ("", "") if paper is None else (f"{paper:.{digits}f}", f"{each['difference']:+.{digits}f}")
                    cells += both
            rows.append((method, *cells))
        header = ("method", *(part for metric in metrics for part in (metric, *group)))
        tables.append(Table(f"{setup.dataset}, {setup.protocol.name}, {kind}: {title}", header, tuple(rows)))
    return tables
