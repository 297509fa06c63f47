"""`igcf demo`: the whole story on the embedded catalogue."""

import importlib.util
import shutil
import sys
import time
from pathlib import Path
from typing import Any

import click
from rich.markup import escape
from rich.table import Column, Table
from rich.text import Text

from igcf.cli.experiments import progress_display
from igcf.cli.options import OUT_FOLDER, SEED
from igcf.cli.output import Answer, answers, console, note, results
from igcf.errors import ConfigError
from igcf.tables import print_fitted

MARKER = ".igcf-demo"
"""Name of a marker file in a folder that a demo wrote: only such a folder is overwritten."""
OTHER_COLUMNS = 56
"""Width of the columns beside the title, which alone may be shortened."""


@click.command()
@click.option("--out", default="demo", show_default=True, type=OUT_FOLDER, help="Folder for the report and the model.")
@click.option("--rounds", default=40, show_default=True, type=click.IntRange(1, 120), help="Rounds per user.")
@SEED
@answers
def demo(out: Path, rounds: int, seed: int) -> Answer:
    """Train on the embedded catalogue, compare with baselines, play one new user, write a report.

    \b
    Examples:
      igcf demo
      igcf demo --out /tmp/demo --rounds 20 --json
    """
    if out.exists() and not (out / MARKER).exists():
        raise ConfigError(f"{out} exists and was not written by a demo; choose another folder with --out")
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    (out / MARKER).touch()
    started = time.perf_counter()
    import numpy as np

    from igcf.data import cold_start, load_dataset
    from igcf.lab.demo import EMBEDDED, METHODS, play_one_user
    from igcf.lab.evaluate import Execution, evaluate, setup_for
    from igcf.lab.evaluate.report import write_results
    from igcf.lab.evaluate.tables import results_tables, verdict
    from igcf.training import pretrain

    data = load_dataset(EMBEDDED)
    console.print(
        f"[bold]1. The log[/]  {len(data):,} reactions of {data.n_users:,} users to {data.n_items:,} invented films"
    )
    split = cold_start(data, rng=np.random.default_rng(seed))
    begun = time.perf_counter()
    model = pretrain(split.train, validation=split.validation, validate_rounds=rounds, seed=seed, method="experts")
    console.print(f"[bold]2. Pretraining[/]  {split.train.n_users} users, {time.perf_counter() - begun:.1f} s")
    model.save(out / "model")
    with progress_display() as watch:
        execution, setup = Execution(watch=watch, command="igcf demo"), setup_for(data, "cold-start", rounds=rounds)
        compared = evaluate(data, setup, METHODS, seeds=(seed,), execution=execution)
    (out / "report").mkdir()
    write_results(compared, data, out / "report")
    console.print(f"[bold]3. Against the baselines[/]  satisfied items in {rounds} rounds, users never seen before")
    print_fitted(results_tables(compared)[0], console)
    note(f"   {verdict(compared).sentence}")
    story = play_one_user(model, split, rounds)
    seconds = time.perf_counter() - started
    command = "igcf" if shutil.which("igcf") else sys.argv[0]
    can_serve = all(importlib.util.find_spec(name) for name in ("fastapi", "sqlalchemy", "uvicorn"))
    return Answer(
        {"seconds": seconds, "comparison": compared.as_dict(), "user": story},
        [
            Text.from_markup(f"[bold]4. One new user[/]  {escape(story['user'])}, a reaction a round"),
            _rounds(story),
            "   after {round} rounds: {hits} hits, popularity would have had {popular_hits}".format(
                **story["rounds"][-1]
            ),
            Text.from_markup(
                f"[bold]5. Yours[/]  {seconds:.0f} s; report: {out}/report/report.html; model: {out}/model"
            ),
            f"   {command} recommend {out}/model" + (f"    {command} serve {out}/model" if can_serve else ""),
        ],
    )


def _rounds(story: dict[str, Any]) -> Table:
    shown = Column("shown", no_wrap=True, overflow="ellipsis", max_width=max(results.width - OTHER_COLUMNS, 10))
    table = Table("round", shown, "expected", "to", "reaction", "hits", "popular", box=None)
    for line in story["rounds"][:20]:
        reaction = "-" if line["value"] is None else "★" * round(line["value"])
        purpose = "learn" if line["to_learn"] else "please"
        expected = f"{line['mean']:.2f} ± {line['std']:.2f}"
        counts = (str(line["hits"]), str(line["popular_hits"]))
        table.add_row(str(line["round"]), escape(line["title"]), expected, purpose, reaction, *counts)
    return table
