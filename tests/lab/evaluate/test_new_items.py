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
from igcf.lab.evaluate import Results, evaluate, setup_for
from igcf.lab.evaluate.protocols import protocol_named
from igcf.lab.evaluate.protocols.new_items import NewItemsProtocol, hidden_items, without_items
from igcf.lab.evaluate.tables import results_tables
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
    return replace(log, categories=kinds)


@pytest.fixture(scope="module")
def results() -> Results:
    def exposure(self: NewItemsProtocol, setup: object) -> Exposure:
        return Exposure(share=0.3, price=0.5, most=20, known=2, fit=-1.0)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(NewItemsProtocol, "exposure", exposure)
        data = two_tastes()
        setup = setup_for(data, "new-items", satisfied=4.0, rounds=12, split="users", n_users=20)
        return evaluate(data, setup, ("igcf",))


def successes_on_new(results: Results, label: str) -> int:
    (row,) = results.rows_of(label, results.sessions[0])
    return sum(row.outcome.details["successes_on_new"])


def test_every_row_of_the_protocol_is_there_on_the_same_users(results: Results) -> None:
    assert results.methods[0] == "frozen"
    assert results.methods[-1] == "ceiling"
    assert {"content, 0 reactions", "igcf, 5 reactions", "igcf-in-turn, 20 reactions", "pop, 50 reactions"} <= set(
        results.methods
    )
    assert len({row.outcome.user_ids for row in results.rows}) == 1
    assert "frozen" in {each.reference for each in results.comparisons}


def test_a_frozen_catalogue_has_no_success_on_new_items(results: Results) -> None:
    assert successes_on_new(results, "frozen") == 0
    assert successes_on_new(results, "ceiling") > 0
    for row in results.rows:
        last = str(results.sessions[0].rounds)
        assert row.figures["new"][last] <= row.figures["precision"][last]


def test_trials_keep_to_their_budget(results: Results) -> None:
    (row,) = results.rows_of("igcf, 50 reactions", results.sessions[0])
    for stretch in row.outcome.details["stretches"]:
        assert stretch["trials"] <= 0.3 * 12 * stretch["n_users"]
    assert max(row.outcome.details["reactions"]) > 0


def test_tables_and_json_say_the_same(results: Results) -> None:
    document = json.loads(json.dumps(results.as_dict()))
    table = next(each for each in results_tables(results) if "new" in each.header)
    assert [row["method"] for row in document["rows"]] == [line[0] for line in table.rows]
    column = table.header.index("new")
    assert f"{document['rows'][-1]['new']['12']:.3f}" == table.rows[-1][column]


def test_new_items_are_those_of_a_lot_or_the_newest_and_never_those_of_the_choice_of_settings() -> None:
    data = two_tastes()
    chosen = hidden_items(data, 0.2, "random", 0, is_validation=True)
    for seed in range(5):
        drawn = hidden_items(data, 0.2, "random", seed)
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
        setup_for(without, protocol_named("new-items", new="newest"))


def test_the_command_runs_the_protocol(tmp_path: Path) -> None:
    data = two_tastes(80, 60)
    columns = {"user": data.user_idx, "item": data.item_idx, "value": data.values}
    pl.DataFrame(columns).write_parquet(tmp_path / "log.parquet")
    options = ["--protocol", "new-items", "--rounds", "4", "--users", "8", "--satisfied", "4", "--json", "--fresh"]
    options += ["--seeds", "2", "--jobs", "1", "--set", "igcf:logistic_dim=4"]
    outcome = CliRunner().invoke(cli, ["evaluate", "--dataset", str(tmp_path / "log.parquet"), *options])
    assert outcome.exit_code == 0, outcome.output
    document = json.loads(outcome.stdout)
    assert document["protocol"] == "new-items"
    assert {row["seed"] for row in document["rows"]} == {0, 1}
    assert document["rows"][0]["config"]["logistic_dim"] == 4
