from pathlib import Path

import pytest

from igcf.data import dataset_info, load_dataset
from igcf.lab.baselines import METHODS
from igcf.lab.evaluate.observed import OBSERVED_METHODS
from igcf.lab.evaluate.own_figures import own_tables
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
        assert set(each.methods) <= {*METHODS, *OBSERVED_METHODS}


def test_the_graph_model_is_in_every_table_of_the_paper_and_nicf_wherever_it_can_be() -> None:
    for each in PUBLISHED:
        if each.protocol in ("cold-start", "taste-drift", "top-k", "ablation", "known-users"):
            assert "igcf-graph" in each.methods or each.methods == ("nicf",), each.name
        if each.protocol in ("taste-drift", "top-k"):
            assert "nicf" in each.methods, each.name
    seeds = {(each.dataset, each.methods == ("nicf",)): each.seeds for each in PUBLISHED if each.seeds > 1}
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
    assert commands["new-items-ml-1m-seed-2"] == "igcf evaluate --dataset ml-1m --protocol new-items --seed 2"
    assert commands["thin-log-ml-1m-0.05"] == "python tools/graph_helps.py ml-1m --keep 0.05"
    assert commands["thin-log-ml-1m-10-per-user"] == "python tools/graph_helps.py ml-1m --per-user 10"
    assert commands["calibration-ml-1m"] == "igcf calibration --dataset ml-1m --methods pca-gp,igcf"


def test_the_page_names_the_commit_and_what_was_not_run() -> None:
    experiment = Experiment("cold-start", "ml-1m", ("pop",), 1)
    table = Table(title="one", header=("method", "P@10"), rows=(("pop", "7.20"),))
    page = tables_page([(experiment, [table])], commit="abc", minutes=3)
    assert "After this page" in page
    assert "at commit abc, in 3 minutes" in page
    assert "`igcf evaluate --dataset ml-1m --protocol cold-start --methods pop`" in page
    assert "| pop | 7.20 |" in page
    assert "Not run at this commit" in page
    assert "cold-start-kuairec" in page


def test_an_experiment_with_figures_of_its_own_is_kept_and_not_run_again(tmp_path: Path) -> None:
    data, methods, begun = load_dataset("synthetic"), ("pop", "share"), list[str]()

    def run(seed: int) -> list[Table]:
        each = Experiment("observed", "synthetic", methods, 1, seed=seed)
        return own_tables(each, data, users=20, folder=tmp_path, step=begun.append)

    first = run(0)
    assert begun == list(methods)
    assert run(0) == first
    assert begun == list(methods)
    run(1)
    assert begun == [*methods, *methods]  # another seed is another experiment
    (tmp_path / next(path.name for path in tmp_path.iterdir() if "-0-" in path.name)).write_text("half a fi")
    assert run(0) == first
    assert len(begun) == 3 * len(methods)
