"""`igcf serve`: mistakes are one line with exit code 2, and leave nothing behind."""

import socket
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from igcf.cli.main import cli
from tests.toys import random_model


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    random_model().save(tmp_path / "model")
    return tmp_path


def run(*arguments: str) -> Result:
    return CliRunner().invoke(cli, ["serve", *arguments])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nothing"], "no model at nothing"),
        ([], "name the model folder to serve, or --demo"),
        (["model", "--demo"], "and not both"),
        (["model", "--policy", "magic"], "policy 'magic' is not known"),
        (["model", "--nu", "-1"], "nu must be zero or more"),
        (["model", "--forgetting", "2"], "forgetting must lie in"),
        (["model", "--api-key-file", "keys"], "cannot read the API keys of keys"),
        (["model", "--store", "mysql://host/db"], "is not supported"),
        (["model", "--store", "no/such/folder/x.db"], "did not answer"),
        (["model", "--workers", "0"], "0 is not in the range"),
        (["model", "--port", "99999"], "99999 is not in the range"),
        (["model", "--host", "203.0.113.1"], "cannot listen on 203.0.113.1:8000"),
    ],
)
def test_a_mistake_is_one_line(folder: Path, arguments: list[str], message: str) -> None:
    result = run(*arguments)
    assert result.exit_code == 2
    assert message in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1
    assert result.stdout == ""


def test_a_damaged_model_leaves_no_store_behind(folder: Path) -> None:
    (folder / "model" / "model.safetensors").write_bytes(b"")
    result = run("model")
    assert result.exit_code == 2
    assert "truncated or changed" in result.stderr
    assert not (folder / "igcf.db").exists()


def test_a_port_in_use_is_said(folder: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as busy:
        result = run("model", "--port", str(busy.getsockname()[1]))
    assert result.exit_code == 2
    assert "in use" in result.stderr


def test_help_tells_the_options() -> None:
    result = run("--help")
    for option in ("--host", "--port", "--store", "--workers", "--api-key-file", "--cors-origin"):
        assert option in result.stdout
