"""Descriptions of items: they travel with the model, change by row, and say what may be shown when."""

from pathlib import Path

import numpy as np
import polars as pl
import pytest

import igcf
from igcf.attributes import Attributes
from igcf.errors import DataError, ModelError
from igcf.item import Item, parse_item, parse_items
from igcf.model import Model
from igcf.model.catalogue import Catalogue
from tests.toys import random_model

ITEMS = [
    Item("a", "A", ("Drama",), ("new",), {"year": 1994}, "Some text.", available_from=10.0, image="a.png"),
    Item("b", "B", ("Drama", "War"), (), {"price": 2.5}, available_until=20.0),
    Item("c", "C", hidden=True),
    Item("d", "D"),
]


def described(items: list[Item] = ITEMS) -> Catalogue:
    ids, titles = [item.id for item in items], [item.title or item.id for item in items]
    return Catalogue(ids, titles, [item.categories for item in items], Attributes.from_items(items))


def test_items_come_out_as_they_went_in() -> None:
    catalogue = described()
    assert [catalogue.item(row) for row in range(4)] == ITEMS


def test_a_model_folder_keeps_what_is_known_of_its_items(tmp_path: Path) -> None:
    catalogue = described()
    model = Model(
        item_vectors=np.eye(4), noise_var=1.0, prior_mean=np.zeros(4), prior_cov=np.eye(4), item_ids=catalogue.item_ids,
        titles=catalogue.titles, categories=catalogue.categories, attributes=catalogue.attributes,
    )  # fmt: skip
    model.save(tmp_path / "model")
    loaded = Model.load(tmp_path / "model")
    assert [loaded.catalogue.item(row) for row in range(4)] == ITEMS


def test_a_model_without_attributes_has_none_after_loading(tmp_path: Path) -> None:
    random_model().save(tmp_path / "model")
    assert Model.load(tmp_path / "model").attributes is None
    assert pl.read_parquet(tmp_path / "model" / "items.parquet").columns == ["item_id"]


def test_attributes_of_another_length_are_refused() -> None:
    with pytest.raises(ModelError, match="attributes has shape"):
        Model(
            item_vectors=np.eye(2), noise_var=1.0, prior_mean=np.zeros(2), prior_cov=np.eye(2), item_ids=["a", "b"],
            attributes=Attributes(3),
        )  # fmt: skip


def test_items_may_be_shown_between_their_times_and_unless_hidden() -> None:
    catalogue = described()
    shown = {now: catalogue.available(now) for now in (5.0, 10.0, 19.9, 20.0, 5.0)}
    found = {now: [] if mask is None else np.flatnonzero(mask).tolist() for now, mask in shown.items()}
    assert found == {5.0: [1, 3], 10.0: [0, 1, 3], 19.9: [0, 1, 3], 20.0: [0, 3]}
    assert described([Item("a"), Item("b")]).available(0.0) is None


def test_changed_and_appended_items_are_described_anew_and_others_stay() -> None:
    catalogue = described()
    new = Item("b", "B2", ("Comedy",), numbers={"year": 2000.0})
    changed = catalogue.changed({1: new})
    assert [changed.item(row) for row in range(4)] == [ITEMS[0], new, ITEMS[2], ITEMS[3]]
    assert catalogue.item(1) == ITEMS[1]
    longer = changed.appended([Item("e", "E", tags=("x",), available_until=7.0)])
    assert [longer.item(row) for row in range(5)] == [
        ITEMS[0], new, ITEMS[2], ITEMS[3], Item("e", "E", tags=("x",), available_until=7.0),
    ]  # fmt: skip
    plain = Catalogue(["a"]).appended([Item("b", "B", ("X",))])
    assert [plain.item(0), plain.item(1)] == [Item("a", "a"), Item("b", "B", ("X",))]


def test_a_table_of_items_gives_numbers_tags_texts_and_times(tmp_path: Path) -> None:
    table = tmp_path / "items.csv"
    table.write_text(
        "id,title,genres,tags,year,description,available_from,available_until,hidden,image\n"
        "1,Toy Story,Comedy|Kids,new|cheap,1995,A boy's toys.,1970-01-02,,false,toy.png\n"
        "2,Heat,Crime,,,,,90000,true,\n"
    )
    log = igcf.Interactions.from_arrays(["u", "u", "v"], ["1", "2", "3"], [1.0, 2.0, 3.0]).with_items(table)
    assert log.attributes is not None
    assert log.categories is not None
    assert log.categories[0] == ("Comedy", "Kids")
    assert log.attributes.of(0) == {
        "tags": ("new", "cheap"), "numbers": {"year": 1995.0}, "text": "A boy's toys.", "image": "toy.png",
        "available_from": 86400.0, "available_until": None, "hidden": False,
    }  # fmt: skip
    assert log.attributes.of(1)["available_until"] == 90000.0
    assert log.attributes.of(1)["hidden"]
    assert log.attributes.of(2)["numbers"] == {}


@pytest.mark.parametrize(
    ("bad", "told"),
    [
        ({"title": "x"}, "item 1 has no id"),
        ({"id": "a", "categroies": ["x"]}, "unknown field 'categroies'; did you mean 'categories'?"),
        ({"id": "a", "numbers": {"year": float("nan")}}, "'year' in numbers of item 1 .* expected a finite number"),
        ({"id": "a", "title": "x" * 10_000_000}, "has 10,000,000 characters; at most 1,000 are allowed"),
        ({"id": "a", "tags": "x"}, "expected a list of names"),
        ({"id": "a", "hidden": "yes"}, "expected true or false"),
        ({"id": "a", "available_from": 5, "available_until": 5}, "not after available_from"),
        ({"id": "a", "title": "\x00"}, "control characters"),
        ({"id": ""}, "empty id"),
        ("a", "item 1 is str"),
    ],
)
def test_a_bad_item_is_one_clear_error(bad: object, told: str) -> None:
    with pytest.raises(DataError, match=told) as caught:
        parse_items([bad])  # type: ignore[list-item]
    assert len(str(caught.value)) < 400


def test_an_id_twice_in_a_batch_is_refused_and_a_good_batch_is_taken_whole() -> None:
    with pytest.raises(DataError, match="item 2 has the id 'a' of item 1"):
        parse_items([{"id": "a"}, {"id": "a", "title": "x"}])
    assert parse_items([{"id": "a", "numbers": {"year": 1}}, Item("b")]) == [
        Item("a", numbers={"year": 1.0}),
        Item("b"),
    ]
    assert parse_item(ITEMS[0]) == ITEMS[0]
    assert igcf.Item is Item
