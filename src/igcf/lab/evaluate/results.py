"""Figures from the items shown: one row per method, seed and session; summaries over seeds; paired comparisons."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from scipy.stats import rankdata, wilcoxon

from igcf.arrays import FloatArray
from igcf.lab.evaluate.protocols import Outcome, Session, Setup
from igcf.lab.evaluate.protocols.base import ALWAYS, Pair, Row
from igcf.lab.evaluate.protocols.sizes import ActivityClass

SIGNIFICANT = 0.05
"""A difference with a p value not below this is a tie."""


@dataclass(frozen=True)
class Comparison:
    """Comparison of a method with a reference over the same users."""

    method: str
    reference: str
    metric: str
    difference: float
    """Mean over users of method minus reference."""
    p_uncorrected: float
    """P value of the two-sided Wilcoxon signed-rank test, before correction."""
    effect: float
    """Matched-pairs rank-biserial correlation: 1 if every user gains from the method, -1 if every user loses."""
    p_value: float = 1.0
    """P value after Holm's correction over all comparisons of the experiment: the one that is reported everywhere."""

    @property
    def is_tie(self) -> bool:
        """Whether the difference is within chance."""
        return self.p_value >= SIGNIFICANT

    def as_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {**asdict(self), "tie": self.is_tie}


def compare(method: str, reference: str, metric: str, ours: FloatArray, theirs: FloatArray) -> Comparison:
    """Compare one number per user."""
    difference = ours - theirs
    moved = difference[difference != 0]
    if not len(moved):
        return Comparison(method, reference, metric, 0.0, 1.0, 0.0)
    p_value = float(wilcoxon(moved, method="auto").pvalue)
    return Comparison(method, reference, metric, float(difference.mean()), p_value, rank_biserial(moved))


def rank_biserial(difference: FloatArray) -> float:
    """Return (ranks of gains - ranks of losses) / sum of all ranks, both summed; zeros are left out."""
    moved = difference[difference != 0]
    ranks = rankdata(np.abs(moved))
    return float((ranks * np.sign(moved)).sum() / ranks.sum()) if len(moved) else 0.0


def holm(p_values: Sequence[float]) -> list[float]:
    """Apply Holm's step-down correction, which controls the chance of any false discovery; the order is kept."""
    order = np.argsort(p_values, kind="stable")
    stepped = np.asarray(p_values, dtype=np.float64)[order] * (len(p_values) - np.arange(len(p_values)))
    corrected = np.empty(len(p_values))
    corrected[order] = np.minimum(np.maximum.accumulate(stepped), 1.0)
    return corrected.tolist()


def corrected(comparisons: Sequence[Comparison]) -> list[Comparison]:
    """Correct the p values of the comparisons of one experiment as one family."""
    values = holm([each.p_uncorrected for each in comparisons])
    return [replace(each, p_value=value) for each, value in zip(comparisons, values, strict=True)]


@dataclass(frozen=True, eq=False)
class Results:
    """Results of an experiment: rows, comparisons and tuning.

    Example:
        >>> import igcf
        >>> log = igcf.data.synthetic_catalogue(n_users=150, n_items=40)
        >>> setup = igcf.lab.evaluate.setup_for(log, "cold-start", rounds=5, n_users=20, min_reactions=10)
        >>> results = igcf.lab.evaluate.evaluate(log, setup, ["random", "pop"])
        >>> results.n_users, [row.method for row in results.rows]
        (20, ['random', 'pop'])
    """

    setup: Setup
    n_users: int
    n_items: int
    rows: tuple[Row, ...]
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

    @cached_property
    def comparisons(self) -> tuple[Comparison, ...]:
        """What the protocol compares, as one family of tests."""
        return tuple(_comparisons(self))

    def rows_of(self, method: str, session: Session) -> list[Row]:
        """Return the rows of one method and session, one per seed."""
        return [row for row in self.rows if row.method == method and row.outcome.session == session]

    def as_dict(self) -> dict[str, Any]:
        """Return the JSON document of `igcf evaluate --json`."""
        return {
            "dataset": self.setup.dataset,
            "protocol": self.setup.protocol.name,
            "users": self.n_users,
            "items": self.n_items,
            "rounds": max(session.rounds for session in self.sessions),
            "rows": [row.as_dict() for row in self.rows],
            "summary": [summary(self, method, session) for session in self.sessions for method in self.methods],
            "comparisons": [each.as_dict() for each in self.comparisons],
            "tuning": [dict(each) for each in self.tuning],
            "setup": self.setup.as_dict(),
            "command": self.command,
        }


def collect(
    setup: Setup, outcomes: Iterable[Outcome], *, command: str = "", tuning: Sequence[Mapping[str, Any]] = ()
) -> Results:
    """Compute the figures of all outcomes."""
    rows = tuple(setup.protocol.count(outcome, setup) for outcome in outcomes)
    first = rows[0].outcome
    return Results(setup, len(first.user_ids), len(first.item_shares), rows, command, tuple(tuning))


def summary(results: Results, method: str, session: Session) -> dict[str, Any]:
    """Summarise one method: mean and standard deviation over seeds, and the seed that ended best (the paper's rule)."""
    rows = results.rows_of(method, session)
    name, last = results.setup.protocol.target(session)
    best = max(rows, key=lambda row: row.figures[name][str(last)])
    found: dict[str, Any] = {"method": method, "slate": session.slate, "seeds": [row.outcome.seed for row in rows]}
    for figure in dict.fromkeys((*ALWAYS, *rows[0].figures)):
        by_seed = [row.figures.get(figure, {}) for row in rows]
        found[figure] = {t: spread_of([each[t] for each in by_seed]) for t in by_seed[0]}
    for number in rows[0].numbers:
        found[number] = spread_of([row.numbers[number] for row in rows])
    found["seconds"] = {part: spread_of([row.outcome.seconds[part] for row in rows]) for part in ("pretrain", "online")}
    found["best"] = {"seed": best.outcome.seed, **{name: {} for name in ALWAYS}, **best.figures}
    return found


def spread_of(values: Sequence[float]) -> dict[str, float]:
    """Return mean and standard deviation (0 for a single value)."""
    return {"mean": float(np.mean(values)), "std": float(np.std(values, ddof=1)) if len(values) > 1 else 0.0}


def _comparisons(results: Results) -> list[Comparison]:
    """Compare what the protocol asks for, and the two best methods; one family of tests."""
    protocol, found = results.setup.protocol, list[Comparison]()
    for session in results.sessions:
        here = {label: results.rows_of(label, session) for label in results.methods}
        curve, t = protocol.target(session)
        by_seed = {label: [np.nanmean(row.curves[curve], axis=0) for row in rows] for label, rows in here.items()}
        means = {label: np.mean(each, axis=0) for label, each in by_seed.items()}
        pairs = list(protocol.pairs(session, [row.outcome for rows in here.values() for row in rows], means))
        leaders = list(ranked(results, session))[:2]
        if len(leaders) > 1 and not any(set(each[:2]) == set(leaders) and each[2:] == (curve, t) for each in pairs):
            pairs.append(Pair(leaders[0], leaders[1], curve, t))
        for pair in pairs:
            ours, theirs = (user_scores(here[label], pair.curve, pair.t) for label in pair[:2])
            metric = protocol.metric_name(pair.curve, session, pair.t)
            found.append(compared(pair.label, pair.reference, metric, ours, theirs))
            if set(pair[:2]) == set(leaders) and pair[2:] == (curve, t):
                found += [
                    compared(pair.label, pair.reference, f"{metric}, {each.name} users", own, theirs)
                    for each, own in by_activity(results, session, pair.label).items()
                ]
    return corrected(found)


def ranked(results: Results, session: Session) -> dict[str, float]:
    """Return the mean score over users of each method, the best first."""
    target = results.setup.protocol.target(session)
    means = {
        label: float(np.nanmean(list(user_scores(results.rows_of(label, session), *target).values())))
        for label in results.methods
    }
    return dict(sorted(means.items(), key=lambda each: -each[1]))


def by_activity(results: Results, session: Session, label: str) -> dict[ActivityClass, dict[str, float]]:
    """Return the score of each user under one method, by class of activity; classes without test users are left out."""
    rows, counts = results.rows_of(label, session), dict[str, int]()
    for row in rows:
        counts |= zip(row.outcome.user_ids, row.outcome.n_reactions.tolist(), strict=True)
    scores = user_scores(rows, *results.setup.protocol.target(session))
    found = {
        each: {user: score for user, score in scores.items() if each.least <= counts[user] <= (each.most or np.inf)}
        for each in results.setup.activity
    }
    return {each: own for each, own in found.items() if own}


def compared(
    method: str, reference: str, metric: str, ours: Mapping[str, float], theirs: Mapping[str, float]
) -> Comparison:
    """Compare two methods on the users that both served."""
    users = sorted(ours.keys() & theirs.keys())
    own, other = (np.array([scores[user] for user in users]) for scores in (ours, theirs))
    return compare(method, reference, metric, own, other)


def user_scores(rows: Sequence[Row], curve: str, t: int) -> dict[str, float]:
    """Return what each user got from one method after `t` rounds, the mean over the seeds that played the user."""
    return {user_id: float(np.mean(runs)) for user_id, runs in by_user(rows, curve, t).items()}


def by_user(rows: Sequence[Row], curve: str, t: int | None = None) -> dict[str, list[Any]]:
    """Return what each user got in every seed that played the user: a curve, or its value after `t` rounds."""
    found: dict[str, list[Any]] = {}
    for row in rows:
        values = row.curves[curve] if t is None else row.curves[curve][:, t - 1].tolist()
        for user_id, value in zip(row.outcome.user_ids, values, strict=True):
            found.setdefault(user_id, []).append(value)
    return found
