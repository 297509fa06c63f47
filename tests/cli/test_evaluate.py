import json
import re
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest
from click.testing import CliRunner, Result

from igcf.cli.evaluate import parse_users
from igcf.cli.main import cli
from igcf.data import synthetic_catalogue
from igcf.errors import ConfigError


@pytest.fixture
def small_log(tmp_path: Path) -> Path:
    data = synthetic_catalogue(n_users=160, n_items=120, seed=0)
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


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("IGCF_CACHE_DIR", str(tmp_path / "cache"))


def run(*args: object) -> Result:
    return CliRunner().invoke(cli, [str(arg) for arg in args])


def evaluated(log: Path, *args: object) -> Result:
    return run("evaluate", "--dataset", log, "--users", 10, "--rounds", 12, "--jobs", 1, *args)


def test_json_is_one_document_of_the_promised_form(small_log: Path) -> None:
    result = evaluated(small_log, "--methods", "pop,pca-gp", "--seeds", 2, "--json")
    assert result.exit_code == 0, result.output
    document = json.loads(result.stdout)
    assert document["dataset"] == "small"
    assert (document["protocol"], document["users"], document["items"]) == ("cold-start", 10, 120)
    assert document["rounds"] == 12
    assert [(row["method"], row["seed"]) for row in document["rows"]] == [
        ("pop", 0), ("pop", 1), ("pca-gp", 0), ("pca-gp", 1),
    ]  # fmt: skip
    row = document["rows"][-1]
    assert set(row["precision"]) == set(row["recall"]) == {"10", "12"}
    assert row["ndcg"] == {}
    assert row["config"] == {"dim": 48, "noise_var": 0.09, "nu": 0.0, "forgetting": 1.0}
    assert set(row["seconds"]) == {"pretrain", "online"}
    assert "pca-gp, seed 1" in result.stderr


@pytest.mark.parametrize(("style", "sign"), [("table", "┃"), ("markdown", "| method |"), ("latex", r"\begin{tabular}")])
def test_tables_are_printed_in_the_chosen_style(small_log: Path, style: str, sign: str) -> None:
    result = evaluated(small_log, "--methods", "pop,random", "--format", style)
    assert result.exit_code == 0, result.output
    assert sign in result.stdout
    assert "P@12" in result.stdout


def test_out_holds_the_report_and_what_was_shown(small_log: Path, tmp_path: Path) -> None:
    out = tmp_path / "report"
    result = evaluated(small_log, "--methods", "pop", "--slate", 2, "--protocol", "top-k", "--out", out)
    assert result.exit_code == 0, result.output
    assert {"report.html", "results.json", "results.md", "results.tex", "shown.parquet"} <= {
        path.name for path in out.iterdir()
    }
    shown = pl.read_parquet(out / "shown.parquet")
    assert shown.height == 10 * 12 * 2
    assert {"method", "seed", "user_id", "round", "slot", "item_id", "reward", "satisfied"} <= set(shown.columns)


def test_a_second_run_reuses_what_the_first_one_finished(small_log: Path) -> None:
    first = evaluated(small_log, "--methods", "pop", "--json")
    second = evaluated(small_log, "--methods", "pop", "--json")
    fresh = evaluated(small_log, "--methods", "pop", "--json", "--fresh")
    assert "pop, seed 0 finished" in first.stderr
    assert "pop, seed 0 reused" in second.stderr
    assert "pop, seed 0 finished" in fresh.stderr
    assert json.loads(first.stdout)["rows"] == json.loads(second.stdout)["rows"]


def test_settings_can_be_changed_and_tuned(small_log: Path) -> None:
    changed = evaluated(small_log, "--methods", "pca-gp", "--set", "pca-gp:dim=5", "--json")
    assert json.loads(changed.stdout)["rows"][0]["config"]["dim"] == 5
    tuned = json.loads(evaluated(small_log, "--methods", "pca-gp", "--tune", "--json").stdout)
    assert tuned["rows"][0]["config"] == tuned["tuning"][0]["settings"]


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("--methods", "lightfm"), "unknown method 'lightfm'"),
        (("--methods", "pop", "--set", "pop:size=3"), "pop has no setting size"),
        (("--methods", "pop", "--slate", 50), "600 items would be shown to each user"),
        (("--methods", "pop", "--min-reactions", 5000), "has no test user"),
        (("--methods", "pop", "--protocol", "taste-drift"), "has no item categories"),
        (("--protocol", "warm"), "'warm' is not one of 'cold-start', 'taste-drift', 'top-k', 'ablation'"),
    ],
)
def test_a_mistake_is_one_line_with_exit_code_2(small_log: Path, args: tuple[object, ...], message: str) -> None:
    result = evaluated(small_log, *args)
    assert result.exit_code == 2
    assert result.stdout == ""
    last = result.stderr.strip().splitlines()
    assert len(last) == 1
    assert last[0].startswith("Error: ")
    assert message in last[0]


def test_a_report_that_cannot_be_written_is_one_line(small_log: Path, tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    result = evaluated(small_log, "--methods", "pop", "--out", blocked / "report")
    assert result.exit_code == 2
    assert "cannot write to" in result.stderr
    assert "Traceback" not in result.stderr


def test_reproduce_says_which_data_set_is_missing(tmp_path: Path) -> None:
    result = run("reproduce", "cold-start", "--dataset", "ml-1m", "--data-dir", tmp_path)
    assert result.exit_code == 2
    assert "Error: ml-1m is not in" in result.stderr
    result = run("reproduce", "--data-dir", tmp_path)
    assert result.exit_code == 2
    assert "none of the table's data sets was found" in result.stderr


def test_reproduce_puts_the_papers_numbers_beside_ours() -> None:
    result = run("reproduce", "cold-start", "--dataset", "synthetic", "--methods", "pop", "--jobs", 1, "--json")
    assert result.exit_code == 0, result.output
    entries = json.loads(result.stdout)["paper"]
    assert {each["metric"] for each in entries} >= {"precision@120", "recall@120"}
    assert all(each["paper"] is None for each in entries)  # the paper has no such data set


def test_help_needs_neither_torch_nor_matplotlib() -> None:
    code = (
        "import sys\n"
        "from igcf.cli.main import cli\n"
        "try: cli.main(['evaluate', '--help'])\n"
        "except SystemExit: pass\n"
        "sys.exit(bool({'torch', 'matplotlib', 'polars'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False, capture_output=True).returncode == 0


def test_among_all_tables_an_ablation_leaves_out_methods_without_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    tables = {"cold-start": ("synthetic",), "taste-drift": ("synthetic",), "top-k": (), "ablation": ("synthetic",)}
    monkeypatch.setattr("igcf.lab.evaluate.paper.TABLES", tables)
    rows = ("--methods", "pop,pca-gp", "--set", "pca-gp:dim=4")
    result = run("reproduce", "--dataset", "synthetic", *rows, "--users", 20, "--jobs", 1, "--json")
    assert result.exit_code == 0, result.output
    assert [each["protocol"] for each in json.loads(result.stdout)["tables"]] == ["cold-start", "taste-drift"]


def test_the_columns_of_a_log_can_be_named(small_log: Path, tmp_path: Path) -> None:
    names = {"user": "who", "item": "what", "value": "stars", "timestamp": "when"}
    path = tmp_path / "log.csv"
    pl.read_parquet(small_log).rename(names).write_csv(path, separator=";")
    options = [part for name, column in names.items() for part in (f"--{name}", column)]
    asked = ("evaluate", "--users", 10, "--rounds", 12, "--jobs", 1, "--dataset", path, "--methods", "pca-gp", "--json")
    result = run(*asked, *options, "--separator", ";")
    assert result.exit_code == 0, result.stderr
    assert json.loads(result.stdout)["dataset"] == "log"
    assert "columns: user = who, item = what, value = stars, time = when; separator: semicolon" in result.stderr
    found = run(*asked)
    assert found.exit_code == 0, found.stderr
    assert "columns: user = who, item = what, value = stars, time = when; separator: semicolon" in found.stderr
    result = run(*asked, "--user", "nobody")
    assert result.exit_code == 2
    assert "has no column 'nobody'; found 'who', 'what', 'stars', 'when'; name the columns to use with --user" in (
        result.stderr
    )


def test_nothing_is_shortened_at_80_columns_and_the_last_line_says_who_won(
    small_log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    methods = "random,pop,pop-satisfied,pca-gp,igcf,mf,icf-ucb,icf-ts"
    sets = ("--set", "mf:dim=2", "--set", "icf-ucb:dim=2", "--set", "icf-ts:dim=2")
    result = evaluated(small_log, "--methods", methods, *sets, "--seeds", 2)
    assert result.exit_code == 0, result.output
    *lines, last = result.stdout.rstrip().splitlines()
    assert max(map(len, lines)) <= 80
    assert "…" not in result.stdout
    assert "..." not in result.stdout
    for name in ("P@10", "P@12", "R@12", "coverage", "novelty", "online s", "effect"):
        assert name in result.stdout
    won = r"\S+ won: [\d.]+ satisfied items in 12 rounds, [\d.]+ more than \S+ .*p = .*over 20 users"
    tie = r"\S+ and \S+ tie: [\d.]+ and [\d.]+ satisfied items in 12 rounds, .* \(p = .*over 20 users\)"
    assert re.fullmatch(f"{won}|{tie}", last)


def test_a_log_of_ones_own_needs_no_option(small_log: Path) -> None:
    result = run("evaluate", "--dataset", small_log, "--methods", "pop,random", "--jobs", 1, "--json")
    assert result.exit_code == 0, result.stderr
    document = json.loads(result.stdout)
    assert document["setup"]["min_reactions"] == 5
    assert {"light", "medium"} <= {each["name"] for each in document["setup"]["activity"]}
    assert document["users"] >= 20
    assert document["success"]["satisfied"] == document["setup"]["satisfied"]
    assert f"experiment: {document['rounds']} rounds" in result.stderr
    assert "satisfied: value >= 4" in result.stderr
    assert document["verdict"]["winner"] == "pop"


def test_users_takes_a_number_a_table_or_both(tmp_path: Path) -> None:
    table = tmp_path / "people.csv"
    table.write_text("user,country\n")
    assert parse_users(()) == (None, None)
    assert parse_users(("200",)) == (200, None)
    assert parse_users((str(table), "30")) == (30, table)
    assert parse_users(("own",)) == (None, Path("own"))
    for wrong in (("0",), ("1", "2"), ("own", str(table)), ("nowhere.csv",)):
        with pytest.raises(ConfigError, match="--users"):
            parse_users(wrong)
