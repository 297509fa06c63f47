"""The one function behind `igcf evaluate`: methods x seeds on a log, tuned or with the settings found before."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from igcf.baselines import method_named
from igcf.data import Interactions
from igcf.errors import ConfigError
from igcf.evaluate.engines import LOCAL, Engine
from igcf.evaluate.jobs import Job, Play
from igcf.evaluate.protocols import Setup, check_methods, prepare
from igcf.evaluate.results import Results, collect
from igcf.evaluate.run import Watcher, run_jobs
from igcf.evaluate.tune import tune
from igcf.evaluate.tuned_settings import chosen_settings


def evaluate(
    data: Interactions,
    setup: Setup,
    methods: Sequence[str],
    *,
    seeds: Sequence[int] = (0,),
    settings: Mapping[str, Mapping[str, Any]] | None = None,
    tuned: bool = False,
    paper_grid: bool = False,
    folder: Path | None = None,
    engine: Engine = LOCAL,
    watch: Watcher | None = None,
    command: str = "",
) -> Results:
    """Run `methods` on the users of `setup` and count what they showed.

    Args:
        data: the log.
        setup: the experiment, from `setup_for`.
        methods: names out of `igcf.baselines.METHODS`.
        seeds: each is a split where the split is random, and a fit and a session where these are.
        settings: changes to the settings, by method.
        tuned: choose the settings on the validation users of the first seed before anything else.
        paper_grid: search what the paper searched; it takes hours.
        folder: where finished jobs are kept and found again.
        engine: what runs the jobs.
        watch: called after every job.
        command: written down with the results.
    """
    check_methods(methods)
    if not seeds:
        raise ConfigError("seeds must name at least one seed")
    unused = sorted(set(settings or {}) - set(methods))
    if unused:
        raise ConfigError(f"settings are given for {', '.join(unused)}, which is not among the methods")
    starts = {
        name: method_named(name).settings(
            {**chosen_settings(setup.dataset, setup.protocol, name), **(settings or {}).get(name, {})}
        )
        for name in methods
    }
    prepare(data, setup, seeds[0])  # a log that cannot be split so is refused before anything runs
    tuning: list[dict[str, Any]] = []
    if tuned:
        tuning = tune(
            data,
            setup,
            starts,
            seed=seeds[0],
            folder=folder,
            engine=engine,
            watch=watch,
            command=command,
            paper_grid=paper_grid,
        )
        starts = {found["method"]: found["settings"] for found in tuning}
    jobs = [
        job
        for name in methods
        for seed in seeds
        for job in (
            ablation_jobs(name, setup, seed, starts[name])
            if setup.protocol == "ablation"
            else [Job(name, setup, seed, (Play(name, starts[name]),))]
        )
    ]
    outcomes = run_jobs(data, jobs, folder=folder, engine=engine, watch=watch)
    return collect(setup, [each for job in outcomes for each in job], command=command, tuning=tuning)


def ablation_jobs(name: str, setup: Setup, seed: int, settings: Mapping[str, Any]) -> list[Job]:
    """The full model and its variants; those that need no fit of their own share one."""
    method = method_named(name)
    if not method.variants:
        raise ConfigError(f"{name} has no ablations; igcf and igcf-paper have")
    groups: dict[str, list[Play]] = {}
    for label, changes in {
        name: {},
        **{f"{name} {what}": changes for what, changes in method.variants.items()},
    }.items():
        point = method.settings({**settings, **changes})
        fit_settings = {key: value for key, value in point.items() if key not in method.online}
        groups.setdefault(repr(sorted(fit_settings.items())), []).append(Play(label, point))
    return [Job(name, setup, seed, tuple(plays)) for plays in groups.values()]
