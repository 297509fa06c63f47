"""The one function behind `igcf evaluate`: methods x seeds on a log, tuned or with the settings found before."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import Any, Literal

from igcf.data import Interactions
from igcf.errors import ConfigError
from igcf.lab.baselines import Method, method_named
from igcf.lab.evaluate.jobs import jobs_sharing_fits
from igcf.lab.evaluate.protocols import Job, Outcome, Play, Setup, prepare
from igcf.lab.evaluate.results import Results, collect
from igcf.lab.evaluate.running import HERE, Execution, run_jobs
from igcf.lab.evaluate.tuned_settings import tuned_settings

Grid = Literal["quick", "paper"]


def evaluate(
    data: Interactions,
    setup: Setup,
    methods: Sequence[str],
    *,
    seeds: Sequence[int] = (0,),
    settings: Mapping[str, Mapping[str, Any]] | None = None,
    grid: Grid | None = None,
    execution: Execution = HERE,
) -> Results:
    """Run `methods` on the users of `setup` and count what they showed.

    Args:
        data: the log.
        setup: the experiment, from `setup_for`.
        methods: names out of `igcf.lab.baselines.METHODS`.
        seeds: each is a split where the split is random, and a fit and a session where these are.
        settings: changes to the settings, by method.
        grid: search this grid on the validation users of the first seed before anything else (`paper` takes hours);
            None takes the settings that were found before.
        execution: where the jobs run, and where they are saved.
    """
    if not methods or len(set(methods)) < len(methods):
        raise ConfigError(f"name each method once, got {', '.join(methods) or 'none'}")
    if not seeds:
        raise ConfigError("seeds must name at least one seed")
    if unused := sorted(set(settings or {}) - set(methods)):
        raise ConfigError(f"settings are given for {', '.join(unused)}, which is not among the methods")
    for name in methods:
        if refusal := setup.protocol.refusal(method_named(name)):
            raise ConfigError(refusal)
    settings_of = {name: tuned_settings(setup.dataset, setup.protocol, name, settings) for name in methods}
    prepare(data, setup, seeds[0])  # a log that cannot be split so is refused before anything runs
    tuning: list[dict[str, Any]] = []
    if grid is not None:
        tuning = tune(data, setup, settings_of, seed=seeds[0], grid=grid, execution=execution)
        settings_of = {found["method"]: found["settings"] for found in tuning}
    jobs: list[Job] = []
    for method in map(method_named, methods):
        plays = setup.protocol.plays(method, settings_of[method.name], setup.dataset)
        jobs += [job for seed in seeds for job in jobs_sharing_fits(method, setup, seed, plays)]
    outcomes = run_jobs(data, jobs, execution)
    return collect(setup, [each for job in outcomes for each in job], command=execution.command, tuning=tuning)


def grid_points(start: Mapping[str, Any], grid: Mapping[str, tuple[Any, ...]]) -> list[dict[str, Any]]:
    """Return every combination of the grid, the other settings as in `start`, `start` first.

    A value of `start` that the grid does not have is tried with all others too.
    """
    axes = {name: values if start[name] in values else (*values, start[name]) for name, values in grid.items()}
    points = [dict(start)] + [{**start, **dict(zip(axes, values, strict=True))} for values in product(*axes.values())]
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
    """Try the grid of each method, around its settings in `starts`, on the validation users of one split.

    The first session decides. Returns for each method its best settings, their score, and all points with theirs, best
    first.
    """
    found = [_Search(method_named(name), dict(start)) for name, start in starts.items()]
    stages = [setup.protocol.grids(search.method, paper=grid == "paper") for search in found]
    for stage in range(max(map(len, stages))):
        todo = [(search, grids[stage]) for search, grids in zip(found, stages, strict=True) if stage < len(grids)]
        jobs = {search.method.name: search.jobs(own, setup, seed) for search, own in todo}
        outcomes = run_jobs(data, [job for each in jobs.values() for job in each], execution)
        for search, _ in todo:
            search.note([each for job in outcomes for each in job if each.method == search.method.name], setup)
    return [search.as_dict(execution.command) for search in found]


class _Search:
    """Search for the settings of one method: the best point so far, and every point with its score."""

    def __init__(self, method: Method, start: dict[str, Any]) -> None:
        self.method, self.best = method, start
        self.tried: list[tuple[dict[str, Any], float]] = []
        self._points: list[dict[str, Any]] = []

    def jobs(self, grid: Mapping[str, tuple[Any, ...]], setup: Setup, seed: int) -> list[Job]:
        """Return the jobs of a grid around the best point; none where there is nothing to choose from."""
        self._points = grid_points(self.best, grid)
        return grid_jobs(self.method, setup, seed, self._points) if len(self._points) > 1 else []

    def note(self, outcomes: Sequence[Outcome], setup: Setup) -> None:
        """Take the scores of the points; of equal ones the first is the best, so that `start` wins a tie."""
        known = [point for point, _ in self.tried]
        name, t = setup.protocol.target(setup.sessions[0])
        rows = [setup.protocol.count(each, setup) for each in outcomes]
        scores = {int(row.method): row.figures[name][str(t)] for row in rows}
        new = [(self._points[number], scores[number]) for number in sorted(scores)]
        self.tried = sorted(self.tried + [each for each in new if each[0] not in known], key=lambda each: -each[1])
        if self.tried:
            self.best = self.tried[0][0]

    def as_dict(self, command: str) -> dict[str, Any]:
        """Return what was found as plain values."""
        return {
            "method": self.method.name,
            "settings": self.best,
            "score": self.tried[0][1] if self.tried else None,
            "command": command,
            "tried": [{"settings": point, "score": score} for point, score in self.tried],
        }
