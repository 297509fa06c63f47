"""Results of an experiment as tables, and in a sentence: who won, and by how much."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from igcf.lab.evaluate.results import SIGNIFICANT, Results, by_activity, ranked, summary
from igcf.tables import Table, short_number, with_margin


def results_tables(results: Results, *, is_short: bool = False) -> list[Table]:
    """Build the tables of an experiment, for a log of one's own first the one by activity.

    Then come one table per session, the comparisons and the settings that tuning chose on validation users. Numbers
    have as many decimals as the paper's, or, where `is_short`, the three digits that matter to a reader.
    """
    tables = _activity_tables(results)
    tables += [_session_table(results, number, is_short=is_short) for number in range(len(results.sessions))]
    if results.comparisons:
        tables.append(_comparison_table(results, is_short=is_short))
    if any(each["tried"] for each in results.tuning):
        tables.append(_tuning_table(results))
    return [*tables, *results.setup.protocol.more_tables(results.rows)]


def _activity_tables(results: Results) -> list[Table]:
    """Return the scores of light, medium and heavy users, and the share of all users that each class stands for."""
    if not results.setup.activity:
        return []
    session, protocol = results.sessions[0], results.setup.protocol
    scores = {label: by_activity(results, session, label) for label in results.methods}
    leaders = list(ranked(results, session))[:2]
    tests = {
        each.metric.rpartition(", ")[2]: each
        for each in results.comparisons
        if {each.method, each.reference} == set(leaders) and each.metric.endswith(" users")
    }
    rows, best = [], set[tuple[int, int]]()
    for number, each in enumerate(next(iter(scores.values()))):
        means = [float(np.nanmean(list(scores[label][each].values()))) for label in results.methods]
        best.add((number, 3 + int(np.argmax(means))))
        cells = [short_number(mean) for mean in means]
        if test := tests.get(f"{each.name} users"):
            sign = 1 if test.method == leaders[0] else -1
            cells.append(f"{sign * test.difference:+.2g} ({'tie' if test.is_tie else f'p = {test.p_value:.2g}'})")
        rows.append((str(each), f"{each.share:.0%}", str(len(scores[results.methods[0]][each])), *cells))
    untested = 1.0 - sum(each.share for each in results.setup.activity)
    if untested > 0:
        few = f"fewer than {results.setup.activity[0].least}"
        rows.append((few, f"{untested:.0%}", "0", *("–" for _ in rows[0][3:])))
    difference = (f"{leaders[0]} - {leaders[1]}",) if tests else ()
    header = ("reactions", "share of all users", "tested", *results.methods, *difference)
    title = f"By the number of reactions of a user: {protocol.unit(session)}"
    return [Table(title, header, tuple(rows), frozenset(best))]


def _session_table(results: Results, number: int, *, is_short: bool) -> Table:
    setup, session = results.setup, results.sessions[number]
    own = [row for row in results.rows if row.outcome.session == session]
    columns = setup.protocol.columns(session, own[0])
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
    best = {(int(row), column + 1) for column, row in enumerate(np.argmax(values, axis=0))}
    header = ("method", *(label for _, _, label in columns), "coverage", "novelty", "fit s", "online s")
    title = (
        f"{setup.dataset}, {setup.protocol.name}: {results.n_users} users, {results.n_items} items, "
        f"{setup.protocol.shape(session)}, {n_seeds} seed{'s' if n_seeds > 1 else ''}"
    )
    return Table(title, header, tuple(rows), frozenset(best))


def _comparison_table(results: Results, *, is_short: bool) -> Table:
    spec = "+.2g" if is_short else "+.4f"
    rows = tuple(
        (
            *(each.method, each.reference, each.metric, format(each.difference, spec), f"{each.effect:+.2f}"),
            f"{each.p_value:.2g} {'tie' if each.is_tie else '*'}",
        )
        for each in results.comparisons
    )
    title = "Paired comparisons over users (Wilcoxon signed-rank, rank-biserial effect, Holm's correction)"
    return Table(title, ("method", "against", "metric", "difference", "effect", "p"), rows, n_keys=3)


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
    return Table("Chosen on validation users", ("method", "settings", "points tried", metric), tuple(rows))


def _number(value: float, spread: float | None, metric: str, *, is_short: bool) -> str:
    if is_short:
        return short_number(value) if spread is None else with_margin(value, spread)
    decimals = 4 if metric in ("recall", "share", "mrr") else 3
    return f"{value:.{decimals}f}" + ("" if spread is None else f" ± {spread:.{decimals}f}")


@dataclass(frozen=True)
class Verdict:
    """The best method of an experiment beside the second best, at the last round of the first session."""

    best: str
    score: float  # mean over users of what the methods are compared by
    unit: str  # what the score counts, in words
    n_users: int
    runner_up: str | None = None
    difference: float = 0.0
    p_value: float = 1.0  # of the paired test of both, that of the comparisons of the experiment

    @property
    def is_tie(self) -> bool:
        """Whether the difference between the two best methods is within chance."""
        return self.runner_up is not None and self.p_value >= SIGNIFICANT

    @property
    def winner(self) -> str | None:
        """The best method; None where the two best tie or there is only one."""
        return None if self.is_tie or self.runner_up is None else self.best

    @property
    def sentence(self) -> str:
        """One line for people."""
        score = f"{short_number(self.score)} {self.unit}"
        if self.runner_up is None:
            return f"{self.best}: {score}; there is no other method to compare with"
        test = f"p = {self.p_value:.2g}, paired test over {self.n_users} users"
        other = self.score - self.difference
        if self.is_tie:
            scores = f"{short_number(self.score)} and {short_number(other)} {self.unit}"
            return f"{self.best} and {self.runner_up} tie: {scores}, a difference within chance ({test})"
        share = f" ({self.difference / other:+.1%})" if other > 0 else ""
        return f"{self.best} won: {score}, {self.difference:.2g} more than {self.runner_up}{share}; {test}"

    def as_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {"winner": self.winner, "tie": self.is_tie, **vars(self), "sentence": self.sentence}


def verdict(results: Results) -> Verdict:
    """Compare the two best methods, user by user."""
    session, protocol = results.sessions[0], results.setup.protocol
    curve, t = protocol.target(session)
    means = ranked(results, session)
    best, *others = means
    unit, n_users = protocol.unit(session), len({user for row in results.rows for user in row.outcome.user_ids})
    if not others:
        return Verdict(best, means[best], unit, n_users)
    both, metric = {best, others[0]}, protocol.metric_name(curve, session, t)
    test = next(each for each in results.comparisons if {each.method, each.reference} == both and each.metric == metric)
    return Verdict(best, means[best], unit, n_users, others[0], abs(test.difference), test.p_value)
