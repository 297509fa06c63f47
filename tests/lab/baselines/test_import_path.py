"""A method in a file of its own, named by its import path."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import igcf
from igcf.errors import ConfigError
from igcf.lab.baselines.registry import method_named, method_source
from igcf.lab.evaluate.tuned_settings import parse_changes

PAGE = Path(__file__).parents[3] / "docs" / "howto" / "baseline.md"


def write_method(folder: Path) -> None:
    """The method of the how-to page, as it is printed there."""
    code = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)[0]
    (folder / "best_rated.py").write_text(code)


def igcf_in(folder: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    paths = {"PYTHONPATH": str(Path(igcf.__file__).parents[1])}
    command = [sys.executable, "-c", "from igcf.cli.main import cli; cli()", *arguments]
    return subprocess.run(command, cwd=folder, env=os.environ | paths, capture_output=True, text=True, timeout=300)


@pytest.mark.slow
def test_the_method_of_the_how_to_page_runs_in_two_processes_and_on_ray_to_the_same_figures(tmp_path: Path) -> None:
    write_method(tmp_path)
    given = ("--dataset", "synthetic", "--methods", "pop,best_rated:METHOD", "--seeds", "2", "--jobs", "2", "--json")
    found = []
    for engine in ("local", "ray"):
        done = igcf_in(tmp_path, "evaluate", *given, "--set", "best_rated:METHOD:pull=3", "--fresh", "--engine", engine)
        assert done.returncode == 0, done.stderr
        found.append([{**row, "seconds": None} for row in json.loads(done.stdout)["rows"]])
    assert [row["method"] for row in found[0]] == ["pop", "pop", "best_rated:METHOD", "best_rated:METHOD"]
    assert found[0][-1]["config"] == {"pull": 3}
    assert found[0] == found[1]


def test_a_path_that_leads_to_no_method_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match=r"cannot import no_such_module:METHOD: No module named"):
        method_named("no_such_module:METHOD")
    with pytest.raises(ConfigError, match=r"igcf.errors:ConfigError is a type; expected an igcf.lab.baselines.Method"):
        method_named("igcf.errors:ConfigError")
    with pytest.raises(ConfigError, match=r"and my.module:NAME for one of your own"):
        method_named("best-rated")


def test_another_source_is_another_method(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    code = "from igcf.lab.baselines import METHODS\nMETHOD = METHODS['pop']\n"
    (tmp_path / "own_pop.py").write_text(code)
    assert method_named("own_pop:METHOD").name == "own_pop:METHOD"
    before = method_source("own_pop:METHOD")
    (tmp_path / "own_pop.py").write_text(code + "# changed")
    assert method_source("own_pop:METHOD") != before
    assert method_source("pop") == ""
    with pytest.raises(ConfigError, match="own_pop:METHOD has no setting nu"):
        parse_changes(("own_pop:METHOD:nu=1",))
