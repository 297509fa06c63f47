import json
import subprocess
import sys
import time
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from igcf.data import dataset_info
from igcf.lab.baselines import METHODS
from igcf.lab.evaluate.protocols import protocol_named
from igcf.tables import Table
from tools.published import PUBLISHED, Clock, Experiment, commands, published, seconds_of, sections_of, tables_page
from tools.results_page import DOCS, MARK, PAGES


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


def test_the_command_of_an_experiment_runs_it_alone() -> None:
    commands = {each.name: each.command for each in PUBLISHED}
    assert commands["returning-ml-1m-earliest"].endswith("--protocol returning --methods igcf --part earliest")
    assert commands["new-items-ml-1m-seed-2"].endswith("--protocol new-items --methods igcf --seed 2")
    assert commands["thin-log-ml-1m-0.05"].endswith("--keep 0.05")
    assert commands["thin-log-ml-1m-10-per-user"].endswith("--per-user 10")


def test_the_page_names_commits_keeps_what_did_not_run_again_and_says_what_never_ran(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    experiments = [Experiment("cold-start", name, ("pop",)) for name in ("ml-1m", "kuairec")]
    table = Table(title="one", header=("method", "P@10"), rows=(("pop", "7.20"),))
    monkeypatch.setattr("tools.published.PUBLISHED", (*experiments, Experiment("cold-start", "eachmovie", ("pop",))))
    before = tables_page({each.name: [table] for each in experiments}, "abc")
    assert before.count("` at commit abc") == 2
    assert "`igcf evaluate --dataset ml-1m --protocol cold-start --methods pop` at commit abc" in before
    assert "cold-start-eachmovie" in before.split("Not run yet")[1].splitlines()[0]
    table = Table(title="one", header=("method", "P@10"), rows=(("pop", "7.30"),))
    page = tables_page({experiments[0].name: [table]}, "def", before)
    assert "| pop | 7.30 |" in page.split("## cold-start-kuairec")[0]
    assert page.split("## cold-start-kuairec")[1] == before.split("## cold-start-kuairec")[1]
    assert "cold-start-ml-1m" not in page.split("Not run yet")[1].splitlines()[0].split(", ")


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("IGCF_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr("tools.published.CALIBRATED", ())


def test_every_table_of_the_pages_is_made_by_a_published_experiment_and_survives_that_others_run_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.undo()
    marks = {mark["name"] for page in PAGES for mark in MARK.finditer(page.read_text(encoding="utf-8"))}
    assert {"new-items-kuairec", "calibration-ml-1m"} <= marks
    assert marks <= set(commands())
    earlier = (DOCS / "results-tables.md").read_text(encoding="utf-8")
    page = tables_page({}, "abc", earlier)
    assert {name: sections_of(page)[name].strip() for name in marks} == {
        name: sections_of(earlier)[name].strip() for name in marks
    }


def test_an_earlier_page_says_what_fits_and_sessions_take() -> None:
    header = "| method | P@10 | fit s | online s |\n|---|--:|--:|--:|\n"
    section = f"{header}| igcf | 8.1 | 90.8 | 6.6 |\n\n{header}| igcf | 7.9 | 90.8 | 1.4 |\n"
    assert seconds_of(section) == {"igcf": (90.8, 8.0)}


def test_what_is_left_follows_from_what_is_finished_and_finished_work_of_earlier_runs_takes_no_time() -> None:
    clock = Clock([60.0, 60.0, 30.0], begun=time.monotonic() - 60.0)
    assert clock.line([2], was_kept=True, what="pop") == "[1/3] 1.0 min: pop"
    assert clock.line([0], was_kept=False, what="mf") == "[2/3] 1.0 min, about 1 min left: mf"
    assert (
        Clock([60.0, 60.0], begun=time.monotonic() - 120.0)
        .line([0], was_kept=False, what="mf")
        .startswith("[1/2] 2.0 min, about 2 min left")
    )


def run(*args: object) -> Result:
    return CliRunner().invoke(published, [str(arg) for arg in args])


def test_all_tables_go_on_where_it_stopped_and_writes_one_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    few = (Experiment("cold-start", "synthetic", ("pop",), thin=0.9),)
    monkeypatch.setattr("tools.published.PUBLISHED", few)
    command = ("--users", 20, "--jobs", 1, "--out", tmp_path)
    first = run(*command)
    assert first.exit_code == 0, first.output
    assert "pop, seed 0 finished (cold-start-synthetic-thin-0.9, " in first.output
    assert list(json.loads((tmp_path / "seconds.json").read_text())["experiments"]) == [few[0].name]
    page = (tmp_path / "tables.md").read_text()
    assert "igcf evaluate --dataset synthetic --protocol cold-start --methods pop --thin 0.9" in page
    assert (tmp_path / "cold-start-synthetic-thin-0.9" / "report.html").exists()
    again = run(*command)
    assert "pop, seed 0 kept" in again.output


@pytest.mark.slow
def test_a_run_of_all_tables_that_was_killed_goes_on_and_makes_the_same_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import tools.published as module

    few = (
        Experiment("cold-start", "synthetic", ("pop",)),
        Experiment("observed", "synthetic", ("share",)),
        Experiment("cold-start", "synthetic", ("random", "pca-gp"), seeds=2),
    )
    monkeypatch.setattr(module, "PUBLISHED", few)
    command = ["--users", "20", "--jobs", "1", "--out"]
    code = (
        "import tools.published as module\n"
        "from tools.published import Experiment\n"
        f"module.PUBLISHED = {few!r}\nmodule.CALIBRATED = ()\n"
        f"module.published.main({[*command, str(tmp_path / 'killed')]!r})"
    )
    with subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        for line in process.stderr:
            if "pca-gp, seed 0 finished" in line:  # in the middle of the last experiment
                process.kill()
                break
    assert "pca-gp" not in (tmp_path / "killed" / "tables.md").read_text()
    again = run(*command, tmp_path / "killed")
    assert again.exit_code == 0, again.output
    kept = ("share, seed 0", "pop, seed 0", "random, seed 0", "random, seed 1", "pca-gp, seed 0")
    for line in (*(f"{job} kept" for job in kept), "pca-gp, seed 1 finished"):
        assert line in again.output
    assert run(*command, tmp_path / "whole").exit_code == 0
    assert figures(tmp_path / "killed") == figures(tmp_path / "whole")


def figures(folder: Path) -> list[str]:
    """Return the tables of the page without their last two columns, seconds of fitting and of playing."""
    lines = (folder / "tables.md").read_text().splitlines()
    return [line.rsplit("|", 3)[0] for line in lines if line.startswith("|")]


def test_all_tables_need_a_folder_and_refuse_other_settings(tmp_path: Path) -> None:
    for wrong in ((), ("--out", tmp_path, "--seeds", 3)):
        assert "pass --out DIR, and neither --seeds" in run(*wrong).output


def test_the_command_of_make_results_runs_the_tool() -> None:
    done = subprocess.run([sys.executable, "-m", "tools.published"], capture_output=True, text=True, timeout=120)
    assert done.returncode == 2
    assert "pass --out DIR" in done.stderr
