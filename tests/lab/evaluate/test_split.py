"""A published split into two files."""

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from click.testing import CliRunner

from igcf.cli.main import cli
from igcf.data import load_dataset
from igcf.lab.evaluate import evaluate, prepare, setup_for
from igcf.lab.evaluate.protocols import protocol_named
from tests.lab.evaluate.worlds import log


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    """A split of a small log in a folder called gowalla, without values."""
    folder = tmp_path / "gowalla"
    folder.mkdir()
    data = log()
    is_test = np.random.default_rng(0).random(len(data)) < 0.2
    for name, rows in (("train", ~is_test), ("test", is_test)):
        columns = {"user": data.user_idx[rows], "item": data.item_idx[rows]}
        pl.DataFrame(columns).write_csv(folder / f"{name}.csv")
    return folder / "train.csv", folder / "test.csv"


def test_recall_divides_by_all_test_items_and_ndcg_by_the_best_list(files: tuple[Path, Path]) -> None:
    train, test = (load_dataset(str(path)) for path in files)
    results = evaluate(train, setup_for(train, protocol_named("split", test=str(files[1]))), ("pop",))
    (row,) = results.rows
    wanted = {user: set[str]() for user in train.user_ids}
    for user, item in zip(test.user_idx, test.item_idx, strict=True):
        wanted[test.user_ids[user]].add(test.item_ids[item])
    recalls, ndcgs = [], []
    for user, shown in zip(row.outcome.user_ids, row.outcome.shown.rows[:, 0], strict=True):
        hits = np.array([train.item_ids[item] in wanted[user] for item in shown])
        discount = 1 / np.log2(2 + np.arange(20))
        recalls.append(hits.sum() / len(wanted[user]))
        ndcgs.append(float(hits @ discount) / discount[: min(20, len(wanted[user]))].sum())
    assert row.figures["recall"]["20"] == pytest.approx(np.mean(recalls))
    assert row.figures["ndcg"]["20"] == pytest.approx(np.mean(ndcgs))


def test_settings_are_chosen_inside_the_training_file(files: tuple[Path, Path]) -> None:
    train, _ = (load_dataset(str(path)) for path in files)
    setup = setup_for(train, protocol_named("split", test=str(files[1])))
    tuning, final = (prepare(train, setup, 0, users) for users in ("validation", "test"))
    assert len(tuning.task.refitted().train) + int(tuning.n_satisfied.sum()) == len(train)
    assert len(final.task.refitted().train) == len(train)


def test_the_command_prints_published_rows_beside_ours(files: tuple[Path, Path]) -> None:
    split = ["evaluate", "--train", str(files[0]), "--test", str(files[1]), "--jobs", "1", "--fresh"]
    result = CliRunner().invoke(cli, [*split, "--methods", "pop,item-knn,graph-filter"])
    assert result.exit_code == 0, result.output
    assert "gowalla, split" in result.stdout
    assert "LightGCN" in result.stdout
    document = json.loads(CliRunner().invoke(cli, [*split, "--methods", "pop", "--json"]).stdout)
    assert set(document["rows"][0]["recall"]) == {"20"}
    alone = CliRunner().invoke(cli, ["evaluate", "--train", str(files[0])])
    assert "needs both --train and --test" in alone.stderr
