"""The one function behind `igcf evaluate`: methods x seeds on a log, tuned or with the settings found before."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import Any, Literal

from igcf.data import Interactions
from igcf.errors import ConfigError, DataError
from igcf.lab.baselines import Method, method_named
from igcf.lab.evaluate.jobs import jobs_sharing_fits
from igcf.lab.evaluate.protocols import Job, Play, Setup, prepare
from igcf.lab.evaluate.protocols.base import Row
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
    train = prepare(data, setup, seeds[0]).task.train  # a log that cannot be split so is refused before anything runs
    if min(train.n_users, train.n_items) < 2:
        found = f"{train.n_users} training users and {train.n_items} items"
        raise DataError(f"{setup.dataset} is too small: {found} remain to learn from; expected at least 2 of each")
    tuning: list[dict[str, Any]] = []
    if grid is not None:
        tuning = tune(data, setup, settings_of, seed=seeds[0], grid=grid, execution=execution)
        settings_of = {found["method"]: found["settings"] for found in tuning}
    outcomes = run_jobs(data, planned_jobs(setup, settings_of, seeds), execution)
    return collect(setup, [each for job in outcomes for each in job], command=execution.command, tuning=tuning)


def planned_jobs(setup: Setup, settings_of: Mapping[str, Mapping[str, Any]], seeds: Sequence[int]) -> list[Job]:
    """Return the jobs of an experiment on its test users.

    Args:
        setup: the experiment.
        settings_of: the settings of each method, by name.
        seeds: its seeds.
    """
    jobs: list[Job] = []
    for method in map(method_named, settings_of):
        plays = setup.protocol.plays(method, settings_of[method.name], setup.dataset)
        jobs += [job for seed in seeds for job in jobs_sharing_fits(method, setup, seed, plays)]
    return jobs


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
    found: dict[str, dict[str, Any]] = {
        name: {"method": name, "settings": dict(start), "score": None, "command": execution.command, "tried": []}
        for name, start in starts.items()
    }
    methods, target = {name: method_named(name) for name in starts}, setup.protocol.target(setup.sessions[0])
    stages = {name: setup.protocol.grids(method, paper=grid == "paper") for name, method in methods.items()}
    for stage in range(max(map(len, stages.values()))):
        grids = {name: own[stage] for name, own in stages.items() if stage < len(own)}
        points = {name: grid_points(found[name]["settings"], own) for name, own in grids.items()}
        points = {name: own for name, own in points.items() if len(own) > 1}  # others leave nothing to choose
        jobs = [job for name, own in points.items() for job in grid_jobs(methods[name], setup, seed, own)]
        outcomes = [each for job in run_jobs(data, jobs, execution) for each in job]
        for name, own in points.items():
            rows = [setup.protocol.count(each, setup) for each in outcomes if each.method == name]
            _note(found[name], own, rows, *target)
    return list(found.values())


def _note(found: dict[str, Any], points: Sequence[dict[str, Any]], rows: Sequence[Row], name: str, t: int) -> None:
    """Add the scores of the points, best first; of equal ones the first is the best, so that the start wins a tie."""
    known = [each["settings"] for each in found["tried"]]
    scores = {int(row.method): row.figures[name][str(t)] for row in rows}
    new = [{"settings": points[number], "score": scores[number]} for number in sorted(scores)]
    tried = found["tried"] + [each for each in new if each["settings"] not in known]
    found["tried"] = sorted(tried, key=lambda each: -each["score"])
    found |= found["tried"][0]
