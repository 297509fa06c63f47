"""Training on several real processes gives what one process gives."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from igcf.config import GraphConfig
from igcf.data.interactions import Interactions
from igcf.data.success import success_in
from igcf.errors import ConfigError, WorkerLostError
from igcf.model import Model, Reward
from igcf.training import Progress, pretrain
from igcf.training.cluster.engines import open_team
from igcf.training.cluster.layout import Layout
from igcf.training.cluster.team import Team
from igcf.training.cluster.workers import Workers
from igcf.training.variational.parameters import column_noise
from igcf.training.variational.train import fit
from igcf.training.variational.training_data import GraphTrainingData
from igcf.training.variational.training_pairs import TrainingPairs
from tests.training.worlds import checkerboard

OBJECTIVES: list[dict[str, Any]] = [
    {"missing": "zero"},
    {"missing": "ignore"},
    {"missing": "zero", "feedback": "binary"},
    {"missing": "ignore", "feedback": "binary"},
    {"missing": "ignore", "batch_size": 100, "optimiser": "sgd"},
]
ONE_THREAD = {"OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1"}


@pytest.fixture(scope="module", params=[2, 4])
def team(request: pytest.FixtureRequest) -> Iterator[Team]:
    """Starting a process takes seconds, so the tests that leave it alive share it."""
    with open_team(Workers(shards=request.param)) as workers:
        yield workers


def world(settings: dict[str, Any]) -> tuple[GraphConfig, TrainingPairs]:
    log, config = checkerboard(41, 30), GraphConfig(**{"dim": 6, "epochs": 50, "learning_rate": 0.1} | settings)
    return config, GraphTrainingData.from_log(
        log, config, Reward.from_log(log.values, config.reward, success_in(log).threshold)
    ).training_pairs


@pytest.mark.slow
@pytest.mark.parametrize("settings", OBJECTIVES, ids=str)
def test_workers_take_the_same_50_steps_as_one_process(team: Team, settings: dict[str, Any]) -> None:
    config, training_pairs = world(settings)
    alone, shared = (
        [step["loss"] for step in fit(training_pairs, config, team=each).state.history] for each in (None, team)
    )
    assert len(shared) == 50
    np.testing.assert_allclose(np.array(shared, float), np.array(alone, float), rtol=1e-5)


@pytest.mark.slow
def test_bytes_of_a_step_are_those_of_the_formula_and_do_not_grow_with_layers(team: Team) -> None:
    assert team.group is not None
    sent = []
    for layers in (1, 4):
        config, training_pairs = world({"layers": layers, "epochs": 3})
        begun = 0

        def note(progress: Progress) -> None:
            nonlocal begun
            assert team.group is not None
            if progress.epoch > 1:
                sent.append(team.group.sent - begun)
            begun = team.group.sent

        fit(training_pairs, config, team=team, progress=note)
    sums = 2 * 8  # likelihood and KL
    layout = Layout(6, 41, 30, team.n_workers)
    # the first of the two also tells the others to keep the parameters, which costs no exchange
    assert sent == [layout.step_bytes(0) + sums] * 4


@pytest.mark.slow
def test_checkpoint_of_several_workers_is_continued_by_one(team: Team, tmp_path: Path) -> None:
    config, training_pairs = world({"epochs": 8, "validate_every": 2})

    class InterruptedRunError(Exception):
        pass

    def crash(progress: Progress) -> None:
        if progress.epoch == 5:
            raise InterruptedRunError

    path = tmp_path / "c.safetensors"
    with pytest.raises(InterruptedRunError):
        fit(training_pairs, config, team=team, checkpoint=path, progress=crash)
    resumed, whole = fit(training_pairs, config, checkpoint=path, resume=True), fit(training_pairs, config)
    torch.testing.assert_close(resumed.parameters.tensors(), whole.parameters.tensors(), rtol=1e-4, atol=1e-5)
    back = fit(training_pairs, config, team=team, checkpoint=path, resume=True)  # a finished one, read by the workers
    columns = team.shard.columns
    assert torch.equal(back.parameters.mean, resumed.parameters.mean[:, columns.start : columns.stop])


def command(folder: Path, log: Interactions, *options: str) -> list[str]:
    path = folder / "log.csv"
    if not path.exists():
        rows = zip(log.user_idx, log.item_idx, log.values, strict=True)
        path.write_text("user,item,value\n" + "".join(f"u{u},i{i},{v}\n" for u, i, v in rows))
    return [sys.executable, "-m", "igcf", "pretrain", "--dataset", str(path), *options]


def others(parent: int) -> list[int]:
    """The processes that a process started and that are still there."""
    found = subprocess.run(["ps", "-o", "pid=,stat=", "--ppid", str(parent)], capture_output=True, text=True).stdout
    return [int(line.split()[0]) for line in found.splitlines() if "Z" not in line.split()[1]]


def is_running(pid: int) -> bool:
    try:
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().split()[2]
    except OSError:
        return False


def wait_for(condition: Any, seconds: float = 60.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.mark.slow
def test_killed_worker_ends_the_job_with_one_line_and_another_number_of_workers_resumes_it(tmp_path: Path) -> None:
    log = checkerboard(60, 40)
    settings = ["--dim", "6", "--epochs", "800", "--set", "validate_every=40"]
    settings += ["--set", "holdout=0", "--checkpoint", str(tmp_path / "state")]
    run = subprocess.Popen(
        command(tmp_path, log, *settings, "--shards", "3", "--out", str(tmp_path / "model")),
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | ONE_THREAD,
    )
    saved = tmp_path / "state" / "final.safetensors"
    wait_for(lambda: saved.exists() or run.poll() is not None)
    workers = others(run.pid)
    assert len(workers) == 2
    os.kill(workers[0], signal.SIGKILL)
    _, message = run.communicate(timeout=60)
    assert run.returncode == 2
    error = [line for line in message.splitlines() if line.startswith("Error")]
    assert len(error) == 1
    assert f"(process {workers[0]}) was killed by signal 9 (SIGKILL); resume goes on from" in error[0]
    assert "Traceback" not in message
    wait_for(lambda: not any(is_running(pid) for pid in workers), 10)
    assert not (tmp_path / "model").exists()
    assert not list((tmp_path / "state").glob(".*"))

    chosen: dict[str, Any] = {"dim": 6, "validate_every": 40, "holdout": 0.0, "epochs": 800}
    read = Interactions.from_csv(tmp_path / "log.csv")
    begun: list[int] = []
    resumed = pretrain(
        read, shards=2, checkpoint=tmp_path / "state", resume=True, progress=lambda p: begun.append(p.epoch), **chosen
    )
    assert 40 < begun[0] < 800
    assert begun[0] % 40 == 1
    whole = pretrain(read, **chosen)
    np.testing.assert_allclose(resumed.item_vectors, whole.item_vectors, atol=1e-3)
    np.testing.assert_allclose(resumed.prior_cov, whole.prior_cov, atol=1e-3)


@pytest.mark.slow
def test_killing_the_command_leaves_no_worker_behind(tmp_path: Path) -> None:
    run = subprocess.Popen(
        command(tmp_path, checkerboard(), "--dim", "4", "--epochs", "100000", "--shards", "2", "--out", "unused"),
        stderr=subprocess.DEVNULL,
        env=os.environ | ONE_THREAD,
    )
    wait_for(lambda: others(run.pid) or run.poll() is not None)
    workers = others(run.pid)
    assert workers
    run.kill()
    run.wait()
    wait_for(lambda: not any(is_running(pid) for pid in workers))


@pytest.mark.slow
def test_torchrun_starts_the_workers_too(tmp_path: Path) -> None:
    settings = ["--dim", "4", "--epochs", "20", "--set", "holdout=0", "--out", str(tmp_path / "model")]
    start = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    job = command(tmp_path, checkerboard(), *settings, "--engine", "torchrun", "--json")[1:]
    done = subprocess.run([*start, *job], capture_output=True, text=True, env=os.environ | ONE_THREAD)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["dim"] == 4
    alone = pretrain(Interactions.from_csv(tmp_path / "log.csv"), dim=4, epochs=20, holdout=0.0)
    np.testing.assert_allclose(Model.load(tmp_path / "model").item_vectors, alone.item_vectors, atol=1e-5)


def test_noise_of_a_column_depends_on_its_number_only() -> None:
    whole = column_noise(1000, range(6), seed=(3, 1))
    parts = [column_noise(1000, columns, seed=(3, 1)) for columns in (range(0, 1), range(1, 4), range(4, 6))]
    assert torch.equal(whole, torch.cat(parts, dim=1))
    assert len(np.unique(whole.numpy())) > 5900
    assert abs(float(whole.mean())) < 0.05
    assert abs(float(whole.std()) - 1) < 0.05


@pytest.mark.parametrize("coordinated", [False, True])
@pytest.mark.parametrize(("dim", "users", "workers"), [(64, 1000, 4), (7, 3, 5), (1, 1, 1)])
def test_every_column_and_every_user_has_one_worker(dim: int, users: int, workers: int, coordinated: bool) -> None:
    layout = Layout(dim, users, 10, workers, coordinated)
    ranks = range(layout.n_ranks)
    assert [column for rank in ranks for column in layout.columns(rank)] == list(range(dim))
    assert [user for rank in ranks for user in layout.users(rank)] == list(range(users))
    assert all(len(layout.columns(rank)) for rank in ranks[coordinated:])


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"shards": 0, "method": "graph"}, "shards must be between 1 and dim=64, got 0"),
        ({"shards": 5, "dim": 4}, "shards must be between 1 and dim=4, got 5"),
        ({"engine": "spark", "method": "graph"}, "engine must be one of local, torchrun, ray"),
        ({"shards": 2, "address": "auto"}, "needs engine=ray"),
        ({"engine": "torchrun"}, "torchrun started"),
    ],
)
def test_workers_that_cannot_be_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        pretrain(checkerboard(), **settings)


def test_a_worker_that_cannot_start_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/bin/false")
    with pytest.raises(WorkerLostError, match=r"worker 2 of 2 \(process \d+\) ended with code 1; give a checkpoint"):
        pretrain(checkerboard(), shards=2, method="graph")
