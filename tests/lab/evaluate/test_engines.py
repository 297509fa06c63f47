"""Jobs on real local clusters: the numbers of one process, also when a worker is killed in the middle."""

import os
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from igcf.cli.main import cli
from igcf.errors import ConfigError, IgcfError
from igcf.lab.evaluate import Execution, Results, evaluate
from igcf.lab.evaluate.running import Step
from tests.lab.evaluate.worlds import log, setup

METHODS = ("random", "pop", "icf-ucb")
SLOWLY = {"icf-ucb": {"rounds": 300}}  # a job of a second or more: time to kill whoever works on it


def figures(results: Results) -> list[dict[str, Any]]:
    return [{name: value for name, value in row.as_dict().items() if name != "seconds"} for row in results.rows]


@pytest.fixture(scope="module")
def expected() -> list[dict[str, Any]]:
    return figures(evaluate(log(), setup(), METHODS, seeds=(0, 1), settings=SLOWLY))


TITLES = {"ray": "ray::_group_on_worker", "local": "popen_loky_posix"}


def worker(engine: str) -> int | None:
    """A process below this one that runs jobs."""
    return next((pid for pid in descendants(os.getpid()) if TITLES[engine] in command(pid)), None)


def descendants(pid: int) -> list[int]:
    found = []
    for folder in Path(f"/proc/{pid}/task").glob("*"):
        try:
            children = [int(child) for child in (folder / "children").read_text().split()]
        except OSError:
            continue
        found += [each for child in children for each in (child, *descendants(child))]
    return found


def command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
    except OSError:
        return ""


def run_with_a_kill(engine: str, folder: Path) -> tuple[Results, list[Step], list[int]]:
    """Run on two workers; once the quick methods are through and both work on a slow one, one of them is killed."""
    steps: list[Step] = []
    killed: list[int] = []
    over = threading.Event()

    def kill() -> None:
        while not over.is_set() and not killed:
            what = [step.what for step in steps]
            both_busy = (what.count("started"), what.count("finished")) == (6, 4)
            pid = worker(engine) if both_busy else None
            if pid is not None:
                os.kill(pid, signal.SIGKILL)
                killed.append(pid)
            time.sleep(0.01)

    killer = threading.Thread(target=kill)
    killer.start()
    try:
        place = Execution(engine=engine, processes=2, folder=folder, watch=steps.append)  # type: ignore[arg-type]
        found = evaluate(log(), setup(), METHODS, seeds=(0, 1), settings=SLOWLY, execution=place)
    finally:
        over.set()
        killer.join()
    return found, steps, killed


@pytest.mark.slow
def test_a_cluster_gives_the_numbers_of_one_process_also_when_a_worker_is_killed(
    tmp_path: Path, expected: list[dict[str, Any]]
) -> None:
    found, steps, killed = run_with_a_kill("ray", tmp_path)
    assert len(killed) == 1
    assert figures(found) == expected
    assert sorted(step.what for step in steps) == ["finished"] * 6 + ["started"] * 6
    assert [step.done for step in steps if step.what == "finished"] == [1, 2, 3, 4, 5, 6]
    assert len(list(tmp_path.glob("*.npz"))) == 6  # kept by this process, as always
    again: list[Step] = []
    here = Execution(folder=tmp_path, watch=again.append)
    kept = evaluate(log(), setup(), METHODS, seeds=(0, 1), settings=SLOWLY, execution=here)
    assert {step.what for step in again} == {"reused"}
    assert figures(kept) == expected


@pytest.mark.slow
def test_a_killed_process_of_the_local_pool_ends_the_run_which_then_goes_on(
    tmp_path: Path, expected: list[dict[str, Any]]
) -> None:
    with pytest.raises(IgcfError, match=r"a process was killed.*the same command resumes"):
        run_with_a_kill("local", tmp_path)
    steps: list[Step] = []
    place = Execution(processes=2, folder=tmp_path, watch=steps.append)
    resumed = evaluate(log(), setup(), METHODS, seeds=(0, 1), settings=SLOWLY, execution=place)
    assert [step.what for step in steps].count("reused") >= 4
    assert figures(resumed) == expected


def test_without_the_extra_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    result = CliRunner().invoke(
        cli, ["evaluate", "--dataset", "synthetic", "--users", "5", "--methods", "pop", "--fresh", "--engine", "ray"]
    )
    assert result.exit_code == 2
    (line,) = result.stderr.strip().splitlines()
    assert "pip install igcf[scale]" in line


def test_a_cluster_that_does_not_answer_is_one_line() -> None:
    place = Execution(engine="ray", address="127.0.0.1:1")
    with pytest.raises(ConfigError, match=r"cluster answers at 127.0.0.1:1: .*; check --address"):
        evaluate(log(), setup(), ("pop",), execution=place)


def test_an_engine_that_makes_no_sense_is_refused() -> None:
    with pytest.raises(ConfigError, match="jobs must be at least 1, got 0"):
        Execution(processes=0)
    with pytest.raises(ConfigError, match="unknown engine 'slurm'; known: local, ray"):
        Execution(engine="slurm")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="an address needs --engine ray"):
        Execution(address="somewhere:1")
