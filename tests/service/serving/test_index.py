"""A service that asks an index for candidates."""

from pathlib import Path

import pytest

from igcf.item import Item
from igcf.online import index as lists
from igcf.online.index import IndexedEngine
from igcf.service.models.requests import RecommendationRequest
from igcf.service.serving.recommending import recommend
from igcf.service.serving.served_model import ServedModel
from igcf.service.settings import ServiceSettings
from tests.model.test_adding import genre_model
from tests.service.conftest import OpenService, small_model


@pytest.fixture(autouse=True)
def _small_effort(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"LISTS_ASKED": 4, "CANDIDATES": 20, "FEW": 0.0}.items():
        monkeypatch.setattr(lists, name, value)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    small_model().save(tmp_path / "model")
    return tmp_path / "model"


def test_a_small_catalogue_is_scored_exactly_unless_told_otherwise(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert ServedModel.from_folder(folder, ServiceSettings()).lists is None
    monkeypatch.setattr(lists, "INDEX_FROM", 200)
    assert ServedModel.from_folder(folder, ServiceSettings(index="exact")).lists is None
    assert ServedModel.from_folder(folder, ServiceSettings()).lists is not None


def test_a_user_in_memory_counts_as_the_belief_alone(folder: Path) -> None:
    served = ServedModel.from_folder(folder, ServiceSettings(index="lists"))
    assert served.bytes_per_user() < 8 * 8 * 9 + 3_000
    assert ServedModel.from_folder(folder, ServiceSettings()).bytes_per_user() > served.bytes_per_user()


@pytest.mark.parametrize("policy", ["ucb", "greedy", "thompson", "info-ucb"])
def test_answers_come_from_the_index(open_service: OpenService, folder: Path, policy: str) -> None:
    context = open_service(folder, index="lists")
    exclude = [f"item-{number}" for number in range(0, 200, 2)]
    answer = recommend(
        context, "alice", RecommendationRequest.model_validate({"k": 5, "policy": policy, "exclude": exclude})
    )
    assert len({item.item for item in answer.items}) == 5
    assert not {item.item for item in answer.items} & set(exclude)
    assert all(item.propensity is not None and 0 < item.propensity <= 1 for item in answer.items)
    assert isinstance(context.current_model.served.recommender._live.current().engine, IndexedEngine)


def test_an_item_that_joins_the_model_can_be_answered_at_once(tmp_path: Path) -> None:
    genre_model().save(tmp_path / "genres")
    trained = ServedModel.from_folder(tmp_path / "genres", ServiceSettings(index="lists"))
    served = trained.with_items([Item("funny", categories=("comedy",))])
    assert served.lists is trained.lists
    categories = served.catalogue.categories
    assert categories is not None
    others = [item_id for item_id in served.model.item_ids if categories[served.model.item_row(item_id)] == ("horror",)]
    picks = served.recommender.session([("i0", 5.0), ("i2", 5.0)]).recommend(58, exclude=others)
    assert "funny" in {pick.item_id for pick in picks}
