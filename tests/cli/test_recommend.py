import json
from pathlib import Path

import pytest

from igcf.online import Recommender
from tests.cli.test_main import assert_one_line_error, run
from tests.toys import two_channel_model


@pytest.fixture
def folder(tmp_path: Path) -> str:
    two_channel_model().save(tmp_path / "model")
    return str(tmp_path / "model")


def test_a_history_from_a_file_gives_the_librarys_answer(folder: str, tmp_path: Path) -> None:
    (tmp_path / "alice.csv").write_text("item,value\nitem-3,5\nitem-9,\n")
    result = run("recommend", folder, "--history", str(tmp_path / "alice.csv"), "-k", "4", "--json")
    answer = json.loads(result.stdout)
    picks = Recommender(two_channel_model()).session([("item-3", 5.0), ("item-9", None)]).recommend(4)
    assert answer["reactions"] == 2
    assert [item["item_id"] for item in answer["items"]] == [pick.item_id for pick in picks]


def test_a_table_for_people_names_the_titles(folder: str, tmp_path: Path) -> None:
    (tmp_path / "alice.csv").write_text("item,value\nitem-3,5\n")
    assert "Title" in run("recommend", folder, "--history", str(tmp_path / "alice.csv")).stdout


def test_a_talk_learns_explains_and_ends(folder: str) -> None:
    result = run("recommend", folder, stdin="5\n?\n3\nwhat\n\n99999\n2\nt\nq\n")
    assert result.exit_code == 0
    assert "4 reactions, 1 satisfied" in result.stderr
    assert "the population expects" in result.stderr
    assert "'what' is not a reaction" in result.stderr
    assert "cannot be a reaction" in result.stderr


def test_the_end_of_input_ends_the_talk(folder: str) -> None:
    assert "1 reactions, 1 satisfied" in run("recommend", folder, stdin="4\n").stderr


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("item,stars\na,5\n", ("no column 'value'", "item, stars")),
        ("item,value\nitem-1,five\n", (":2:", "'five' is not a number")),
        ("item,value\nnobody,5\n", ("item 'nobody' is not in this model",)),
        ("item,value\nitem-1,nan\n", ("value nan cannot be a reaction",)),
        ("", ("no column 'item'",)),
    ],
)
def test_a_bad_history_is_refused(folder: str, tmp_path: Path, content: str, words: tuple[str, ...]) -> None:
    (tmp_path / "bad.csv").write_text(content)
    assert_one_line_error(run("recommend", folder, "--history", str(tmp_path / "bad.csv")), *words)


def test_more_than_the_catalogue_is_refused(folder: str) -> None:
    assert_one_line_error(run("recommend", folder, "-k", "31", "--json"), "asked for 31 items, 30 of 30 are left")
