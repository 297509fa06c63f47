import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from igcf.errors import ModelError
from igcf.model import Model
from igcf.model.files import model_id
from igcf.online import Recommender
from tests.toys import ensemble_model, random_model, two_channel_model


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    two_channel_model().save(tmp_path / "model")
    return tmp_path / "model"


@pytest.mark.parametrize("model", [random_model(), two_channel_model(), ensemble_model()])
def test_what_is_loaded_is_what_was_saved(model: Model, tmp_path: Path) -> None:
    model.metadata["settings"] = {"dim": 5}
    model.save(tmp_path / "model")
    loaded = Model.load(tmp_path / "model")
    for name in ("item_vectors", "item_variances", "prior_mean", "prior_cov", "noise_var"):
        np.testing.assert_array_equal(getattr(loaded, name), getattr(model, name))
    for name in ("item_ids", "titles", "categories", "reward", "metadata"):
        assert getattr(loaded, name) == getattr(model, name)
    assert loaded.terms == model.terms
    for one, other in zip(loaded.channels, model.channels, strict=True):
        np.testing.assert_array_equal(one.vectors, other.vectors)
        np.testing.assert_array_equal(one.noise_var, other.noise_var)
        assert (one.reward, one.link, one.start) == (other.reward, other.link, other.start)


def test_a_folder_without_a_filter_and_times_is_that_of_before(tmp_path: Path) -> None:
    plain = two_channel_model()
    plain.save(tmp_path / "plain")
    meta = json.loads((tmp_path / "plain" / "meta.json").read_text())
    assert meta["version"] == 1
    loaded = Model.load(tmp_path / "plain")
    assert loaded.low_pass is None
    assert loaded.appeared is None
    assert len(Recommender(loaded).session(logged=[("item-3", 5.0)]).recommend(2)) == 2


def test_a_filter_and_times_are_saved_and_loaded(tmp_path: Path) -> None:
    own = np.random.default_rng(0).normal(size=(30, 5)).astype(np.float32)
    model = two_channel_model().changed(low_pass=own)
    model.appeared = np.arange(30)
    model.save(tmp_path / "model")
    loaded = Model.load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.low_pass, own)
    np.testing.assert_array_equal(loaded.appeared, np.arange(30))
    kept = loaded.with_prior(loaded.prior_mean, loaded.prior_cov)
    assert kept.low_pass is loaded.low_pass
    assert kept.appeared is loaded.appeared


@pytest.mark.parametrize(("shape", "number", "said"), [((29, 2), 0.0, "low_pass has shape"), ((30, 2), np.nan, "NaN")])
def test_a_low_pass_filter_that_does_not_fit_is_refused(shape: tuple[int, int], number: float, said: str) -> None:
    with pytest.raises(ModelError, match=said):
        two_channel_model().changed(low_pass=np.full(shape, number, np.float32))


def test_the_folder_holds_three_files_and_no_pickle(saved: Path) -> None:
    assert sorted(path.name for path in saved.iterdir()) == ["items.parquet", "meta.json", "model.safetensors"]
    assert [path.name for path in saved.parent.iterdir()] == ["model"]


def test_an_existing_folder_is_never_overwritten(saved: Path) -> None:
    before = {path.name: path.read_bytes() for path in saved.iterdir()}
    with pytest.raises(ModelError, match="already exists"):
        random_model().save(saved)
    assert {path.name: path.read_bytes() for path in saved.iterdir()} == before


@pytest.mark.parametrize("name", ["model.safetensors", "items.parquet"])
def test_a_truncated_or_changed_file_is_refused(saved: Path, name: str) -> None:
    content = (saved / name).read_bytes()
    for broken in (content[:-10], content[:50] + bytes([content[50] ^ 1]) + content[51:]):
        (saved / name).write_bytes(broken)
        with pytest.raises(ModelError, match="is not the file that was saved"):
            Model.load(saved)
    (saved / name).unlink()
    with pytest.raises(ModelError, match="the model is not complete"):
        Model.load(saved)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"version": 99}, "has model format 99, this igcf reads 1"),
        ({"format": "other"}, "does not describe an igcf model"),
        ({"dim": 7}, "was changed after it was saved"),
    ],
)
def test_a_newer_foreign_or_tampered_description_is_refused(
    saved: Path, change: dict[str, object], message: str
) -> None:
    meta = json.loads((saved / "meta.json").read_text())
    (saved / "meta.json").write_text(json.dumps(meta | change))
    with pytest.raises(ModelError, match=message):
        Model.load(saved)


def test_what_is_no_model_is_refused_with_the_next_step(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="create one with `igcf pretrain"):
        Model.load(tmp_path / "nothing")
    with pytest.raises(ModelError, match=r"not a model folder: it has no meta\.json"):
        Model.load(tmp_path)
    (tmp_path / "meta.json").write_text("{broken")
    with pytest.raises(ModelError, match="is not readable JSON"):
        Model.load(tmp_path)


def test_the_model_id_names_the_exact_contents(tmp_path: Path) -> None:
    for name, seed in (("a", 0), ("b", 0), ("c", 1)):
        random_model(seed=seed).save(tmp_path / name)
    assert model_id(tmp_path / "a") == model_id(tmp_path / "b") != model_id(tmp_path / "c")


def test_a_full_disk_leaves_nothing_behind(tmp_path: Path) -> None:
    """The disk is full after 4 kB: the kernel refuses the write just as it does on a full disk."""
    code = (
        "import resource, sys, igcf.model.files\n"
        "from tests.toys import random_model; from igcf.errors import ModelError\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))\n"
        "try: random_model(2000).save(sys.argv[1])\n"
        "except ModelError as error: print(error)"
    )
    uncounted = {name: value for name, value in os.environ.items() if not name.startswith("COV")}  # it writes files too
    command = [sys.executable, "-c", code, str(tmp_path / "model")]
    result = subprocess.run(command, capture_output=True, text=True, env=uncounted)
    assert result.stderr == ""
    assert "cannot write the model to" in result.stdout
    assert list(tmp_path.iterdir()) == []
