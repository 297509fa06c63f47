"""The protocol new-items on a small log."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from click.testing import CliRunner

from igcf.cli.main import cli
from igcf.data import Interactions
from igcf.errors import ConfigError
from igcf.lab.evaluate.hidden_items import hidden_items, without_items
from igcf.lab.evaluate.new_items import NewItemsResults, new_items, new_items_setup, new_items_tables
from igcf.online import Exposure


def two_tastes(n_users: int = 160, n_items: int = 120) -> Interactions:
    """Users of two tastes, each for half of the items; items differ in popularity."""
    rng = np.random.default_rng(0)
    popularity = rng.beta(1.0, 3.0, n_items)
    taste, kind = rng.integers(2, size=n_users), np.arange(n_items) % 2
    chance = np.where(taste[:, None] == kind, 0.9, 0.1) * np.sqrt(popularity)
    users, items = np.nonzero(rng.random((n_users, n_items)) < chance)
    log = Interactions.from_arrays(
        users.astype(str), items.astype(str), rng.integers(3, 6, len(users)).astype(float), timestamps=users
    )
    kinds = tuple((("even", "odd")[int(item) % 2],) for item in log.item_ids)
    return log.with_catalogue(None, kinds)


@pytest.fixture(scope="module")
def results() -> NewItemsResults:
    data = two_tastes()
    setup = new_items_setup(data, satisfied=4.0, rounds=12, split="users", n_users=20)
    exposure = Exposure(share=0.3, price=0.5, most=20, known=2, fit=-1.0)
    return new_items(data, replace(setup, exposure=exposure), seed=0)


def test_every_row_of_the_protocol_is_there_on_the_same_users(results: NewItemsResults) -> None:
    methods = [(row.method, row.reactions) for row in results.rows]
    assert methods[0] == ("frozen", None)
    assert methods[-1] == ("ceiling", None)
    assert {("content", 0), ("igcf", 5), ("igcf", 20), ("igcf-in-turn", 20), ("no-content", 50), ("pop", 50)} <= set(
        methods
    )
    assert len({len(row.all_items) for row in results.rows}) == 1


def test_a_frozen_catalogue_has_no_success_on_new_items(results: NewItemsResults) -> None:
    assert not results.rows[0].new_items.any()
    assert results.rows[-1].new_items.sum() > 0
    assert all((row.new_items <= row.all_items).all() for row in results.rows)


def test_trials_keep_to_their_budget(results: NewItemsResults) -> None:
    for stretch in results.stretches:
        assert stretch.trials <= 0.3 * 12 * stretch.n_users
    assert results.n_reactions.max() > 0


def test_tables_and_json_say_the_same(results: NewItemsResults) -> None:
    document = json.loads(json.dumps(results.as_dict()))
    table = new_items_tables(results)[0]
    assert [row["method"] for row in document["rows"]] == [line[0] for line in table.rows]
    assert f"{document['rows'][-1]['new']:.2f}" == table.rows[-1][3]


def test_new_items_are_those_of_a_lot_or_the_newest_and_never_those_of_the_choice_of_settings() -> None:
    data = two_tastes()
    chosen = hidden_items(data, 0.2, "lot", 0, is_validation=True)
    for seed in range(5):
        drawn = hidden_items(data, 0.2, "lot", seed)
        assert drawn.sum() == chosen.sum() == round(0.2 * data.n_items)
        assert not (drawn & chosen).any()
    first = data.first_appearances()
    assert first is not None
    newest = hidden_items(data, 0.2, "newest", 0)
    assert first[newest].min() >= first[~newest].max()
    rest = without_items(data, newest)
    assert set(rest.item_ids) == {data.item_ids[row] for row in np.flatnonzero(~newest)}
    assert len(rest) == int((~newest[data.item_idx]).sum())


def test_the_newest_items_need_times() -> None:
    data = two_tastes()
    without = Interactions.from_arrays(data.user_idx.astype(str), data.item_idx.astype(str), data.values)
    with pytest.raises(ConfigError, match="timestamps"):
        new_items_setup(without, part="newest")


def test_the_command_runs_the_protocol(tmp_path: Path) -> None:
    data = two_tastes(80, 60)
    columns = {"user": data.user_idx, "item": data.item_idx, "value": data.values}
    pl.DataFrame(columns).write_parquet(tmp_path / "log.parquet")
    options = ["--protocol", "new-items", "--rounds", "4", "--users", "8", "--satisfied", "4", "--json"]
    outcome = CliRunner().invoke(cli, ["evaluate", "--dataset", str(tmp_path / "log.parquet"), *options])
    assert outcome.exit_code == 0, outcome.output
    assert json.loads(outcome.stdout)["protocol"] == "new-items"
