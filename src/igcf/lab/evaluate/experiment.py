"""The one function behind `igcf evaluate`: methods x seeds on a log, tuned or with the settings found before."""

from collections.abc import Mapping, Sequence
from typing import Any

from igcf.data import Interactions
from igcf.errors import ConfigError
from igcf.lab.baselines import method_named
from igcf.lab.evaluate.jobs import jobs_sharing_fits
from igcf.lab.evaluate.protocols import Job, Setup, prepare
from igcf.lab.evaluate.results import Results, collect
from igcf.lab.evaluate.run import HERE, Execution, run_jobs
from igcf.lab.evaluate.tune import Grid, tune
from igcf.lab.evaluate.tuned_settings import tuned_settings


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
    unused = sorted(set(settings or {}) - set(methods))
    if unused:
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
    jobs = [job for name in methods for seed in seeds for job in jobs_of(name, setup, seed, settings_of[name])]
    outcomes = run_jobs(data, jobs, execution)
    return collect(setup, [each for job in outcomes for each in job], command=execution.command, tuning=tuning)


def jobs_of(name: str, setup: Setup, seed: int, settings: Mapping[str, Any]) -> list[Job]:
    """Return the jobs of one method and seed, which together make its rows."""
    method = method_named(name)
    return jobs_sharing_fits(method, setup, seed, setup.protocol.plays(method, settings, setup.dataset))
