"""`igcf demo`: the whole story on the embedded catalogue; and the model of `igcf serve --demo`, learned once."""

import hashlib
import importlib.util
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.markup import escape
from rich.table import Column, Table

from igcf.cli.options import AS_JSON, PATH, SEED
from igcf.cli.output import console, emit_json, note, results
from igcf.errors import ConfigError, ModelError

if TYPE_CHECKING:
    from igcf.data import Interactions
    from igcf.data.splits import ColdStart
    from igcf.model import Model

EMBEDDED = "synthetic"
METHODS = ("random", "pop", "icf-ucb", "pca-gp", "igcf")
MARKER = ".igcf-demo"
"""Name of a marker file in a folder that a demo wrote: only such a folder is overwritten."""
OTHER_COLUMNS = 56
"""Width of the columns beside the title, which alone may be shortened."""


@click.command()
@click.option("--out", default="demo", show_default=True, type=PATH, help="Folder for the report and the model.")
@click.option("--rounds", default=40, show_default=True, type=click.IntRange(1, 120), help="Rounds per user.")
@SEED
@AS_JSON
def demo(out: Path, rounds: int, seed: int, as_json: bool) -> None:
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
    comparison = _compare(data, rounds, seed, out / "report")
    story = meet_one_user(model, split, rounds)
    if not as_json:
        _tell(story, rounds)
    seconds = time.perf_counter() - started
    console.print(f"[bold]5. Yours[/]  {seconds:.0f} s; report: {out}/report/report.html; model: {out}/model")
    command = "igcf" if shutil.which("igcf") else sys.argv[0]
    can_serve = all(importlib.util.find_spec(name) for name in ("fastapi", "sqlalchemy", "uvicorn"))
    console.print(f"   {command} recommend {out}/model" + (f"    {command} serve {out}/model" if can_serve else ""))
    if as_json:
        emit_json({"seconds": seconds, "comparison": comparison, "user": story})


def meet_one_user(model: "Model", split: "ColdStart", rounds: int) -> dict[str, Any]:
    """Play one test user, whom the model has never seen, round by round, beside the order of popularity."""
    import numpy as np

    from igcf.online import Recommender

    truth = split.test.dense()
    user = int(np.nansum(truth >= model.reward.threshold, axis=1).argmax())
    popular = np.bincount(split.train.item_idx, minlength=split.train.n_items).argsort(kind="stable")[::-1]
    session = Recommender(model).session()
    hits, popular_hits, lines = 0, 0, []
    for t in range(rounds):
        pick = session.recommend()[0]
        value = truth[user, model.item_row(pick.item_id)]
        reaction = None if np.isnan(value) else float(value)
        session.observe(pick.item_id, reaction)
        hits += bool(value >= model.reward.threshold)
        popular_hits += bool(truth[user, popular[t]] >= model.reward.threshold)
        shown = {"round": t + 1, "item": pick.item_id, "title": model.title(pick.item_id)}
        shown |= {"mean": pick.mean, "std": pick.std, "to_learn": pick.mean_rank > 1}
        lines.append({**shown, "value": reaction, "hits": hits, "popular_hits": popular_hits})
    return {"user": split.test.user_ids[user], "rounds": lines}


def _compare(data: "Interactions", rounds: int, seed: int, folder: Path) -> dict[str, Any]:
    from igcf.cli.experiments import progress_display
    from igcf.lab.evaluate import Execution, evaluate, setup_for
    from igcf.lab.evaluate.report import write_results
    from igcf.lab.evaluate.tables import results_tables, verdict
    from igcf.tables import print_fitted

    setup = setup_for(data, "cold-start", rounds=rounds)
    with progress_display() as watch:
        execution = Execution(watch=watch, command="igcf demo")
        results = evaluate(data, setup, METHODS, seeds=(seed,), execution=execution)
    folder.mkdir()
    write_results(results, data, folder)
    console.print(f"[bold]3. Against the baselines[/]  satisfied items in {rounds} rounds, users never seen before")
    for table in results_tables(results)[:1]:
        print_fitted(table, console)
    note(f"   {verdict(results).sentence}")
    return results.as_dict()


def _tell(story: dict[str, Any], rounds: int) -> None:
    console.print(f"[bold]4. One new user[/]  {escape(story['user'])}, a reaction a round")
    shown = Column("shown", no_wrap=True, overflow="ellipsis", max_width=max(results.width - OTHER_COLUMNS, 10))
    table = Table("round", shown, "expected", "to", "reaction", "hits", "popular", box=None)
    for line in story["rounds"][:20]:
        reaction = "-" if line["value"] is None else "★" * round(line["value"])
        purpose = "learn" if line["to_learn"] else "please"
        expected = f"{line['mean']:.2f} ± {line['std']:.2f}"
        counts = (str(line["hits"]), str(line["popular_hits"]))
        table.add_row(str(line["round"]), escape(line["title"]), expected, purpose, reaction, *counts)
    results.print(table)
    last = story["rounds"][-1]
    console.print(f"   after {rounds} rounds: {last['hits']} hits, popularity would have had {last['popular_hits']}")


def demo_model() -> Path:
    """Return the folder of the model of the embedded catalogue, which is learned when it is first wanted."""
    from platformdirs import user_cache_path

    folder = user_cache_path("igcf") / f"demo-{_learned_by()}" / "model"
    if not folder.exists():
        note("Learning the embedded catalogue, once")
        command = [sys.executable, "-m", "igcf", "pretrain", "--dataset", EMBEDDED, "--out", str(folder)]
        if subprocess.run(command, check=False, stdout=subprocess.DEVNULL).returncode:  # noqa: S603
            raise ModelError(f"it could not be learned; run `igcf pretrain --dataset {EMBEDDED} --out DIR` to see why")
    return folder


def _learned_by() -> str:
    """Return the version and a digest of what learns a model, so that an older igcf's model is not taken for it."""
    import igcf
    from igcf.version import __version__

    root, digest = Path(igcf.__file__).parent, hashlib.sha256()
    for part in ("data", "model", "training"):
        for file in sorted((root / part).rglob("*.py")):
            digest.update(file.read_bytes())
    return f"{__version__}-{digest.hexdigest()[:8]}"
