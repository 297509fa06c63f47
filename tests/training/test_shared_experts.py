"""The default model learned by workers that share the users of a log."""

import os
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from igcf.config import ExpertsConfig
from igcf.data import Interactions, synthetic_catalogue
from igcf.data.log_files import LogFiles
from igcf.data.reading import read_files
from igcf.errors import ConfigError, WorkerLostError
from igcf.model import Model
from igcf.training import Progress, pretrain
from igcf.training.attribute_prior import with_attributes
from igcf.training.checkpoint import Checkpoint
from igcf.training.cluster.executors import Workers, open_workers
from igcf.training.cluster.sharing import even_bounds, shared_log, with_people
from igcf.training.experts import fit_experts
from igcf.training.experts.executor import Executor, Worker, array_bytes, ranges
from igcf.training.experts.shared_log import Part

FAST: dict[str, Any] = {"iterations": 2, "logistic_dim": 4, "validate_rounds": 10, "linear_dim": 6}


class Several(Executor):
    """Workers in this process, each with its part."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.workers = [Worker() for _ in range(size)]

    def call(self, function: Any, *shared: Any, each: Any = None) -> list[Any]:
        own = [()] * self.size if each is None else each
        return [function(worker, *shared, *more) for worker, more in zip(self.workers, own, strict=True)]


def same(one: Model, other: Model) -> None:
    assert one.metadata["chosen"] == other.metadata["chosen"]
    assert one.metadata["metrics"] == other.metadata["metrics"]
    assert one.metadata.get("low_pass", {}).get("rank") == other.metadata.get("low_pass", {}).get("rank")
    assert (one.low_pass is None) == (other.low_pass is None)
    if one.low_pass is not None and other.low_pass is not None:
        np.testing.assert_allclose(one.low_pass @ one.low_pass.T, other.low_pass @ other.low_pass.T, atol=1e-4)
    for mine, theirs in zip(one.channels, other.channels, strict=True):
        gram, others = (each.vectors.astype(np.float64) @ each.vectors.T for each in (mine, theirs))
        assert np.linalg.norm(gram - others) <= 1e-5 * np.linalg.norm(gram)
        np.testing.assert_allclose(mine.noise_var, theirs.noise_var, rtol=1e-6)


def process_of(_: Worker) -> int:
    return os.getpid()


@pytest.fixture(scope="module")
def log() -> Interactions:
    return synthetic_catalogue(n_users=300, n_items=60, seed=3)


@pytest.fixture(scope="module")
def alone(log: Interactions) -> Model:
    return fit_experts(log, ExpertsConfig(satisfied=4.0, **FAST))


@pytest.mark.parametrize("n_workers", [1, 3])
def test_workers_learn_what_one_process_learns(log: Interactions, alone: Model, n_workers: int, tmp_path: Path) -> None:
    shared = shared_log(log, Several(n_workers), tmp_path)
    same(fit_experts(shared, ExpertsConfig(satisfied=4.0, **FAST)), alone)


def test_items_are_learned_some_at_a_time_with_the_same_result(
    log: Interactions, alone: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("igcf.training.experts.logistic_steps.ITEM_BLOCK", 7)
    same(fit_experts(log, ExpertsConfig(satisfied=4.0, **FAST)), alone)


def test_parts_of_files_are_those_of_the_log_whatever_lies_where(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    n = 4_000
    frame = pl.DataFrame(
        {
            "user": [f"u{row}" for row in rng.integers(80, size=n)],
            "item": rng.integers(30, size=n),
            "value": rng.integers(1, 6, size=n).astype(np.float32),
            "timestamp": rng.integers(500, size=n),
        }
    )
    folder = tmp_path / "log"
    for number in range(5):
        (folder / f"day={number}").mkdir(parents=True)
        frame[number * n // 5 : (number + 1) * n // 5].write_parquet(folder / f"day={number}" / "rows.parquet")
    whole = read_files(folder)
    executor = Several(3)
    shared = shared_log(LogFiles(folder), executor, tmp_path / "state")
    assert shared.catalogue.item_ids == whole.item_ids
    assert shared.n_users == whole.n_users
    assert shared.n_reactions == len(whole) < n  # of several reactions of one user to one item the latest counts
    expected = Part.of(whole)
    np.testing.assert_array_equal(np.concatenate([each.part.items for each in executor.workers]), expected.items)
    np.testing.assert_array_equal(np.concatenate([each.part.values for each in executor.workers]), expected.values)
    np.testing.assert_array_equal(shared.first_appearances(), whole.first_appearances())


def test_attributes_are_regressed_as_in_one_process(log: Interactions, alone: Model, tmp_path: Path) -> None:
    people = {"user": list(log.user_ids), "age": [("old", "young")[row % 2] for row in range(log.n_users)]}
    pl.DataFrame(people).write_csv(tmp_path / "people.csv")
    ids = (np.array(own)[rows] for own, rows in ((log.user_ids, log.user_idx), (log.item_ids, log.item_idx)))
    (tmp_path / "log").mkdir()
    frame = pl.DataFrame(dict(zip(("user", "item"), ids, strict=True)) | {"value": log.values})
    for number in range(2):
        frame[number::2].write_parquet(tmp_path / "log" / f"{number}.parquet")
    files = LogFiles(tmp_path / "log", users=tmp_path / "people.csv", without=())
    shared = shared_log(files, Several(3), tmp_path / "state")
    found = with_attributes(alone, with_people(shared, files, tmp_path / "state")).attribute_prior
    expected = with_attributes(alone, log.with_users(people)).attribute_prior
    assert found is not None
    assert expected is not None
    assert found.worth["age"].gain == pytest.approx(expected.worth["age"].gain, abs=1e-6)
    np.testing.assert_allclose(found.weights, expected.weights, atol=1e-6)
    assert with_people(shared, replace(files, users=None), tmp_path / "state") is shared.catalogue


def test_whole_times_become_microseconds_where_another_file_has_fractions(tmp_path: Path) -> None:
    for number, times in enumerate(([5, 6], [5.5, 7.25])):
        rows = {"user": [1, 2], "item": [number, 3], "value": [1.0, 2.0], "timestamp": times}
        pl.DataFrame(rows).write_parquet(tmp_path / f"{number}.parquet")
    executor = Several(2)
    shared = shared_log(LogFiles(tmp_path), executor, tmp_path / "state")
    whole = read_files(tmp_path)
    np.testing.assert_array_equal(shared.first_appearances(), whole.first_appearances())


def test_a_training_that_was_stopped_goes_on_to_the_same_model(log: Interactions, alone: Model, tmp_path: Path) -> None:
    class StoppedError(Exception): ...

    stages: list[str] = []

    def stop_in_the_second_fit(progress: Progress) -> None:
        stages.append(progress.what)
        if stages.count("logistic expert") == 3:
            raise StoppedError

    settings = {"satisfied": 4.0, **FAST}
    with pytest.raises(StoppedError):
        pretrain(log, checkpoint=tmp_path, progress=stop_in_the_second_fit, **settings)
    with pytest.raises(ConfigError, match="holds the state of a training; resume it"):
        pretrain(log, checkpoint=tmp_path, progress=False, **settings)
    with pytest.raises(ConfigError, match="another training: settings differ"):
        pretrain(log, checkpoint=tmp_path, resume=True, progress=False, **settings, seed=1)
    done: list[str] = []
    model = pretrain(log, checkpoint=tmp_path, resume=True, progress=lambda step: done.append(step.what), **settings)
    assert done.count("linear expert") == 1  # that of everybody; the others were there
    same(model, alone)


def test_a_state_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    checkpoint = Checkpoint(tmp_path)
    checkpoint.save("linear", {"means": np.arange(3.0)})
    np.testing.assert_array_equal((checkpoint.load("linear") or {})["means"], np.arange(3.0))
    (tmp_path / "linear.npz").write_bytes(b"torn")
    with pytest.raises(Exception, match="cannot read the state"):
        checkpoint.load("linear")


def test_work_is_divided_in_whole_blocks_and_users_by_their_reactions() -> None:
    assert ranges(1000, 2, 256) == [(slice(0, 512),), (slice(512, 1000),)]
    assert ranges(10, 3, 256) == [(slice(0, 0),), (slice(0, 0),), (slice(0, 10),)]
    assert even_bounds(np.array([10, 1, 1, 1, 1, 6]), 2) == (0, 1, 6)
    assert array_bytes((np.zeros(3), [np.zeros(2, dtype=np.float32)], {"a": 1})) == 32


def test_settings_that_workers_cannot_follow_are_refused(log: Interactions) -> None:
    for options, message in (
        ({"engine": "dask"}, "engine must be one of local, ray, got 'dask'"),
        ({"shards": 2, "method": "graph"}, "the graph model is trained by one process"),
        ({"address": "head:1", "shards": 2}, "needs engine=ray, got local"),
        ({"shards": 0}, "shards must be at least 1"),
        ({"shards": 2, "validation": log}, "leave validation out"),
    ):
        with pytest.raises(ConfigError, match=message):
            pretrain(log, progress=False, **options)


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["local", "ray"])
def test_each_engine_learns_the_same_also_after_a_worker_was_killed(
    log: Interactions, alone: Model, engine: Any, tmp_path: Path
) -> None:
    config = ExpertsConfig(satisfied=4.0, **FAST)

    def learned(watch: Any) -> Model:
        with open_workers(Workers(2, engine)) as executor:
            processes.extend(executor.call(process_of))
            shared = shared_log(log, executor, tmp_path)
            return fit_experts(shared, config, progress=watch, checkpoint=Checkpoint(tmp_path))

    def kill_a_worker(progress: Progress) -> None:
        if progress.what == "logistic expert":
            os.kill(processes[0], signal.SIGKILL)

    processes: list[int] = []
    with pytest.raises(WorkerLostError, match=r"worker 1 of 2 .* died; the same command with --resume continues"):
        learned(kill_a_worker)
    same(learned(None), alone)
    assert len(set(processes)) == 4
