"""Trainings on workers that meet another log, damaged state or a full disk: one sentence, and nothing is spoiled."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from igcf.data import synthetic_catalogue
from igcf.data.log_files import LogFiles
from igcf.errors import ConfigError, DataError, ModelError
from igcf.training import pretrain
from igcf.training.checkpoint import Checkpoint
from igcf.training.cluster import executors
from igcf.training.cluster.executors import PartActor
from igcf.training.experts.executor import Worker
from tests.training.test_shared_experts import FAST, Several

DAMAGES = [b"", b"torn", b"PK\x03\x04 and no more", b"[]", b"null", b"\xff\xfe"]


class StoppedError(Exception): ...


@pytest.fixture(autouse=True)
def workers_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers are objects of this process."""

    @contextmanager
    def opened(_: object) -> Iterator[Several]:
        yield Several(2)

    monkeypatch.setattr(executors, "open_workers", opened)


def files(folder: Path, values: list[float | None] | None = None, *, seed: int = 0) -> LogFiles:
    log = synthetic_catalogue(n_users=40, n_items=20, seed=seed)
    users, items = (
        [ids[row] for row in rows] for ids, rows in ((log.user_ids, log.user_idx), (log.item_ids, log.item_idx))
    )
    given = [*(values or []), *log.values.tolist()[len(values or []) :]]
    folder.mkdir()
    pl.DataFrame({"user": users, "item": items, "rating": given}).write_parquet(folder / "rows.parquet")
    return LogFiles(folder)


def learn(data: LogFiles, state: Path, *, resume: bool = False, watch: Any = False) -> None:
    pretrain(data, shards=2, checkpoint=state, resume=resume, progress=watch, satisfied=4.0, **FAST)


def stop(_: object) -> None:
    raise StoppedError


def stopped(data: LogFiles, state: Path) -> None:
    with pytest.raises(StoppedError):
        learn(data, state, watch=stop)


def test_another_log_is_refused_before_the_parts_of_the_first_are_touched(tmp_path: Path) -> None:
    first, second = files(tmp_path / "first"), files(tmp_path / "second", seed=1)
    stopped(first, tmp_path / "state")
    before = {path: path.read_bytes() for path in (tmp_path / "state" / "parts").rglob("*") if path.is_file()}
    with pytest.raises(ConfigError, match="another training: log differ"):
        learn(second, tmp_path / "state", resume=True)
    assert {path: path.read_bytes() for path in before} == before


def test_other_settings_are_named(tmp_path: Path) -> None:
    data = files(tmp_path / "log")
    stopped(data, tmp_path / "state")
    with pytest.raises(ConfigError, match=r"another training: settings differ \(iterations, seed\); choose another"):
        pretrain(
            data,
            shards=2,
            checkpoint=tmp_path / "state",
            resume=True,
            satisfied=4.0,
            **{**FAST, "iterations": 3, "seed": 7},
        )


def test_after_a_log_that_cannot_be_read_there_is_nothing_to_resume(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="is empty in 1 row"):
        learn(files(tmp_path / "bad", [None]), tmp_path / "state")
    with pytest.raises(DataError, match="no reaction has a value of at least 99"):
        pretrain(files(tmp_path / "fine"), shards=2, checkpoint=tmp_path / "state", progress=False, satisfied=99.0)
    stopped(files(tmp_path / "good"), tmp_path / "state")


@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_state_is_named_wherever_it_is(damage: bytes, tmp_path: Path) -> None:
    data, state = files(tmp_path / "log"), tmp_path / "state"
    stopped(data, state)
    for name in ("training.json", "parts/parts.json", "parts/part-1/items.npy"):
        good = (state / name).read_bytes()
        (state / name).write_bytes(damage)
        with pytest.raises(ModelError, match=r"cannot read the state .*; delete the folder and begin anew") as raised:
            learn(data, state, resume=True)
        assert len(str(raised.value).splitlines()) == 1
        (state / name).write_bytes(good)
    checkpoint, path = Checkpoint(state), state / "linear.npz"
    path.write_bytes(damage)
    with pytest.raises(ModelError, match="cannot read the state"):
        checkpoint.load("linear")
    checkpoint.save("linear", {"means": np.arange(1_000.0)})
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(ModelError, match="cannot read the state"):
        checkpoint.load("linear")


def test_a_state_folder_that_cannot_be_written_is_told_in_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "state").touch()
    with pytest.raises(ModelError, match=r"cannot keep the parts of the log in .*: Not a directory"):
        learn(files(tmp_path / "log"), tmp_path / "state")
    with pytest.raises(ModelError, match="cannot keep the state of the training in"):
        Checkpoint(tmp_path / "state").begin({}, resume=False)


def test_a_file_that_a_worker_does_not_see_is_not_taken_for_a_lost_worker() -> None:
    with pytest.raises(
        ModelError, match=r"a worker could not read or write a file: .*nothing.*; all machines must see"
    ):
        PartActor().run(_read, ("nothing",), ())


def _read(_: Worker, path: str) -> None:
    Path(path).read_bytes()
