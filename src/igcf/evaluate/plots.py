"""Figures of the report, as SVG text."""

from collections.abc import Callable, Sequence
from functools import partial
from importlib.util import find_spec
from typing import TYPE_CHECKING

import numpy as np

from igcf.arrays import FloatArray
from igcf.evaluate.protocols import Session, primary_metric
from igcf.evaluate.results import Results, Row
from igcf.figures import BLUE, svg

if TYPE_CHECKING:
    from matplotlib.axes import Axes

NORMAL_95 = 1.96
SIZE = (8.5, 4.6)


def figures(results: Results) -> dict[str, str]:
    """Draw all figures of an experiment; returns SVG texts by caption, none where matplotlib is not installed."""
    if find_spec("matplotlib") is None:
        return {}
    if results.setup.protocol == "known-users":
        return _known_users_figures(results)
    found = {}
    for session in results.sessions:
        shape = "" if session.slate == 1 else f", {session.slate} items per round"
        main = primary_metric(session)
        name = "Cumulative precision" if main == "precision" else f"Cumulative nDCG{session.slate}"
        bars = "Ablation" if results.setup.protocol == "ablation" else "By method"
        plots: dict[str, Callable[[Axes, Results, Session], None]] = {
            f"{name} over rounds{shape} (bands: 95 % confidence over users)": partial(_curves, curve=main),
            f"Cumulative recall over rounds{shape}": partial(_curves, curve="recall"),
            f"{bars}: {name.lower()} after {session.rounds} rounds{shape}": partial(_bars, curve=main),
        }
        if any(len(row.outcome.spread) for row in results.rows):
            plots[f"Posterior uncertainty over rounds{shape} (mean standard deviation of an item)"] = _spread
        for caption, draw in plots.items():
            found[caption] = _svg(draw, results, session)
    return found


def _known_users_figures(results: Results) -> dict[str, str]:
    (session,) = results.sessions
    plots: dict[str, Callable[[Axes, Results, Session], None]] = {
        "nDCG@k by the length k of the list (bands: 95 % confidence over users)": partial(
            _curves, curve="ndcg", axis="length k of the list"
        ),
        "Recall@k by the length k of the list": partial(_curves, curve="recall", axis="length k of the list"),
        f"nDCG@{session.slate} by method": partial(_bars, curve="ndcg"),
    }
    return {caption: _svg(draw, results, session) for caption, draw in plots.items()}


def _svg(draw: "Callable[[Axes, Results, Session], None]", results: Results, session: Session) -> str:
    text = svg(lambda figure: draw(figure.subplots(), results, session), *SIZE)
    return text[text.index("<svg") :]  # to stand inside a page


def by_user(rows: Sequence[Row], curve: str) -> FloatArray:
    """Average a curve over the seeds that met each user, shape (users, rounds); a user counts once."""
    found: dict[str, list[FloatArray]] = {}
    for row in rows:
        for user_id, values in zip(row.outcome.user_ids, row.curves[curve], strict=True):
            found.setdefault(user_id, []).append(values)
    return np.array([np.mean(runs, axis=0) for runs in found.values()])


def _curves(axes: "Axes", results: Results, session: Session, curve: str, axis: str = "round") -> None:
    for method in results.methods:
        users = by_user(results.rows_of(method, session), curve)
        users = users[~np.isnan(users).any(axis=1)]
        mean = users.mean(axis=0)
        half = NORMAL_95 * users.std(axis=0) / np.sqrt(len(users))
        rounds = np.arange(1, len(mean) + 1)
        (line,) = axes.plot(rounds, mean, label=method, linewidth=1.6)
        axes.fill_between(rounds, mean - half, mean + half, color=line.get_color(), alpha=0.15, linewidth=0)
    axes.set(xlabel=axis, ylabel=curve)
    axes.legend(fontsize=8)


def _bars(axes: "Axes", results: Results, session: Session, curve: str) -> None:
    place = np.arange(len(results.methods))
    last = [by_user(results.rows_of(method, session), curve)[:, -1] for method in results.methods]
    halves = [NORMAL_95 * users.std() / np.sqrt(len(users)) for users in last]
    axes.barh(place, [users.mean() for users in last], xerr=halves, color=BLUE, error_kw={"linewidth": 1})
    axes.set_yticks(place, results.methods)
    axes.invert_yaxis()
    axes.set_xlabel(curve)


def _spread(axes: "Axes", results: Results, session: Session) -> None:
    for method in results.methods:
        runs = [row.outcome.spread for row in results.rows_of(method, session) if len(row.outcome.spread)]
        if runs:
            mean = np.mean(runs, axis=0)
            noted = np.flatnonzero(~np.isnan(mean))
            axes.plot(noted + 1, mean[noted] / mean[0], label=method)
    axes.set(xlabel="round", ylabel="relative to the first round")
    axes.legend(fontsize=8)
