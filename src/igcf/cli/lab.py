"""`igcf lab`: agents side by side on the suites of environments."""

import json
from pathlib import Path
from typing import Any

import click

from igcf.cli.experiments import executing, print_all
from igcf.cli.options import AS_JSON, COUNT, names_in
from igcf.cli.output import echo, emit_json, note
from igcf.errors import ConfigError

JOBS = click.option("--jobs", type=COUNT, help="Processes at a time [default: cores].")
FRESH = click.option("--fresh", is_flag=True, help="Do not use results of earlier runs.")


@click.group()
def lab() -> None:
    """Measure agents, your own and built-in ones, on environments of real logs.

    \b
    Examples:
      igcf lab run --suite small
      igcf lab run --agent mypackage:MyAgent --suite small --out results/
      igcf lab verify results/mypackage.MyAgent.json
    """


@lab.command()
@click.option("--agent", metavar="NAME|MODULE:CLASS", help="Agent of your own, or one of igcf's.")
@click.option("--suite", type=click.Choice(("small", "full")), default="small", show_default=True,
              help="Eight environments each (docs/leaderboard.md).")  # fmt: skip
@click.option("--against", metavar="NAMES", help="Agents to compare with, by commas, or `none` [default: fifteen].")
@click.option("--seed", default=0, show_default=True, type=click.IntRange(min=0), help="Of splits, fits and ties.")
@click.option("--out", type=click.Path(path_type=Path, file_okay=False), help="Folder for the results files.")
@JOBS
@FRESH
@AS_JSON
def run(
    agent: str | None, suite: str, against: str | None, seed: int, out: Path | None, as_json: bool, **where: Any
) -> None:
    """Run a suite: your agent and all others, or without --agent the others; write a results file for each.

    Finished runs are cached, so that only a new agent takes time.
    """
    from igcf.lab.suite import REFERENCE, STANDING, play_suite, results_file, suite_table

    others = [] if against == "none" else names_in(against) or list(STANDING)
    agents = list(dict.fromkeys([*others, *([agent] if agent else [])]))
    if not agents:
        raise ConfigError("no agent to play; name one with --agent, or several with --against")
    with executing(**where) as execution:
        scores = play_suite(suite, agents, seed=seed, execution=execution, report=note)
    files = {each: results_file(suite, each, scores, seed=seed) for each in ([agent] if agent else agents)}
    if out:
        out.mkdir(parents=True, exist_ok=True)
        for name, document in files.items():
            (out / f"{name.replace(':', '.')}.json").write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
        note(f"wrote {len(files)} results file{'s' if len(files) > 1 else ''} to {out}")
    if as_json:
        emit_json(list(files.values()))
    else:
        first = REFERENCE if REFERENCE in agents else agents[0]
        print_all([suite_table(suite, scores, agent or first)], "table")


@lab.command()
@click.argument("file", type=click.Path(path_type=Path, exists=True, dir_okay=False))
@JOBS
def verify(file: Path, jobs: int | None) -> None:
    """Recompute a results file: figures and shown items must be the same."""
    from igcf.lab.suite import REFERENCE, SUITES, differences, play_suite

    try:
        document = json.loads(file.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ConfigError(f"{file} is not JSON: {error}") from error
    known = document if isinstance(document, dict) else {}
    environments: Any = known.get("environments")
    seed: Any = known.get("seed")
    is_one = isinstance(known.get("agent"), str) and isinstance(seed, int) and seed >= 0
    is_one = is_one and known.get("suite") in tuple(SUITES) and isinstance(environments, dict) and bool(environments)
    if not is_one or not all(isinstance(each, dict) for each in environments.values()):
        raise ConfigError(f"{file} is not a results file of `igcf lab run`; expected agent, suite and environments")
    with executing(jobs=jobs, fresh=True) as execution:
        agents = [document["agent"]]
        if any(f"against_{REFERENCE}" in each for each in environments.values()):
            agents = list(dict.fromkeys([*agents, REFERENCE]))
        scores = play_suite(document["suite"], agents, seed=seed, execution=execution, report=note)
    if wrong := differences(document, scores):
        raise ConfigError(f"{file} could not be recomputed: {'; '.join(wrong)}")
    echo(f"{file}: {document['agent']} shows the same in all {len(environments)} environments")
