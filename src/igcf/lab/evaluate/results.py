"""Figures from the items shown: one row per method, seed and session; summaries over seeds; comparisons."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from igcf.arrays import FloatArray
from igcf.lab.baselines import METHODS
from igcf.lab.evaluate import known_users, metrics
from igcf.lab.evaluate.jobs import Outcome
from igcf.lab.evaluate.protocols import Session, Setup, cutoffs, primary_cutoff, primary_metric
from igcf.lab.evaluate.returning import compared_starts
from igcf.lab.evaluate.significance import Comparison, compare, corrected, per_user

Figures = dict[str, float]
"""Type of figures: one number per T, which is the key as text."""


@dataclass(frozen=True, eq=False)
class Row:
    """Figures of one method, seed and session, counted from `outcome`."""

    outcome: Outcome
    precision: Figures
    share: Figures
    """Precision divided by the number of items shown."""
    recall: Figures
    ndcg: Figures
    after_drift: Figures
    """Satisfied items in the second half of the rounds alone; empty without drift."""
    coverage: float
    novelty: float
    curves: Mapping[str, FloatArray]
    """Cumulative precision, recall and, for slates, ndcg, each of shape (users, rounds); where users are known, recall
    and ndcg of shape (users, ranks)."""
    mrr: float | None = None
    """Mean reciprocal rank of the first hidden item, where users are known."""

    @property
    def method(self) -> str:
        """Label of the row in the tables."""
        return self.outcome.label

    def as_dict(self) -> dict[str, Any]:
        """Return the row of the JSON document."""
        each = self.outcome
        logged = {} if each.start is None else {"logged": each.start.n_logged, "told": each.start.is_told}
        mrr = {} if self.mrr is None else {"mrr": self.mrr}
        return {
            "method": self.method,
            "seed": each.seed,
            "slate": each.session.slate,
            "rounds": each.session.rounds,
            "users": len(each.user_ids),
            "precision": self.precision,
            "share": self.share,
            "recall": self.recall,
            "ndcg": self.ndcg,
            "after_drift": self.after_drift,
            **mrr,
            **logged,
            "coverage": self.coverage,
            "novelty": self.novelty,
            "config": dict(each.settings),
            "seconds": each.seconds,
        }


@dataclass(frozen=True, eq=False)
class Results:
    """Results of an experiment: rows, comparisons and tuning."""

    setup: Setup
    n_users: int
    n_items: int
    rows: tuple[Row, ...]
    comparisons: tuple[Comparison, ...]
    command: str = ""
    tuning: tuple[Mapping[str, Any], ...] = field(default=())
    """Points tried on validation users and the settings chosen among them, by method."""

    @property
    def sessions(self) -> tuple[Session, ...]:
        """Sessions of the experiment."""
        return self.setup.sessions

    @property
    def methods(self) -> tuple[str, ...]:
        """Labels of the rows, in their order."""
        return tuple(dict.fromkeys(row.method for row in self.rows))

    def rows_of(self, method: str, session: Session) -> list[Row]:
        """Return the rows of one method and session, one per seed."""
        return [row for row in self.rows if row.method == method and row.outcome.session == session]

    def as_dict(self) -> dict[str, Any]:
        """Return the JSON document of `igcf evaluate --json`."""
        return {
            "dataset": self.setup.dataset,
            "protocol": self.setup.protocol,
            "users": self.n_users,
            "items": self.n_items,
            "rounds": max(session.rounds for session in self.sessions),
            "rows": [row.as_dict() for row in self.rows],
            "summary": [summary(self, method, session) for session in self.sessions for method in self.methods],
            "comparisons": [asdict(each) for each in self.comparisons],
            "tuning": [dict(each) for each in self.tuning],
            "setup": self.setup.as_dict(),
            "command": self.command,
        }


def row_of(outcome: Outcome, setup: Setup) -> Row:
    """Count the figures of one outcome."""
    if setup.protocol == "known-users":
        return _known_users_row(outcome)
    satisfied = outcome.shown.values >= setup.satisfied
    session = outcome.session
    at = cutoffs(setup, session)
    curves = {
        "precision": metrics.cumulative_precision(satisfied),
        "recall": metrics.cumulative_recall(satisfied, outcome.n_satisfied),
    }
    if session.slate > 1:
        curves["ndcg"] = metrics.cumulative_ndcg(satisfied)

    def figures(curve: FloatArray | None, *, offset: int = 0) -> Figures:
        if curve is None:
            return {}
        return {str(t): _mean(curve[:, t - 1 - offset]) for t in at if t > offset}

    precision = figures(curves["precision"])
    half = session.rounds // 2
    return Row(
        outcome=outcome,
        precision=precision,
        share={t: value / (int(t) * session.slate) for t, value in precision.items()},
        recall=figures(curves["recall"]),
        ndcg=figures(curves.get("ndcg")),
        after_drift=figures(metrics.after_drift(satisfied), offset=half) if setup.protocol == "taste-drift" else {},
        coverage=metrics.coverage(outcome.shown.rows, len(outcome.item_shares)),
        novelty=metrics.novelty(outcome.shown.rows, outcome.item_shares),
        curves=curves,
    )


def _known_users_row(outcome: Outcome) -> Row:
    found = ~np.isnan(outcome.shown.values[:, 0])  # only what was hidden draws a reaction
    curves = known_users.ranking_curves(found, outcome.n_satisfied)
    n_ranked = found.shape[1]

    def figures(curve: str, at: Sequence[int]) -> Figures:
        return {str(k): _mean(curves[curve][:, k - 1]) for k in sorted({min(each, n_ranked) for each in at})}

    return Row(
        outcome=outcome,
        precision={},
        share={},
        recall=figures("recall", known_users.RECALL_AT),
        ndcg=figures("ndcg", known_users.NDCG_AT),
        after_drift={},
        coverage=metrics.coverage(outcome.shown.rows, len(outcome.item_shares)),
        novelty=metrics.novelty(outcome.shown.rows, outcome.item_shares),
        curves=curves,
        mrr=_mean(known_users.reciprocal_ranks(found)),
    )


def collect(
    setup: Setup, outcomes: Iterable[Outcome], *, command: str = "", tuning: Sequence[Mapping[str, Any]] = ()
) -> Results:
    """Compute the figures and comparisons of all outcomes."""
    rows = tuple(row_of(outcome, setup) for outcome in outcomes)
    first = rows[0].outcome
    return Results(
        setup=setup,
        n_users=len(first.user_ids),
        n_items=len(first.item_shares),
        rows=rows,
        comparisons=tuple(comparisons(setup, rows)),
        command=command,
        tuning=tuple(tuning),
    )


def summary(results: Results, method: str, session: Session) -> dict[str, Any]:
    """Summarise one method: mean and standard deviation over seeds, and the seed that ended best (the paper's rule)."""
    rows = results.rows_of(method, session)
    last = str(primary_cutoff(results.setup, session))
    best = max(rows, key=lambda row: getattr(row, primary_metric(session))[last])
    found: dict[str, Any] = {"method": method, "slate": session.slate, "seeds": [row.outcome.seed for row in rows]}
    for name in ("precision", "share", "recall", "ndcg", "after_drift"):
        by_seed = [getattr(row, name) for row in rows]
        found[name] = {t: spread_of([each[t] for each in by_seed]) for t in by_seed[0]}
    known = ("mrr",) if rows[0].mrr is not None else ()
    for name in (*known, "coverage", "novelty"):
        found[name] = spread_of([getattr(row, name) for row in rows])
    found["seconds"] = {name: spread_of([row.outcome.seconds[name] for row in rows]) for name in ("pretrain", "online")}
    found["best"] = {
        "seed": best.outcome.seed,
        "precision": best.precision,
        "recall": best.recall,
        "ndcg": best.ndcg,
        "after_drift": best.after_drift,
    }
    return found


def spread_of(values: Sequence[float]) -> dict[str, float]:
    """Return mean and standard deviation (0 for a single value)."""
    return {"mean": float(np.mean(values)), "std": float(np.std(values, ddof=1)) if len(values) > 1 else 0.0}


def comparisons(setup: Setup, rows: Sequence[Row]) -> list[Comparison]:
    """Compare our models with the best baseline at every T, all others with it at the last; one family.

    In an ablation every variant is compared with the full model; where users are known, our models with every other;
    where they return, each start from a log with the cold starts.
    """
    found = []
    for session in setup.sessions:
        here = [row for row in rows if row.outcome.session == session]
        for label, reference, curve, t in _pairs(setup, session, here):
            scores = [user_scores([row for row in here if row.method == name], curve, t) for name in (label, reference)]
            users = sorted(scores[0].keys() & scores[1].keys())
            ours, theirs = (np.array([each[user] for user in users]) for each in scores)
            is_plain = session.slate == 1 or setup.protocol == "known-users"
            metric = f"{curve}@{t}" if is_plain else f"{curve}_{session.slate}@{t}"
            found.append(compare(label, reference, metric, ours, theirs))
    return corrected(found)


def _pairs(setup: Setup, session: Session, rows: Sequence[Row]) -> Iterator[tuple[str, str, str, int]]:
    """Yield what is compared in a session: a row, its reference, the metric and T."""
    labels = list(dict.fromkeys(row.method for row in rows))
    if setup.protocol == "known-users":
        for metric, k in known_users.COMPARED:
            yield from ((*pair, metric, min(k, session.slate)) for pair in known_users.compared_pairs(labels))
        return
    curve = primary_metric(session)
    for t in cutoffs(setup, session):
        if setup.protocol == "returning":
            yield from ((label, other, curve, t) for label in labels for other in compared_starts(label, labels))
            continue
        for label, reference in _references(setup, rows, labels, curve, t).items():
            if label != reference and (label.startswith("igcf") or t == session.rounds):
                yield label, reference, curve, t


def _references(setup: Setup, rows: Sequence[Row], labels: Sequence[str], curve: str, t: int) -> dict[str, str]:
    """Return what each row is compared with: the best baseline, or in an ablation the full model."""
    if setup.protocol == "ablation":
        return {row.method: row.outcome.method for row in rows}
    baselines = [label for label in labels if label in METHODS and not label.startswith("igcf")]
    if not baselines or len(labels) < 2:
        return {}

    def mean(label: str) -> float:
        return float(np.mean([row.curves[curve][:, t - 1].mean() for row in rows if row.method == label]))

    return dict.fromkeys(labels, max(baselines, key=mean))


def user_scores(rows: Sequence[Row], curve: str, t: int) -> dict[str, float]:
    """Return what each user got from one method after `t` rounds, the mean over seeds."""
    return per_user(
        [dict(zip(row.outcome.user_ids, row.curves[curve][:, t - 1].tolist(), strict=True)) for row in rows]
    )


def _mean(values: FloatArray) -> float:
    known = values[~np.isnan(values)]
    return float(known.mean()) if len(known) else 0.0
