"""`python -m tools.torture`: run scenarios for so many minutes, going on where the last run ended."""

import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import click
from rich.console import Console

from igcf.tables import print_fitted
from tools.torture import results
from tools.torture.results import Trial
from tools.torture.scenarios import SCENARIOS, Tools
from tools.torture.standstill import Standstill


def commit() -> str:
    """The commit that is tortured, with a + where files have been changed since."""
    done = subprocess.run(["git", "describe", "--always", "--dirty=+"], capture_output=True, text=True, check=False)
    return done.stdout.strip() or "unknown"


def furthest_behind(out: Path, names: list[str]) -> tuple[str, int] | None:
    """Choose the scenario with the smallest share of its trials done, and the next seed of it; None: all are done."""
    tried: Counter[str] = Counter()
    seeds: dict[str, int] = {}
    for row in results.read(out):
        tried[row["only"]] += row["tried"] * (not row["scenario"].startswith(results.WHOLE))
        seeds[row["only"]] = max(seeds.get(row["only"], -1), row["seed"])
    shares = {name: tried[name] / SCENARIOS[name].goal for name in names}
    name = min(shares, key=shares.__getitem__)
    return None if shares[name] >= 1 else (name, seeds.get(name, -1) + 1)


def run_round(tools: Tools, name: str, seed: int, out: Path, run: str) -> int:
    """Run one round and keep its trials; returns how many failed. What a scenario cannot cope with is a failure too.

    A trial that fails while this process was suspended does not count, because its time limits expired in the pause.
    The round reports it and ends.
    """
    failed, still = 0, Standstill()
    try:
        for trial in _trials(tools, name, seed):
            for problem in trial.problems[:3]:
                click.echo(f"{name} --seed {seed}: {problem[:500]}", err=True)
            if trial.problems and still.times:
                click.echo(f"{name} --seed {seed}: not counted, since this process was suspended", err=True)
                break
            results.append(out, trial, {"only": name, "seed": seed, "commit": run})
            failed += bool(trial.problems)
            still.times = 0
    finally:
        still.close()
    return failed


def _trials(tools: Tools, name: str, seed: int) -> Iterator[Trial]:
    try:
        yield from SCENARIOS[name].run(tools, seed)
    except Exception as error:
        yield Trial(f"{name}: the scenario itself", "", [f"{type(error).__name__}: {error}"])


@click.command()
@click.option("--minutes", default=30.0, show_default=True, help="No round begins after so many minutes.")
@click.option("--out", type=click.Path(path_type=Path), default=Path("torture"), show_default=True)
@click.option("--only", "names", multiple=True, type=click.Choice(list(SCENARIOS)), help="These scenarios only.")
@click.option("--seed", type=int, help="Run the round of this seed, once.")
def main(minutes: float, out: Path, names: tuple[str, ...], seed: int | None) -> None:
    """Break things, check, and report; exits with 1 when anything was found wrong."""
    deadline, tools, failed = time.monotonic() + 60 * minutes, Tools(), 0
    possible = [name for name, scenario in SCENARIOS.items() if scenario.is_possible()]
    chosen, version = list(names or possible), commit()
    try:
        while seed is None and time.monotonic() < deadline:
            behind = furthest_behind(out, chosen)
            if behind is None:
                break
            failed += run_round(tools, *behind, out, version)
        for name in chosen if seed is not None else []:
            failed += run_round(tools, name, seed or 0, out, version)
    finally:
        tools.close()
    page = results.write_report(out)
    print_fitted(results.summary(results.read(out)), Console())
    click.echo(f"report: {page}", err=True)
    raise SystemExit(1 if failed else 0)


if __name__ == "__main__":
    main()
