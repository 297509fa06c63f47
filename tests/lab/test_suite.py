"""`igcf lab`: a suite is played, its results files can be recomputed, and the leaderboard is made from files."""

import json
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from igcf.data import Interactions, synthetic_catalogue
from igcf.errors import DataError
from igcf.lab import suite as module
from igcf.lab.evaluate.running import HERE
from igcf.lab.suite import SUITES, Entry, differences, play_suite, results_file, suite_table
from tests.cli.test_main import run
from tools.leaderboard_page import page

SMALL = SUITES["small"]


@pytest.fixture(autouse=True)
def small_logs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Two environments of a small log, and one whose log is not there."""
    sizes = {"rounds": 6, "min_reactions": 12, "n_users": 30}
    entries = (Entry("ColdStart", "synthetic", sizes), Entry("NewItems", "synthetic", sizes), Entry("Drift", "ml-1m"))
    monkeypatch.setitem(SUITES, "small", entries)

    def load(name: str) -> Interactions:
        if name != "synthetic":
            raise DataError(f"{name} is not there; run `igcf data fetch {name}`")
        return synthetic_catalogue(n_users=250, n_items=60)

    monkeypatch.setattr(module, "load_dataset", load)
    monkeypatch.setenv("IGCF_CACHE_DIR", str(tmp_path / "cache"))


def test_agents_are_ranked_and_marked_against_one_of_them() -> None:
    told: list[str] = []
    scores = play_suite("small", ["random", "pop", "pca-gp"], execution=HERE, report=told.append)
    assert list(scores) == ["ColdStart synthetic", "NewItems synthetic"]
    assert any(each.startswith("left out: Drift ml-1m: ml-1m is not there") for each in told)
    table = suite_table("small", scores, "pop")
    assert [row[0] for row in table.rows][-1] == "random"
    assert "> pop" in [row[0] for row in table.rows]
    assert next(row for row in table.rows if row[0] == "random")[1].endswith("-")


def test_a_results_file_is_recomputed_and_a_changed_one_is_told(tmp_path: Path) -> None:
    ran = run("lab", "run", "--agent", "pca-gp", "--against", "pop", "--jobs", "1", "--out", str(tmp_path))
    assert ran.exit_code == 0, ran.output
    file = tmp_path / "pca-gp.json"
    document: dict[str, Any] = json.loads(file.read_text())
    assert {"agent", "suite", "seed", "igcf", "code", "python", "packages", "environments"} == set(document)
    again = run("lab", "verify", str(file), "--jobs", "1")
    assert again.exit_code == 0, again.output
    assert " reused" not in again.output  # results of the first run prove nothing
    assert "shows the same in all 2 environments" in again.output
    for name, value in (("score", 9.0), ("error", 0.0), ("users", 99), ("settings", {"x": 1}), ("shown", "0" * 64)):
        tampered = deepcopy(document)
        tampered["environments"]["ColdStart synthetic"][name] = value
        file.write_text(json.dumps(tampered))
        wrong = run("lab", "verify", str(file), "--jobs", "1")
        assert wrong.exit_code == 2
        assert "could not be recomputed: ColdStart synthetic" in wrong.output
        assert name in wrong.output


def test_how_far_an_agent_says_that_it_is_from_igcf_is_recomputed_too(tmp_path: Path) -> None:
    run("lab", "run", "--agent", "pop", "--against", "igcf", "--jobs", "1", "--out", str(tmp_path))
    file = tmp_path / "pop.json"
    assert run("lab", "verify", str(file), "--jobs", "1").exit_code == 0
    document = json.loads(file.read_text())
    document["environments"]["NewItems synthetic"]["against_igcf"]["p"] = 0.001
    file.write_text(json.dumps(document))
    assert "NewItems synthetic: other against_igcf" in run("lab", "verify", str(file), "--jobs", "1").output


def test_a_file_says_how_far_an_agent_is_from_igcf() -> None:
    scores = play_suite("small", ["igcf", "pop"], execution=HERE)
    document = results_file("small", "pop", scores)
    here = document["environments"]["NewItems synthetic"]
    assert set(here["against_igcf"]) == {"difference", "p"}
    assert differences(document, scores) == []
    assert differences(document, {}) != []


def test_without_any_log_the_way_out_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(SUITES, "small", (Entry("Drift", "ml-1m"),))
    with pytest.raises(DataError, match="no log of the suite small is there"):
        play_suite("small", ["pop"], execution=HERE)


def test_a_file_that_is_none_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "x.json"
    bare = {"agent": "pop", "suite": "small", "seed": 0, "environments": {}}
    wrong = [bare, bare | {"environments": {"x": 1}}, {"suite": "small", "environments": {"x": {}}}]
    none = [("{", "cannot read"), ("[]", "is not a"), *((json.dumps(each), "is not a results file") for each in wrong)]
    for text, why in none:
        file.write_text(text)
        assert why in run("lab", "verify", str(file)).output
    assert "no agent to play" in run("lab", "run", "--against", "none").output


def test_the_page_is_made_from_the_files_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(SUITES, "small", SMALL)
    root = Path(__file__).parents[2]
    made = page(root / "research" / "leaderboard")
    assert made == (root / "docs" / "leaderboard.md").read_text(encoding="utf-8"), "python -m tools.leaderboard_page"
