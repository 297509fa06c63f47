"""Charts of the report: how far each method came, and how it got there."""

from collections.abc import Sequence

import numpy as np

from igcf.arrays import FloatArray
from igcf.charts import Bar, Line, Tone, bar_chart, line_chart
from igcf.lab.evaluate.protocols import Session
from igcf.lab.evaluate.results import Results, Row
from igcf.tables import with_margin

NORMAL_95 = 1.96


def ends(results: Results) -> dict[str, str]:
    """Draw what each method reached in the end, the best first, one chart per session."""
    return {_name(session, results): _bars(results, session) for session in results.sessions}


def ways(results: Results, curve: str | None = None) -> dict[str, str]:
    """Draw how a metric grew, one chart per session; `curve` is what the methods are compared by unless given."""
    return {
        _name(session, results): _lines(results, session, curve or main_curve(results, session))
        for session in results.sessions
    }


def main_curve(results: Results, session: Session) -> str:
    """Return the name of the curve that methods are compared by."""
    return results.setup.protocol.target(session)[0]


def by_user(rows: Sequence[Row], curve: str) -> FloatArray:
    """Average a curve over the seeds that met each user, shape (users, rounds); a user counts once."""
    found: dict[str, list[FloatArray]] = {}
    for row in rows:
        for user_id, values in zip(row.outcome.user_ids, row.curves[curve], strict=True):
            found.setdefault(user_id, []).append(values)
    return np.array([np.mean(runs, axis=0) for runs in found.values()])


def _name(session: Session, results: Results) -> str:
    return f"{results.setup.dataset}, {results.setup.protocol.shape(session)}"


def _moments(results: Results, session: Session, curve: str) -> dict[str, tuple[FloatArray, FloatArray]]:
    """Return mean over users and half of its 95 % interval per round, the method that ended best first."""
    found = {}
    for method in results.methods:
        users = by_user(results.rows_of(method, session), curve)
        users = users[~np.isnan(users).any(axis=1)]
        if len(users):
            found[method] = (users.mean(axis=0), NORMAL_95 * users.std(axis=0) / np.sqrt(len(users)))
    return dict(sorted(found.items(), key=lambda each: -each[1][0][-1]))


def _tone(place: int) -> Tone:
    return "first" if place == 0 else "second" if place == 1 else "other"


def _bars(results: Results, session: Session) -> str:
    curve = main_curve(results, session)
    bars = []
    for place, (method, (mean, half)) in enumerate(_moments(results, session, curve).items()):
        value, around = float(mean[-1]), float(half[-1])
        text = with_margin(value, around)
        bars.append(Bar(method, value, text, _tone(place), value - around, value + around))
    return bar_chart(bars, f"{curve} in the end, {_name(session, results)}")


def _lines(results: Results, session: Session, curve: str) -> str:
    lines = []
    for place, (method, (mean, half)) in enumerate(_moments(results, session, curve).items()):
        rounds = range(1, len(mean) + 1)
        low, high = (mean - half).tolist(), (mean + half).tolist()
        lines.append(Line(method, list(rounds), mean.tolist(), _tone(place), low, high))
    return line_chart(lines, f"{curve}, {_name(session, results)}", results.setup.protocol.axis)
