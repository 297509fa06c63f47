"""Whether two trainings of the default model gave the same model: choices, Gram matrices, successes of test users.

    python -m tools.same_model blocks --dataset ml-1m --block 500
    python -m tools.same_model training-log --dataset ml-1m --out log.parquet
    igcf pretrain --dataset log.parquet --satisfied 4 --out alone/                          # and so on, then
    python -m tools.same_model folders --dataset ml-1m alone/ ray/

Nothing is chosen here: the settings are the same, the test users are those of the protocol `cold-start`.
"""

from pathlib import Path
from typing import Any

import click
import numpy as np
import polars as pl

from igcf.arrays import Float32Array, IntArray
from igcf.data import Interactions, load_dataset
from igcf.lab.baselines import method_named
from igcf.lab.evaluate import prepare, setup_for
from igcf.lab.evaluate.protocols import Case
from igcf.model import Model
from igcf.online import Greedy, ModelLearner, replay
from igcf.tables import markdown_table
from igcf.training.experts import logistic_steps

COLUMNS = ("model", "Gram matrices", "low-pass filter", "calibration", "choices", "P@120", "users who differ")


def gram_difference(one: Model, other: Model) -> float:
    """Return the largest relative difference of a channel's Gram matrix of the items, in the Frobenius norm."""
    found = []
    for mine, theirs in zip(one.channels, other.channels, strict=True):
        gram, others = (each.vectors.astype(np.float64) @ each.vectors.T for each in (mine, theirs))
        found.append(np.linalg.norm(gram - others) / np.linalg.norm(gram))
    return float(max(found))


def chosen(model: Model) -> dict[str, Any]:
    """Return everything that training decided on validation users."""
    return {**model.metadata["chosen"], "policy": model.usage.policy, "low_pass": model.metadata.get("low_pass")}


def filter_difference(one: Model, other: Model) -> float | None:
    """Return the relative difference of the low-pass filters; None without filters."""
    if one.low_pass is None or other.low_pass is None:
        return None
    first, second = (each @ each.T for each in (one.low_pass, other.low_pass))
    return float(np.linalg.norm(first - second) / np.linalg.norm(first))


def successes(model: Model, truth: Float32Array, satisfied: float) -> IntArray:
    """Return the number of successes of each user in 120 rounds."""
    shown = replay(ModelLearner(model, Greedy()), truth, rounds=120, rng=np.random.default_rng(0))
    return np.asarray((shown.values[:, :, 0] >= satisfied).sum(axis=1))


def compared(models: dict[str, Model], data: Interactions, case: Case) -> str:
    """Compare models of the same items with the first of them, by Markdown rows."""
    columns = {item: place for place, item in enumerate(data.item_ids)}
    name, first = next(iter(models.items()))
    truth = case.truth[0][:, [columns[item] for item in first.item_ids]]
    counts = successes(first, truth, case.task.satisfied)
    rows: list[tuple[str, ...]] = [(name, "", "", "", "", f"{counts.mean():.3f}", "")]
    for label, model in list(models.items())[1:]:
        own = successes(model, truth, case.task.satisfied)
        of_filter, one, two = filter_difference(first, model), first.usage.calibration, model.usage.calibration
        slopes = max(abs(one.slope - two.slope), abs(one.shift - two.shift), abs(one.spread - two.spread))
        rows.append(
            (
                label,
                f"{gram_difference(first, model):.1e}",
                "none" if of_filter is None else f"{of_filter:.1e}",
                f"{slopes:.1e}",
                "the same" if chosen(first) == chosen(model) else f"{chosen(first)} against {chosen(model)}",
                f"{own.mean():.3f}",
                f"{int((own != counts).sum())} of {len(own)}",
            )
        )
    return markdown_table(COLUMNS, rows, align="lrrrlrr")


@click.group()
def main() -> None:
    """Compare models of one log."""


def _case(dataset: str) -> tuple[Interactions, Case]:
    data = load_dataset(dataset)
    return data, prepare(data, setup_for(data, "cold-start"), 0, "test")


@main.command()
@click.option("--dataset", required=True)
@click.option("--block", default=500, show_default=True, help="Items that the logistic expert has in memory at a time.")
def blocks(dataset: str, block: int) -> None:
    """Fit the default of the protocol with all items at once, and with a few at a time."""
    data, case = _case(dataset)
    method, models = method_named("igcf"), {}
    for size in (max(data.n_items, logistic_steps.ITEM_BLOCK), block):
        logistic_steps.ITEM_BLOCK = size
        name = "all items at once" if size >= data.n_items else f"{size} of {data.n_items:,} items at a time"
        models[name] = method.fit(case.task, method.settings(), np.random.default_rng(0))
    click.echo(compared(models, data, case))


@main.command("training-log")
@click.option("--dataset", required=True)
@click.option("--out", type=click.Path(path_type=Path), required=True, help="A Parquet file.")
def training_log(dataset: str, out: Path) -> None:
    """Write the training users of the protocol as a log; test users are not in it."""
    _, case = _case(dataset)
    train = case.task.train
    columns: dict[str, Any] = {
        "user": np.array(train.user_ids)[train.user_idx],
        "item": np.array(train.item_ids)[train.item_idx],
        "value": train.values,
    }
    if train.timestamps is not None:
        columns["timestamp"] = train.timestamps
    pl.DataFrame(columns).write_parquet(out)
    click.echo(
        f"{out}: {len(train):,} reactions of {train.n_users:,} users; a success is {case.task.satisfied:g} or more"
    )


@main.command()
@click.option("--dataset", required=True, help="The log with the test users.")
@click.argument("folders", nargs=-1, type=click.Path(path_type=Path, exists=True))
def folders(dataset: str, folders: tuple[Path, ...]) -> None:
    """Compare models in folders with the first of them."""
    data, case = _case(dataset)
    click.echo(compared({str(folder): Model.load(folder) for folder in folders}, data, case))


if __name__ == "__main__":
    main()
