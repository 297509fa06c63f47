import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from igcf.cli.main import cli

GOOD = "user,item,value,timestamp\na,1,5,10\na,2,4,20\nb,1,3,30\nb,2,2,40\n"


def run(*args: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(cli, ["data", *args])
    return result.exit_code, result.stdout, result.stderr


def test_list_shows_what_is_present(tmp_path: Path) -> None:
    (tmp_path / "ml-1m.zip").write_bytes(b"")
    code, out, _ = run("list", "--data-dir", str(tmp_path), "--json")
    document = json.loads(out)
    assert code == 0
    assert document["data_dir"] == str(tmp_path)
    present = {row["name"]: row["present"] for row in document["datasets"]}
    assert present == {"synthetic": True, "ml-100k": False, "ml-1m": True, "kuairec": False, "eachmovie": False}
    code, out, _ = run("list", "--data-dir", str(tmp_path))
    assert code == 0
    assert "ml-1m" in out
    assert "not present" in out


def test_list_reads_the_data_folder_from_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("IGCF_DATA_DIR", str(tmp_path))
    assert json.loads(run("list", "--json")[1])["data_dir"] == str(tmp_path)


def test_validate_prints_one_document(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text(GOOD)
    code, out, err = run("validate", str(path), "--json")
    assert (code, err) == (0, "")
    assert json.loads(out) == {"path": str(path), "usable": True, "rows": 4, "users": 2, "items": 2, "defects": []}


def test_validate_ends_with_1_when_the_log_cannot_be_used(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text(GOOD + "a,3,lots,50\n")
    code, out, _ = run("validate", str(path), "--json")
    assert code == 1
    defects = {defect["kind"]: defect for defect in json.loads(out)["defects"]}
    assert (defects["not-a-number"]["count"], defects["not-a-number"]["rows"]) == (1, [5])
    code, out, _ = run("validate", str(path))
    assert code == 1
    assert "'value' is not a number (first in row 5)" in out
    assert "not usable" in out


def test_validate_takes_the_names_of_columns(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text(GOOD.replace("user", "u").replace("timestamp", "t").replace(",", ";"))
    assert run("validate", str(path), "--user", "u", "--timestamp", "t", "--separator", ";")[0] == 0
    assert run("validate", str(path))[0] == 1


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("validate", "nothing.csv"), "does not exist"),
        (("fetch", "ml-2m"), "unknown data set 'ml-2m'"),
        (("fetch", "eachmovie"), "withdrawn by its owner"),
    ],
)
def test_a_mistake_is_one_line_with_exit_code_2(args: tuple[str, ...], message: str) -> None:
    code, out, err = run(*args)
    assert (code, out) == (2, "")
    assert err.startswith("Error: ")
    assert err.count("\n") == 1
    assert message in err
