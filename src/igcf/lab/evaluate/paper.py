"""Numbers that the paper prints, for comparison (tables cold-s, warm-s, topk and ablation)."""

from typing import Any, Final

from igcf.lab.baselines import method_named
from igcf.lab.evaluate.protocols import protocol_named
from igcf.lab.evaluate.results import Results, summary
from igcf.tables import Table

DATASETS: Final = ("kuairec", "ml-1m", "eachmovie")
COLD_START_AT: Final = (10, 20, 40, 120)
COLD_START: Final = {
    "precision": """
        random  0.435 0.925 2.055 5.870  0.900 1.830 3.535 10.98  1.730 3.350 6.750 20.53
        pop     0.935 1.780 3.400 8.870  7.200 13.34 25.78 64.16  6.245 12.33 23.55 58.58
        mf      1.810 4.055 7.425 15.17  3.730 7.900 17.68 56.24  3.125 6.715 16.74 50.96
        icf-ucb 6.240 10.55 14.88 25.99  7.410 14.48 27.06 66.04  6.945 12.72 24.81 63.32
        icf-ts  4.085 7.885 13.98 26.38  5.180 10.84 22.27 62.00  5.145 10.46 20.82 57.43
        nicf    6.365 10.49 14.69 22.68  7.505 15.01 26.18 57.63  7.260 13.62 25.10 51.17
        igcf-paper 6.405 10.61 15.18 27.26  7.535 15.36 27.31 68.58  7.550 14.34 27.27 70.07
    """,
    "recall": """
        random  0.0025 0.0053 0.0124 0.0342  0.0027 0.0053 0.0102 0.0311  0.0063 0.0120 0.0242 0.0741
        pop     0.0051 0.0102 0.0199 0.0497  0.0246 0.0446 0.0855 0.2044  0.0244 0.0481 0.0901 0.2230
        mf      0.0141 0.0311 0.0526 0.0936  0.0117 0.0251 0.0553 0.1790  0.0113 0.0257 0.0564 0.1730
        icf-ucb 0.1021 0.1547 0.1881 0.2551  0.0251 0.0482 0.0909 0.2133  0.0270 0.0492 0.0961 0.2422
        icf-ts  0.0524 0.1016 0.1744 0.2580  0.0165 0.0350 0.0729 0.1995  0.0202 0.0404 0.0794 0.2180
        nicf    0.1040 0.1540 0.1847 0.2320  0.0254 0.0489 0.0869 0.1831  0.0284 0.0530 0.0967 0.1947
        igcf-paper 0.1052 0.1554 0.1909 0.2652  0.0261 0.0496 0.0918 0.2204  0.0300 0.0571 0.1073 0.2716
    """,
}
TASTE_DRIFT_AT: Final = (60, 80, 100, 120)
TASTE_DRIFT: Final = {
    "precision": """
        random  2.02 2.71 3.27 3.90  1.39 1.92 2.40 2.77
        pop     5.62 5.87 5.88 5.95  15.43 17.89 20.24 22.53
        mf      3.15 3.63 4.51 4.91  2.93 3.71 5.67 7.29
        icf-ucb 13.84 14.59 15.15 15.71  15.63 18.05 20.44 23.18
        icf-ts  13.87 14.63 15.18 15.77  14.51 17.66 20.46 23.66
        nicf    6.36 7.41 7.93 8.05  7.96 13.03 16.05 18.58
        igcf-paper 14.87 15.56 15.83 16.45  16.55 19.26 22.25 25.03
    """,
    "recall": """
        random  0.0083 0.0110 0.0135 0.0166  0.0078 0.0110 0.0136 0.0159
        pop     0.0257 0.0268 0.0269 0.0271  0.0994 0.1146 0.1302 0.1439
        mf      0.0149 0.0179 0.0213 0.0243  0.0151 0.0164 0.0283 0.0533
        icf-ucb 0.1570 0.1604 0.1629 0.1653  0.1023 0.1153 0.1310 0.1464
        icf-ts  0.1573 0.1616 0.1638 0.1662  0.0955 0.1140 0.1315 0.1470
        nicf    0.0591 0.0632 0.0648 0.0651  0.0619 0.0811 0.1036 0.1190
        igcf-paper 0.1642 0.1672 0.1683 0.1712  0.1048 0.1228 0.1421 0.1599
    """,
}
TOP_K_AT: Final = ((3, 20), (3, 40), (5, 10), (5, 20))
TOP_K: Final = """
        random  1.04 1.98 0.48 0.97  1.91 3.84 0.91 1.89  3.37 6.83 1.67 3.37
        pop     1.64 2.99 0.79 1.51  12.21 21.25 6.25 10.96  11.30 19.59 5.88 10.28
        mf      4.29 6.80 2.01 3.68  8.55 16.52 4.12 8.47  9.57 18.58 4.70 9.50
        icf-ucb 6.14 8.57 3.41 4.76  12.30 21.68 6.25 11.22  11.93 21.19 6.08 11.04
        icf-ts  6.06 8.98 3.14 4.94  9.70 19.45 4.68 9.69  9.98 18.89 4.96 9.54
        igcf-paper 6.38 9.22 3.47 5.09  12.50 22.64 6.47 11.85  13.47 23.45 6.86 12.50
    """
ABLATION_AT: Final = ("precision@60", "recall@60", "ndcg_3@20")
ABLATION: Final = """
        igcf-paper 18.94 0.2170 6.38
        igcf-paper_-_meta 18.01 0.2098 6.28
        igcf-paper_-_exploration 18.78 0.2150 6.33
        igcf-paper_-_meta_&_exploration 17.52 0.2086 6.25
        igcf-paper_K_=_2 18.85 0.2152 6.34
        igcf-paper_K_=_1 18.80 0.2151 6.33
        igcf-paper_K_=_0 17.74 0.2102 6.27
    """
"""Ablation table of the paper, which has KuaiRec only."""
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
    if table in ("cold-start", "taste-drift"):
        blocks, at = (COLD_START, COLD_START_AT) if table == "cold-start" else (TASTE_DRIFT, TASTE_DRIFT_AT)
        sets = DATASETS if table == "cold-start" else DATASETS[:2]
        found: dict[str, dict[str, float]] = {}
        for metric, block in blocks.items():
            for method, numbers in _rows(block, sets, dataset).items():
                found.setdefault(method, {}).update(zip((f"{metric}@{t}" for t in at), numbers, strict=True))
        if table == "taste-drift":
            for row in found.values():
                before = row[f"precision@{at[0]}"]
                row.update({f"after_drift@{t}": round(row[f"precision@{t}"] - before, 2) for t in at[1:]})
        return found
    if table == "top-k":
        names = [f"ndcg_{k}@{t}" for k, t in TOP_K_AT]
        return {
            method: dict(zip(names, numbers, strict=True))
            for method, numbers in _rows(TOP_K, DATASETS, dataset).items()
        }
    rows = _rows(ABLATION, ("kuairec",), dataset)
    return {method.replace("_", " "): dict(zip(ABLATION_AT, numbers, strict=True)) for method, numbers in rows.items()}


def _rows(block: str, datasets: tuple[str, ...], dataset: str) -> dict[str, list[float]]:
    if dataset not in datasets:
        return {}
    found = {}
    for line in block.strip().splitlines():
        method, *numbers = line.split()
        width = len(numbers) // len(datasets)
        start = datasets.index(dataset) * width
        found[method] = [float(number) for number in numbers[start : start + width]]
        if method == "igcf-paper":
            found["igcf-paper-printed"] = found[method]  # both rows are the paper's model
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
