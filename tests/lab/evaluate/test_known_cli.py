"""`igcf evaluate` with the protocols of known and of returning users."""

import json
import sys
from pathlib import Path

import polars as pl
import pytest
from click.testing import CliRunner, Result

from igcf.cli.main import cli
from tests.lab.evaluate.worlds import log


@pytest.fixture
def small_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("IGCF_CACHE_DIR", str(tmp_path / "cache"))
    data = log()
    frame = pl.DataFrame(
        {
            "user": [data.user_ids[row] for row in data.user_idx],
            "item": [data.item_ids[row] for row in data.item_idx],
            "value": data.values,
            "timestamp": data.timestamps,
        }
    )
    path = tmp_path / "small.parquet"
    frame.write_parquet(path)
    return path


def evaluated(path: Path, *args: object) -> Result:
    options = ["evaluate", "--dataset", path, "--users", 20, "--jobs", 1, *args]
    return CliRunner().invoke(cli, [str(option) for option in options])


def test_known_users_give_one_document_of_the_promised_form(small_log: Path, tmp_path: Path) -> None:
    result = evaluated(
        small_log, "--protocol", "known-users", "--methods", "pop,ease", "--share", 0.3, "--json", "--out", tmp_path
    )
    assert result.exit_code == 0, result.output
    document = json.loads(result.stdout)
    assert (document["protocol"], document["setup"]["share"]) == ("known-users", 0.3)
    assert 15 <= document["users"] <= 20  # those with fewer than two successes are left out
    pop, ease = document["rows"]
    assert set(pop["recall"]) == {"20", "50"}
    assert "10" in pop["ndcg"]
    assert 0 < pop["mrr"] <= 1
    assert 0 < pop["coverage"] <= 1
    assert ease["config"] == {"penalty": 300.0}
    assert (tmp_path / "report.html").exists()
    assert "ease, seed 0" in result.stderr


def test_without_the_package_implicit_one_line_names_the_extra(
    small_log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "implicit.als", None)
    result = evaluated(small_log, "--protocol", "known-users", "--methods", "pop,als")
    assert result.exit_code == 2
    assert result.stderr.splitlines()[-1] == (
        "Error: implicit.als needs the package implicit; install it with `pip install 'igcf[lab]'`"
    )


def test_returning_users_and_a_thinned_log(small_log: Path) -> None:
    result = evaluated(
        small_log, "--protocol", "returning", "--methods", "pop", "--logged", "3,1", "--rounds", 6,
        "--min-reactions", 5, "--part", "earliest", "--thin", 0.6, "--json",
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    document = json.loads(result.stdout)
    assert document["dataset"] == "small-thin-0.6"
    assert document["setup"]["part"] == "earliest"
    assert [(row.get("logged"), row.get("told")) for row in document["rows"]] == [
        (None, None), (1, False), (1, True), (3, False), (3, True),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--protocol", "returning", "--logged", "1,x"), "--logged takes whole numbers of at least 1 joined by commas"),
        (("--protocol", "known-users", "--rounds", 3), "known users are ranked for once"),
        (("--protocol", "known-users", "--methods", "mf"), "mf cannot start from a logged history"),
        (("--share", 1.5), "--share"),
        (("--thin", 0), "--thin"),
    ],
)
def test_what_makes_no_sense_is_refused(small_log: Path, options: tuple[object, ...], message: str) -> None:
    result = evaluated(small_log, *options)
    assert result.exit_code != 0
    assert message in result.stderr
