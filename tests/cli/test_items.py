"""`igcf items`: the catalogue of a store on the command line."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from igcf.cli.main import cli
from igcf.item import Item
from igcf.service.store import Store
from igcf.service.store.items import ItemStore
from tests.toys import random_model


@pytest.fixture
def store(tmp_path: Path) -> str:
    Store(str(tmp_path / "store.db")).close()
    random_model(5).save(tmp_path / "model")
    return str(tmp_path / "store.db")


def run(*words: str) -> Any:
    result = CliRunner().invoke(cli, ["items", *words, "--json"])
    assert result.exit_code == 0, result.stderr
    return json.loads(result.stdout)


def refused(*words: str) -> str:
    result = CliRunner().invoke(cli, ["items", *words])
    assert result.exit_code == 2
    assert "Traceback" not in result.stderr
    return " ".join(result.stderr.split())


def test_items_are_added_changed_retired_and_listed(store: str, tmp_path: Path) -> None:
    (tmp_path / "new.csv").write_text("id,title,genres,year\nitem-1,One,Drama,1990\nnew-1,New,War|Drama,\n")
    model = ("--store", store, "--model", str(tmp_path / "model"))
    added = run("add", str(tmp_path / "new.csv"), *model)
    assert (added["added"], added["changed"]) == (1, 1)
    assert run("add", str(tmp_path / "new.csv"), *model)["unchanged"] == 2
    run("update", "new-1", "hidden=true", "title=Newer", 'numbers={"year": 2001}', *model)
    assert run("retire", "item-1", "item-2", *model) == {"retired": 2, "revision": 3}
    assert run("retire", "item-1", *model)["retired"] == 0
    listed = {each["item"]: each for each in run("list", "--store", store)["items"]}
    assert {name: each["retired"] for name, each in listed.items()} == {"item-1": True, "item-2": True, "new-1": False}
    assert (listed["new-1"]["title"], listed["new-1"]["hidden"], listed["new-1"]["numbers"]) == (
        "Newer", True, {"year": 2001.0},
    )  # fmt: skip
    (tmp_path / "back.json").write_text(json.dumps([{"id": "item-1"}]))
    assert run("add", str(tmp_path / "back.json"), "--event-id", "e", *model)["returned"] == 1
    assert run("add", str(tmp_path / "back.json"), "--event-id", "e", *model)["duplicate"]


def test_mistakes_are_one_line_and_change_nothing(store: str, tmp_path: Path) -> None:
    (tmp_path / "twice.jsonl").write_text('{"id": "a"}\n{"id": "a"}\n')
    (tmp_path / "bad.json").write_text("{")
    model = ("--store", store, "--model", str(tmp_path / "model"))
    assert "item 2 has the id 'a' of item 1" in refused("add", str(tmp_path / "twice.jsonl"), *model)
    assert "cannot read the items of" in refused("add", str(tmp_path / "bad.json"), *model)
    assert "'nothing' is neither in the store nor in the model" in refused("retire", "item-1", "nothing", *model)
    assert "did you mean 'hidden'?" in refused("update", "item-1", "hiden=true", *model)
    assert "expected FIELD=VALUE" in refused("update", "item-1", "hidden", *model)
    assert "no model at" in refused("retire", "a", "--store", store, "--model", str(tmp_path / "no"))
    assert "there is no store" in refused("list", "--store", str(tmp_path / "no.db"))
    opened = Store(store)
    assert ItemStore(opened.database).changes() == []
    opened.close()


def test_lines_of_json_may_hold_any_text_and_endless_nesting_is_one_sentence(store: str, tmp_path: Path) -> None:
    title = "one\u2028two\x85three"
    lines = [json.dumps({"id": name, "title": title}, ensure_ascii=False) for name in ("a", "b")]
    (tmp_path / "new.jsonl").write_text("\n".join(lines) + "\n\n", encoding="utf-8")
    assert run("add", str(tmp_path / "new.jsonl"), "--store", store)["added"] == 2
    (tmp_path / "deep.json").write_text("[" * 100_000)
    assert "cannot read the items" in refused("add", str(tmp_path / "deep.json"), "--store", store)


@pytest.mark.parametrize("item_id", ["a\nb", "a\tb", "a\x7fb", "a\x85b", ".", ".."])
def test_an_id_that_no_path_can_name_is_refused(store: str, tmp_path: Path, item_id: str) -> None:
    (tmp_path / "new.json").write_text(json.dumps([{"id": "fine"}, {"id": item_id}]))
    assert "which no path can name" in refused("add", str(tmp_path / "new.json"), "--store", store)
    assert run("list", "--store", store)["items"] == []


class CountedText(str):
    """A text that counts how often it is looked up."""

    times = 0

    def __hash__(self) -> int:
        CountedText.times += 1
        return super().__hash__()


def test_a_large_batch_looks_every_item_up_a_few_times_only(store: str) -> None:
    opened = Store(store)
    CountedText.times = 0
    batch = [Item(CountedText(f"n{number}")) for number in range(400)]
    assert ItemStore(opened.database).put(batch, is_known=lambda _: False).added == 400
    assert CountedText.times < 40 * len(batch)
    opened.close()
