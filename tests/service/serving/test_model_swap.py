"""Which models a server may be told to load."""

from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from igcf.errors import ModelError
from igcf.service.serving.model_swap import load_and_announce
from tests.service.conftest import OpenService, small_model


@pytest.fixture
def elsewhere(tmp_path: Path) -> Path:
    small_model(20, 3, seed=2).save(tmp_path / "elsewhere" / "model")
    return tmp_path / "elsewhere" / "model"


def test_by_default_models_come_from_beside_the_first_one(
    open_service: OpenService, model_folder: Path, second_folder: Path, elsewhere: Path, tmp_path: Path
) -> None:
    context = open_service()
    (tmp_path / "link").symlink_to(elsewhere)
    for folder in (elsewhere, tmp_path / "link", model_folder.parent / ".." / elsewhere, Path("/etc")):
        with pytest.raises(ModelError, match="outside the folder from which this server may load models"):
            load_and_announce(context, str(folder))
    assert context.current_model.generation == 0
    assert load_and_announce(context, str(second_folder)).generation == 1
    with pytest.raises(ModelError, match="outside"):  # the root is that of the first model, whatever is served now
        load_and_announce(context, str(elsewhere))


def test_a_root_that_was_named_is_the_one_that_counts(
    open_service: OpenService, second_folder: Path, elsewhere: Path
) -> None:
    context = open_service(models=str(elsewhere.parent))
    assert load_and_announce(context, elsewhere.name, force=True).items == 20
    with pytest.raises(ModelError, match="outside"):
        load_and_announce(context, str(second_folder))


def test_a_refused_folder_is_a_422_that_changes_nothing(client: TestClient, elsewhere: Path) -> None:
    before = client.get("/v1/model").json()
    answer = client.post("/v1/model", json={"folder": str(elsewhere)})
    assert (answer.status_code, answer.json()["error"]) == (422, "ModelError")
    assert client.get("/v1/model").json() == before
