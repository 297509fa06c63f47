from pathlib import Path

import pytest

from igcf.data import dataset_info
from igcf.lab.baselines import METHODS
from igcf.lab.evaluate.protocols import protocol_named
from igcf.lab.evaluate.published import (
    PUBLISHED,
    Experiment,
    minutes_left,
    read_minutes,
    tables_page,
    write_minutes,
)
from igcf.tables import Table


def test_every_published_experiment_has_a_name_of_its_own_and_known_parts() -> None:
    assert len({each.name for each in PUBLISHED}) == len(PUBLISHED)
    for each in PUBLISHED:
        assert dataset_info(each.dataset).name == each.dataset
        assert set(each.methods) <= set(METHODS)
        protocol_named(each.protocol, **each.options)


def test_the_graph_model_is_in_every_table_of_the_paper_and_nicf_wherever_it_can_be() -> None:
    for each in PUBLISHED:
        if each.protocol in ("cold-start", "taste-drift", "top-k", "ablation", "known-users"):
            assert "igcf-graph" in each.methods or each.methods == ("nicf",), each.name
        if each.protocol in ("taste-drift", "top-k"):
            assert "nicf" in each.methods, each.name
    seeds = {
        (each.dataset, each.methods == ("nicf",)): each.seeds
        for each in PUBLISHED
        if each.protocol == "cold-start" and each.seeds > 1
    }
    assert seeds == {("ml-1m", False): 10, ("ml-1m", True): 3, ("kuairec", False): 10, ("kuairec", True): 3}
    graphs = {
        (changes.get("graph", "lightgcn"), changes.get("layers")) for changes in METHODS["igcf-graph"].variants.values()
    }
    assert graphs >= {(graph, layers) for graph in ("lightgcn", "sgc", "appnp") for layers in (1, 2, 3)} | {
        ("lightgcn", 0)
    }


def test_the_time_left_follows_the_speed_of_this_machine() -> None:
    done, todo = PUBLISHED[:2], PUBLISHED[2:4]
    listed = sum(each.minutes for each in todo)
    assert minutes_left(todo, {}) == listed
    taken = {each.name: 2 * each.minutes for each in done}
    assert minutes_left(todo, taken) == pytest.approx(2 * listed)
    assert minutes_left(PUBLISHED[:4], taken) == pytest.approx(2 * listed)  # what is finished takes no time


def test_a_run_that_goes_on_knows_how_long_the_finished_experiments_took(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert read_minutes(tmp_path) == {}
    write_minutes(tmp_path, {"top-k-ml-1m": 3.5})
    assert read_minutes(tmp_path) == {"top-k-ml-1m": 3.5}
    monkeypatch.setattr("igcf.lab.evaluate.published.code_version", lambda: "another")
    assert read_minutes(tmp_path) == {}  # that code has made nothing yet


def test_the_command_of_an_experiment_runs_it_alone() -> None:
    commands = {each.name: each.command for each in PUBLISHED}
    assert commands["returning-ml-1m-earliest"].endswith("--protocol returning --methods igcf --part earliest")
    assert commands["new-items-ml-1m-3-seeds"].endswith("--protocol new-items --methods igcf --seeds 3")
    assert commands["thin-log-ml-1m-0.05"].endswith("--keep 0.05")
    assert commands["thin-log-ml-1m-10-per-user"].endswith("--per-user 10")


def test_the_page_names_the_commit_and_what_was_not_run() -> None:
    experiment = Experiment("cold-start", "ml-1m", ("pop",), 1)
    table = Table(title="one", header=("method", "P@10"), rows=(("pop", "7.20"),))
    page = tables_page([(experiment, [table])], commit="abc", minutes=3)
    assert "at commit abc, in 3 minutes" in page
    assert "`igcf evaluate --dataset ml-1m --protocol cold-start --methods pop`" in page
    assert "| pop | 7.20 |" in page
    assert "Not run at this commit" in page
    assert "cold-start-kuairec" in page
