"""Which models a server may be told to load."""

import shutil
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from igcf.errors import ModelError
from igcf.service.errors import ModelConflictError
from igcf.service.http.application import create_app
from igcf.service.serving.model_swap import load_and_announce, roll_back
from igcf.service.store.decisions import Announcement, way_back
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


def test_a_rollback_serves_the_previous_model_and_users_keep_their_reactions(
    open_service: OpenService, model_folder: Path, second_folder: Path
) -> None:
    context = open_service()
    with TestClient(create_app(context)) as client:
        first = client.get("/v1/model").json()["model"]
        assert client.post("/v1/model/rollback").status_code == 409
        client.post(
            "/v1/users/alice/feedback", json={"item": client.get("/v1/items").json()["items"][0]["item"], "value": 5}
        )
        second = client.post("/v1/model", json={"folder": str(second_folder), "force": True}).json()
        back = client.post("/v1/model/rollback").json()
        assert (second["generation"], back["generation"], back["model"]) == (1, 2, first)
        answer = client.post("/v1/users/alice/recommendations", json={}).json()
        assert (answer["model"], answer["revision"]) == (first, 1)
        refused = client.post("/v1/model/rollback")
        assert refused.status_code == 409
        assert "no model before the one in service" in refused.json()["message"]
        assert client.get("/v1/model").json()["generation"] == 2


def test_a_folder_that_holds_another_model_now_is_not_gone_back_to(open_service: OpenService, tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    for seed, folder in enumerate((first, second)):
        small_model(20, 3, seed=seed).save(folder)
    context = open_service(first)
    load_and_announce(context, str(second))
    shutil.rmtree(first)
    with pytest.raises(ModelError, match="no model at"):
        roll_back(context)
    small_model(20, 3, seed=5).save(first)
    with pytest.raises(ModelError, match=r"not \w+ that was served"):
        roll_back(context)
    assert context.store.generation() == (1, str(second.resolve()))


@pytest.mark.parametrize(
    ("announced", "back"),
    [("", ""), ("A", ""), ("AB", "A"), ("ABC", "BA"), ("ABA", ""), ("ABCB", "A"), ("ABAB", "A"), ("AABB", "A")],
)
def test_the_way_back_leads_past_models_that_were_rolled_back(announced: str, back: str) -> None:
    known = [Announcement(number, name, name, 0.0) for number, name in enumerate(announced)]
    assert "".join(each.model for each in way_back(known[::-1])) == back


def test_of_two_announcements_that_follow_the_same_one_the_second_is_refused(open_service: OpenService) -> None:
    store = open_service().store
    assert store.announce("folder", "model", after=0) == 1
    with pytest.raises(ModelConflictError, match="another model has been announced since"):
        store.announce("other", "model", after=0)
