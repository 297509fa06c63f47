"""`pip install igcf` alone can evaluate: one process, and the whole report."""

import sys
from pathlib import Path

import pytest

from igcf.data import synthetic_catalogue
from igcf.errors import ConfigError
from igcf.lab.evaluate import Execution, evaluate, setup_for
from igcf.lab.evaluate.report import write_results
from igcf.lab.evaluate.running import Step


def test_without_joblib_and_matplotlib_an_experiment_runs_here_and_its_report_is_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("igcf.lab.evaluate.running.find_spec", lambda name: None)
    monkeypatch.setitem(sys.modules, "joblib", None)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    data = synthetic_catalogue(n_users=120, n_items=50)
    setup = setup_for(data, "cold-start", rounds=10, min_reactions=10, n_users=20)
    results = evaluate(data, setup, ["random", "pop"], execution=Execution(processes=2))
    write_results(results, data, tmp_path)
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "pop" in page
    assert 'class="chart wide"' in page


def test_a_method_that_needs_torch_is_refused_before_the_others_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("igcf.lab.evaluate.running.find_spec", lambda name: None)
    data, told = synthetic_catalogue(n_users=120, n_items=50), list[Step]()
    setup = setup_for(data, "cold-start", rounds=10, min_reactions=10, n_users=20)
    execution = Execution(watch=told.append)
    with pytest.raises(ConfigError, match=r"torch not installed, which nicf cannot do without; pip install"):
        evaluate(data, setup, ["pop", "nicf"], execution=execution)
    assert told == []
