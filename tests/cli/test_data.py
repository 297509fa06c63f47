import hashlib
import json
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from click.testing import CliRunner

from igcf.cli.main import cli
from igcf.data.registry import DATASETS, DatasetInfo

GOOD = "user,item,value,timestamp\na,1,5,10\na,2,4,20\nb,1,3,30\nb,2,2,40\n"


class QuietHandler(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


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
    assert present == {
        "synthetic": True,
        "synthetic-drift": True,
        "ml-100k": False,
        "ml-1m": True,
        "kuairec": False,
        "eachmovie": False,
    }
    code, out, _ = run("list", "--data-dir", str(tmp_path))
    assert code == 0
    assert "ml-1m" in out
    assert "not present" in out


def test_list_reads_the_data_folder_from_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("IGCF_DATA_DIR", str(tmp_path))
    assert json.loads(run("list", "--json")[1])["data_dir"] == str(tmp_path)


def test_fetch_downloads_checks_and_prints_one_document(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    served = tmp_path / "served"
    served.mkdir()
    (served / "toy.zip").write_bytes(b"archive")
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(QuietHandler, directory=str(served))) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        url = f"http://127.0.0.1:{server.server_address[1]}/toy.zip"
        checksum = f"md5:{hashlib.md5(b'archive').hexdigest()}"
        info = DatasetInfo("toy", "a toy", "free", url, checksum, ("toy.zip",))
        monkeypatch.setitem(DATASETS, "toy", info)
        code, out, err = run("fetch", "toy", "--data-dir", str(tmp_path / "data"), "--json")
        server.shutdown()
        thread.join()
    path = tmp_path / "data" / "toy.zip"
    assert (code, err) == (0, "")
    assert json.loads(out) == {"name": "toy", "path": str(path), "bytes": 7, "checksum": checksum}
    assert path.read_bytes() == b"archive"
    assert "licence: free" in run("fetch", "toy", "--data-dir", str(tmp_path / "data"))[1]


def test_validate_prints_one_document(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text(GOOD)
    code, out, err = run("validate", str(path), "--json")
    assert (code, err) == (0, "")
    document = json.loads(out)
    columns, success = document.pop("columns"), document.pop("success")
    assert document == {
        "path": str(path),
        "usable": True,
        "rows": 4,
        "users": 2,
        "items": 2,
        "notes": [],
        "defects": [],
    }
    assert (columns["user"], columns["value"], columns["separator"]) == ("user", "value", ",")
    assert success == {
        "satisfied": 4.0,
        "successes": 2,
        "reactions": 4,
        "share": 0.5,
        "typical": [2.0, 3.0, 4.0, 5.0],
        "unrated": 0,
        "implicit": False,
        "sentence": "satisfied: value >= 4, 2 of 4 reactions (50.0 %)",
    }


def test_validate_says_that_a_data_set_known_by_name_needs_no_check() -> None:
    code, _, err = run("validate", "ml-100k")
    assert code == 2
    assert "ml-100k is a data set known by name and needs no check" in err


def test_validate_ends_with_1_when_the_log_cannot_be_used(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text(GOOD + "a,3,lots,50\n")
    code, out, _ = run("validate", str(path), "--json")
    assert code == 1
    defects = {defect["kind"]: defect for defect in json.loads(out)["defects"]}
    assert (defects["not-a-number"]["count"], defects["not-a-number"]["rows"]) == (1, [5])
    code, out, _ = run("validate", str(path))
    assert code == 1
    assert "'value' is not a number; remove these rows" in out
    assert "(first in row 5)" in out
    assert "not usable" in out


def test_validate_takes_the_names_of_columns(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text(GOOD.replace("user", "u").replace("timestamp", "t").replace(",", ";"))
    assert run("validate", str(path), "--user", "u", "--timestamp", "t", "--separator", ";")[0] == 0
    code, out, _ = run("validate", str(path), "--user", "nobody")
    assert code == 1
    assert "no column 'nobody'; found 'u', 'item', 'value', 't'; name the columns to use with --user, --item" in out


def test_validate_says_what_it_took_and_what_a_success_is(tmp_path: Path) -> None:
    path = tmp_path / "log.dat"
    path.write_text("userID\tartistID\tweight\n" + "".join(f"u{n % 9}\ta{n % 7}\t{2**n}\n" for n in range(18)))
    code, out, _ = run("validate", str(path))
    assert code == 0
    assert "columns: user = userID, item = artistID, value = weight; separator: tab" in out
    assert "satisfied: value >= 512, 9 of 18 reactions (50.0 %)" in out


def test_a_threshold_that_tells_nothing_apart_is_an_error_and_a_scarce_one_a_warning(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text("user,item,value\n" + "".join(f"u{n},i{n % 3},{n % 100}\n" for n in range(200)))
    code, out, _ = run("validate", str(path), "--satisfied", "500")
    assert code == 1
    assert "no reaction has a value of at least 500" in out
    assert "the values lie between 0 and 99; pass another --satisfied" in out
    code, out, _ = run("validate", str(path), "--satisfied", "99")
    assert code == 0
    assert "only 1.0 % of the reactions are successes; pass --satisfied to choose another value" in out


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
