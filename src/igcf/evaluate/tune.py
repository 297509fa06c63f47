"""Choose settings on validation users: the grid of a method, one job per fit, resumable like any other jobs."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import Any, Literal

from igcf.baselines import Method, method_named
from igcf.data import Interactions
from igcf.evaluate.jobs import Job, Outcome, Play, jobs_sharing_fits
from igcf.evaluate.protocols import Setup, primary_cutoff, primary_metric
from igcf.evaluate.results import row_of
from igcf.evaluate.run import HERE, Execution, run_jobs

Grid = Literal["quick", "paper"]
DRIFT_GRID = {"forgetting": (1.0, 0.995, 0.99, 0.98, 0.96, 0.94), "nu": (0.0, 0.1, 0.5)}
"""Values of forgetting and exploration that are tried where tastes drift, the same for every method that has them."""


def grid_points(
    method: Method, start: Mapping[str, Any], *, paper: bool = False, drift: bool = False, known: bool = False
) -> list[dict[str, Any]]:
    """Return every combination of the grid (or of the paper's), the other settings as in `start`, which comes first.

    A value of `start` that the grid does not have is tried with all others too. Where tastes drift, all methods search
    the same values of forgetting and exploration; where users are known, a method may have another grid.
    """
    own = method.paper_grid if paper and method.paper_grid else method.grid
    if known and method.known_grid is not None:
        own = method.known_grid
    grid = {name: values if start[name] in values else (*values, start[name]) for name, values in own.items()}
    if drift:
        grid |= {name: values for name, values in DRIFT_GRID.items() if name in method.defaults}
    points = [dict(start)] + [{**start, **dict(zip(grid, values, strict=True))} for values in product(*grid.values())]
    return [point for number, point in enumerate(points) if point not in points[:number]]


def grid_jobs(method: Method, setup: Setup, seed: int, points: Sequence[Mapping[str, Any]]) -> list[Job]:
    """Return jobs on validation users that cover all points of a grid, each labelled by its number."""
    one_session = replace(setup, sessions=setup.sessions[:1])
    plays = [Play(str(number), point) for number, point in enumerate(points)]
    return jobs_sharing_fits(method, one_session, seed, plays, users="validation")


def tune(
    data: Interactions,
    setup: Setup,
    starts: Mapping[str, Mapping[str, Any]],
    *,
    seed: int,
    grid: Grid = "quick",
    execution: Execution = HERE,
) -> list[dict[str, Any]]:
    """Try the grid of each method on the validation users of one split.

    Args:
        data: the log.
        setup: the experiment; its first session decides.
        starts: the methods and the settings around which they are tuned.
        seed: of the split and the fits.
        grid: `quick` searches our grid, `paper` what the paper searched.
        execution: where the jobs run.

    Returns:
        For each method its best settings, their score, and all points with theirs, best first.
    """
    jobs, points = [], {}
    for name, start in starts.items():
        method = method_named(name)
        points[name] = grid_points(
            method,
            start,
            paper=grid == "paper",
            drift=setup.protocol == "taste-drift",
            known=setup.protocol == "known-users",
        )
        if len(points[name]) > 1:
            jobs += grid_jobs(method, setup, seed, points[name])
    outcomes = [each for job in run_jobs(data, jobs, execution) for each in job]
    found = []
    for name in starts:
        scores = {int(each.label): score_of(each, setup) for each in outcomes if each.method == name}
        ranked = sorted(scores, key=lambda number: -scores[number])
        best = points[name][ranked[0]] if ranked else points[name][0]
        found.append(
            {
                "method": name,
                "settings": best,
                "score": scores[ranked[0]] if ranked else None,
                "command": execution.command,
                "tried": [{"settings": points[name][number], "score": scores[number]} for number in ranked],
            }
        )
    return found


def score_of(outcome: Outcome, setup: Setup) -> float:
    """Return the primary metric of an outcome at the end."""
    row = row_of(outcome, setup)
    figures = getattr(row, primary_metric(outcome.session))
    return float(figures[str(primary_cutoff(setup, outcome.session))])
