import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from igcf.online import Recommender, Ucb
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
    assert "value 99999 is outside the scale" in result.stderr


def test_a_talk_tells_the_scale_and_keeps_to_it(folder: str) -> None:
    said = run("recommend", folder, stdin="6\nq\n").stderr
    assert "Reactions: 1 to 5, from 4 on a success" in said
    assert "value 6 is outside the scale" in said
    assert "0 reactions, 0 satisfied" in said
    assert "likely to please" in said
    assert "±" not in said


def test_a_talk_can_take_back_and_put_aside(folder: str) -> None:
    said = run("recommend", folder, stdin="u\n5\ns\nu\nu\n1\nq\n").stderr
    assert "Nothing to take back" in said
    assert said.count("Taken back") == 2, "the skip, then the reaction"
    assert "1 reactions, 0 satisfied" in said


def test_a_talk_is_saved_as_a_history(folder: str, tmp_path: Path) -> None:
    file = tmp_path / "alice.csv"
    run("recommend", folder, "--save", str(file), stdin="5\n\n2\nq\n")
    lines = file.read_text().splitlines()
    assert lines[0] == "item,value"
    assert [line.split(",")[1] for line in lines[1:]] == ["5", "", "2"]
    assert json.loads(run("recommend", folder, "--history", str(file), "--json").stdout)["reactions"] == 3
    nowhere = tmp_path / "no" / "alice.csv"
    assert_one_line_error_last(run("recommend", folder, "--save", str(nowhere), stdin="q\n"), "cannot write")


def assert_one_line_error_last(result: Any, words: str) -> None:
    assert result.exit_code == 2
    assert result.stderr.strip().splitlines()[-1].startswith("Error: ")
    assert words in result.stderr


def test_an_unknown_propensity_is_null_in_json(folder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Ucb, "propensity", "unknown")
    (pick,) = json.loads(run("recommend", folder, "--policy", "ucb", "--json", "-k", "1").stdout)["items"]
    assert pick["propensity"] is None
    assert pick["mean"] is not None


def test_ctrl_c_ends_a_talk_that_waits_for_a_reaction_and_keeps_what_was_said(folder: str, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "igcf", "recommend", folder, "--save", str(tmp_path / "alice.csv")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stderr is not None
        process.stdin.write(b"5\n")
        process.stdin.flush()
        said = b""
        while said.count(b"> ") < 2:
            said += os.read(process.stderr.fileno(), 4096)
        for patience in (5, 30):  # the first may come just before the wait
            time.sleep(0.3)
            process.send_signal(signal.SIGINT)
            try:
                process.wait(patience)
                break
            except subprocess.TimeoutExpired:
                pass
        else:
            process.kill()
        assert process.returncode == 0
        assert b"1 reactions, 1 satisfied" in process.stderr.read()
    assert len((tmp_path / "alice.csv").read_text().splitlines()) == 2


def test_the_end_of_input_ends_the_talk(folder: str) -> None:
    assert "1 reactions, 1 satisfied" in run("recommend", folder, stdin="4\n").stderr


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("item,stars\na,5\n", ("no column 'value'", "item, stars")),
        ("item,value\nitem-1,five\n", (":2:", "'five' is not a number")),
        ("item,value\nnobody,5\n", ("item 'nobody' is not in this model",)),
        ("item,value\nitem-1,nan\n", ("value nan is outside the scale of the log, 1 to 5",)),
        ("", ("no column 'item'",)),
    ],
)
def test_a_bad_history_is_refused(folder: str, tmp_path: Path, content: str, words: tuple[str, ...]) -> None:
    (tmp_path / "bad.csv").write_text(content)
    assert_one_line_error(run("recommend", folder, "--history", str(tmp_path / "bad.csv")), *words)


def test_more_than_the_catalogue_is_refused(folder: str) -> None:
    assert_one_line_error(run("recommend", folder, "-k", "31", "--json"), "asked for 31 items, 30 of 30 are left")
