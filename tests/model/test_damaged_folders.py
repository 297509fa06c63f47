"""Model folders that were damaged, or made to do damage: one sentence, no harm."""

import hashlib
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from safetensors.numpy import load, save

from igcf.errors import ModelError
from igcf.model import Model
from igcf.model.files import _sealed
from tests.toys import ensemble_model

Change = Callable[[dict[str, Any]], object]


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    ensemble_model().save(tmp_path / "model")
    return tmp_path / "model"


def reseal(folder: Path, change: Change = lambda meta: None) -> None:
    """Change the description and seal it again, as somebody would who knows the format."""
    meta = json.loads((folder / "meta.json").read_text())
    for name in meta["sha256"]:
        if (folder / name).is_file():
            meta["sha256"][name] = hashlib.sha256((folder / name).read_bytes()).hexdigest()
            meta["bytes"][name] = (folder / name).stat().st_size
    change(meta)
    (folder / "meta.json").write_text(json.dumps(_sealed(meta)))


@pytest.mark.parametrize(
    "change",
    [
        lambda meta: meta.pop("sha256"),
        lambda meta: meta.update(sha256=[]),
        lambda meta: meta.pop("channels"),
        lambda meta: meta.update(channels=[]),
        lambda meta: meta.update(channels=5),
        lambda meta: meta["channels"].__setitem__(0, None),
        lambda meta: meta["channels"][0].update(start="0"),
        lambda meta: meta["channels"][0].update(start=-1),
        lambda meta: meta["channels"][0].update(surprise=1),
        lambda meta: meta["channels"][0]["reward"].update(kind="bliss"),
        lambda meta: meta["channels"][0]["reward"].update(low="x"),
        lambda meta: meta.update(terms=[{"weight": 1.0, "channels": None}]),
        lambda meta: meta.update(terms=[{"weight": 1.0, "channels": ["0"]}]),
        lambda meta: meta.update(terms=[{"weight": "x", "channels": [0]}]),
        lambda meta: meta.update(reward=None),
        lambda meta: meta.update(reward={"kind": "raw"}),
        lambda meta: meta.update(metadata=[1]),
        lambda meta: meta.update(items=10**30),
        lambda meta: meta.update(items="30"),
        lambda meta: meta.update(items=29),
        lambda meta: meta.update(dim=-4),
    ],
)
def test_a_description_with_damaged_parts_is_refused(saved: Path, change: Change) -> None:
    reseal(saved, change)
    with pytest.raises(ModelError):
        Model.load(saved)


def test_a_description_nested_without_end_is_refused(saved: Path) -> None:
    (saved / "meta.json").write_text('{"a":' * 100_000)
    with pytest.raises(ModelError, match="is not readable JSON"):
        Model.load(saved)


@pytest.mark.parametrize("number", [1e30, -1e30, np.inf, np.nan])
def test_numbers_that_scores_cannot_bear_are_refused(saved: Path, number: float) -> None:
    tensors = {name: np.array(each) for name, each in load((saved / "model.safetensors").read_bytes()).items()}
    tensors["vectors_0"][3, 1] = number
    (saved / "model.safetensors").write_bytes(save(tensors))
    reseal(saved)
    with pytest.raises(ModelError, match=r"NaN or infinite|a number of size"):
        Model.load(saved)


FAR: dict[str, Change] = {
    "reward threshold": lambda meta: meta["reward"].update(threshold=1e30),
    "reward high": lambda meta: meta["reward"].update(high=1e30),
    "channels 0 reward high": lambda meta: meta["channels"][0]["reward"].update(high=1e30),
    "terms 1 weight": lambda meta: meta["terms"][1].update(weight=-1e30),
    "kinds purchase": lambda meta: meta["kinds"].update(purchase=1e30),
    "usage policy nu": lambda meta: meta["usage"]["policy"].update(nu=1e30),
    "usage calibration slope": lambda meta: meta["usage"]["calibration"].update(slope=1e30),
    "usage record_temperature linear": lambda meta: meta["usage"]["record_temperature"].update(linear=10**400),
}


@pytest.mark.parametrize("name", FAR)
def test_a_sealed_setting_far_outside_a_plausible_range_is_refused(saved: Path, name: str) -> None:
    reseal(saved, FAR[name])
    with pytest.raises(ModelError, match=rf"^{name} of the model is beyond 1e\+09; scores overflow"):
        Model.load(saved)


@pytest.mark.parametrize("name", ["prior_mean", "prior_cov", "item_variances", "vectors_1", "noise_0", "noise_3"])
def test_a_sealed_number_far_outside_a_plausible_range_is_refused(saved: Path, name: str) -> None:
    tensors = {each: np.array(own) for each, own in load((saved / "model.safetensors").read_bytes()).items()}
    tensors[name].flat[0] = 1e30
    (saved / "model.safetensors").write_bytes(save(tensors))
    reseal(saved)
    with pytest.raises(
        ModelError, match=rf"a number of size 1e\+30; beyond 1e\+09|^{name} holds a number beyond 1e\+18"
    ):
        Model.load(saved)


@pytest.mark.parametrize(
    ("ids", "message"),
    [
        ([None, *(f"i{n}" for n in range(29))], "without an id"),
        (["", *(f"i{n}" for n in range(29))], "without an id"),
        (list(range(30)), "has columns"),
        ([f"i{n}" for n in range(31)], "31 rows, the model 30"),
    ],
)
def test_ids_that_are_none_are_refused(saved: Path, ids: list[Any], message: str) -> None:
    with (saved / "items.parquet").open("wb") as file:
        pl.DataFrame({"item_id": ids}).write_parquet(file)
    reseal(saved)
    with pytest.raises(ModelError, match=message):
        Model.load(saved)


LARGE: dict[str, list[Any]] = {
    "long titles": ["x" * 1_000_000] * 30,
    "many categories": [["x"] * 40_000] * 30,
    "many empty categories": [[""] * 40_000] * 30,
}


@pytest.mark.parametrize("what", LARGE)
def test_a_small_file_that_stands_for_a_large_table_is_refused(saved: Path, what: str) -> None:
    column = "title" if what == "long titles" else "categories"
    with (saved / "items.parquet").open("wb") as file:
        pl.DataFrame({"item_id": [f"i{n}" for n in range(30)], column: LARGE[what]}).write_parquet(file)
    assert (saved / "items.parquet").stat().st_size < 100_000
    reseal(saved)
    with pytest.raises(ModelError, match=r"the table of items has .* for 30 items; expected at most"):
        Model.load(saved)


def test_a_damaged_table_of_items_is_one_sentence(saved: Path) -> None:
    content = (saved / "items.parquet").read_bytes()
    for part in (b"", b"PAR1", content[: len(content) // 2], content[:-8] + b"\xff\xff\xff\x7fPAR1"):
        (saved / "items.parquet").write_bytes(part)
        reseal(saved)
        with pytest.raises(ModelError, match="does not hold a complete igcf model"):
            Model.load(saved)


@pytest.mark.parametrize("name", ["model.safetensors", "items.parquet", "meta.json"])
def test_pipes_and_devices_are_not_read(saved: Path, name: str) -> None:
    (saved / name).unlink()
    os.mkfifo(saved / name)
    with pytest.raises(ModelError):
        Model.load(saved)
    (saved / name).unlink()
    (saved / name).symlink_to("/dev/zero")
    with pytest.raises(ModelError):
        Model.load(saved)


def test_a_file_larger_than_its_model_is_not_read(saved: Path) -> None:
    shutil.copy(saved / "model.safetensors", saved / "copy")
    with (saved / "model.safetensors").open("r+b") as file:
        file.truncate(10**12)  # takes no place on the disk, and would take all of the memory
    with pytest.raises(ModelError, match="more than the"):
        Model.load(saved)
