import json
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from igcf.cli.main import COMMANDS, cli


def run(*arguments: str, stdin: str | None = None) -> Result:
    return CliRunner().invoke(cli, list(arguments), input=stdin)


def assert_one_line_error(result: Result, *words: str) -> None:
    assert result.exit_code == 2
    assert result.stderr.startswith("Error: ")
    assert result.stderr.count("\n") == 1
    assert "Traceback" not in result.output
    for word in words:
        assert word in result.stderr


def test_help_lists_every_command_with_a_purpose() -> None:
    result = run("--help")
    assert result.exit_code == 0
    for name, (_, purpose) in COMMANDS.items():
        assert name in result.output
        assert purpose in " ".join(result.output.split())


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help_with_examples(name: str) -> None:
    result = run(name, "--help")
    assert result.exit_code == 0
    assert "Examples:" in result.output


def test_mistakes_are_one_line() -> None:
    assert_one_line_error(run("pretrian"), "pretrian", "; see `cli --help`")
    assert_one_line_error(run("doctor", "--nonsense"), "--nonsense", "; see `cli doctor --help`")
    assert_one_line_error(run("pretrain", "ratings.csv"), "'--out'", "; see `cli pretrain --help`")
    assert_one_line_error(run("recommend", "/nowhere"), "no model at /nowhere", "igcf pretrain")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("pretrain --dataset synthetic --out taken/model", "cannot write to taken/model"),
        ("pretrain --dataset synthetic --out taken", "taken already exists and is never overwritten"),
        ("pretrain --dataset synthetic --user who --out model", "has columns of its own; leave out --user"),
        ("evaluate --dataset tiny.csv --methods pop", "too small: 1 training users and 2 items remain"),
        ("evaluate --dataset synthetic --out taken", "'taken' is a file"),
        ("lab run --agent pop --out taken/x", "cannot write to taken/x"),
        ("lab verify taken", "expected a results file of `igcf lab run`"),
        ("reproduce --dataset synthetic", "no table of the paper has the data set synthetic"),
        ("recommend nowhere --save taken/alice.csv", "cannot write to taken/alice.csv"),
        ("recommend-all nowhere --store no.db --out r.parquet", "there is no store at no.db"),
        ("ope --model nowhere --store no.db", "no model at nowhere"),
        ("store audit --store no.db --out taken", "taken already exists"),
        ("import tiny.csv --store s.db --model nowhere", "no model at nowhere"),
    ],
)
def test_what_cannot_end_well_is_refused_before_the_work(
    words: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "taken").write_text("mine")
    (tmp_path / "tiny.csv").write_text("user,item,value\na,x,1\nb,y,5\n")
    assert_one_line_error(run(*words.split()), message)
    assert sorted(each.name for each in tmp_path.iterdir()) == ["taken", "tiny.csv"]


@pytest.mark.parametrize(
    ("missing", "words", "extra"),
    [
        ("sqlalchemy", "serve model", "service"),
        ("pydantic_settings", "items list --store x.db", "service"),
        ("uvicorn", "serve model", "service"),
        ("sqlalchemy", "evaluate --from-store x.db", "service"),
        ("mcp", "mcp", "mcp"),
    ],
)
def test_a_package_that_is_missing_is_named_with_its_extra(missing: str, words: str, extra: str) -> None:
    code = f"import sys; sys.modules[{missing!r}] = None; from igcf.cli.main import main; main()"
    result = subprocess.run([sys.executable, "-c", code, *words.split()], capture_output=True, text=True)
    told = f"Error: this needs the package {missing}, which is not installed; pip install 'igcf[{extra}]'\n"
    assert (result.returncode, result.stderr) == (2, told)


def test_the_module_is_the_command() -> None:
    result = subprocess.run([sys.executable, "-m", "igcf", "--version"], capture_output=True, text=True, check=True)
    assert result.stdout.startswith("igcf, version ")


def test_doctor_prints_one_json_document_and_nothing_else(tmp_path: Path) -> None:
    result = run("doctor", "--json", "--data-dir", str(tmp_path), "--store", f"sqlite:///{tmp_path}/x.db")
    report = json.loads(result.stdout)
    assert report["data"]["present"]["synthetic"]
    assert not report["data"]["present"]["ml-1m"]
    assert report["packages"]["core"]["numpy"]
    assert report["store"] == "answers"


def test_doctor_names_the_extra_of_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("igcf.cli.doctor.PACKAGES", {"service": ("no-such-package",)})
    assert "missing: no-such-package (pip install 'igcf[service]')" in " ".join(run("doctor").stdout.split())


def test_doctor_says_when_a_store_does_not_answer() -> None:
    report = json.loads(run("doctor", "--json", "--store", "sqlite:////nowhere/at/all.db").stdout)
    assert report["store"].startswith("does not answer")
