"""`igcf lab`: agents side by side on the suites of environments."""

import json
from pathlib import Path
from typing import Any

import click

from igcf.cli.experiments import executing
from igcf.cli.options import COUNT, EXISTING, OUT_FOLDER, SEED, names_in
from igcf.cli.output import Answer, answers, note
from igcf.errors import ConfigError

JOBS = click.option("--jobs", type=COUNT, help="Processes at a time [default: cores].")


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
@SEED
@click.option("--out", type=OUT_FOLDER, help="Folder for the results files.")
@JOBS
@click.option("--fresh", is_flag=True, help="Do not use results of earlier runs.")
@answers
def run(agent: str | None, suite: str, against: str | None, seed: int, out: Path | None, **where: Any) -> Answer:
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
    first = REFERENCE if REFERENCE in agents else agents[0]
    return Answer(list(files.values()), [suite_table(suite, scores, agent or first)])


@lab.command()
@click.argument("file", type=EXISTING)
@JOBS
@answers
def verify(file: Path, jobs: int | None) -> Answer:
    """Recompute a results file: figures and shown items must be the same."""
    from igcf.lab.suite import agents_of, differences, play_suite, read_results_file

    document = read_results_file(file)
    with executing(jobs=jobs, fresh=True) as execution:
        agents, seed = agents_of(document), document["seed"]
        scores = play_suite(document["suite"], agents, seed=seed, execution=execution, report=note)
    if wrong := differences(document, scores):
        raise ConfigError(f"{file} could not be recomputed: {'; '.join(wrong)}")
    agent, environments = document["agent"], list(document["environments"])
    sentence = f"{file}: {agent} shows the same in all {len(environments)} environments"
    return Answer({"agent": agent, "environments": environments, "same": True}, [sentence])
