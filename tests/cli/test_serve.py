"""`igcf serve`: mistakes are one line with exit code 2, and leave nothing behind."""

import json
import socket
from pathlib import Path
from types import SimpleNamespace

import pytest
from click.testing import CliRunner, Result

from igcf.cli.main import cli
from igcf.lab import demo
from igcf.service.sources import load_settings
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
        (["model", "--nu", "-1"], "nu must be 0 or more"),
        (["model", "--forgetting", "2"], "forgetting must be in"),
        (["model", "--api-key-file", "keys"], "cannot read the API keys of keys"),
        (["model", "--store", "mysql://host/db"], "is not supported"),
        (["model", "--store", "no/such/folder/x.db"], "did not answer"),
        (["model", "--workers", "0"], "workers must be at least 1, got 0 (from --workers)"),
        (["model", "--port", "99999"], "port must be at most 65535, got 99999 (from --port)"),
        (["model", "--max-k", "many"], "'many' is not a valid integer"),
        (["model", "--store", "postgresql://a:secret@host/db"], "--store holds a password"),
        (["model", "--store", "postgresql://a@host/db?password=secret"], "--store holds a password"),
        (["model", "--config", "nothing.toml"], "settings file nothing.toml does not exist"),
        (["model", "--store", "a.db", "--store", ""], "store: expected a name, got an empty text (from --store)"),
        (["model", "--host", "203.0.113.1"], "cannot listen on 203.0.113.1:8000"),
    ],
)
def test_a_mistake_is_one_line(folder: Path, arguments: list[str], message: str) -> None:
    result = run(*arguments)
    assert result.exit_code == 2
    assert message in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1
    assert result.stdout == ""


def test_a_demonstration_learned_by_other_code_is_not_served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    learned: list[Path] = []
    monkeypatch.setattr(demo, "pretrain", lambda _: SimpleNamespace(save=learned.append))
    for code in ("one", "two"):
        monkeypatch.setattr(demo, "code_version", lambda code=code: code)
        demo.demo_model(tmp_path).mkdir(parents=True)
        demo.demo_model(tmp_path)
    assert learned == [tmp_path / "demo-one" / "model", tmp_path / "demo-two" / "model"]


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


def test_an_option_comes_before_a_variable_before_the_file(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "igcf.toml").write_text('max_k = 50\nthreads = 3\nhost = "::1"\ncors_origins = ["https://a.example"]\n')
    monkeypatch.setenv("IGCF_CONFIG", "igcf.toml")
    monkeypatch.setenv("IGCF_MAX_K", "40")
    monkeypatch.setenv("IGCF_THREADS", "2")
    monkeypatch.setenv("IGCF_ALLOWED_HOSTS", "a.example, b.example")
    monkeypatch.setenv("IGCF_NU", "")
    shown = json.loads(run("model", "--max-k", "30", "--print-config", "--json").stdout)
    assert shown["max_k"] == {"value": 30, "from": "--max-k"}
    assert shown["threads"] == {"value": 2, "from": "IGCF_THREADS"}
    assert shown["host"] == {"value": "::1", "from": "igcf.toml"}
    assert shown["cors_origins"] == {"value": ["https://a.example"], "from": "igcf.toml"}
    assert shown["allowed_hosts"] == {"value": ["a.example", "b.example"], "from": "IGCF_ALLOWED_HOSTS"}
    assert shown["nu"] == {"value": None, "from": "default"}


def test_what_is_printed_can_be_read_again(folder: Path) -> None:
    printed = run("model", "--max-k", "7", "--cors-origin", "https://a.example", "--print-config")
    (folder / "again.toml").write_text(printed.stdout)
    assert run("--config", "again.toml", "--print-config").stdout == printed.stdout.replace(
        "# --max-k", "# again.toml"
    ).replace("# --cors-origin", "# again.toml").replace("# DIR", "# again.toml").replace(
        "# default", "# again.toml"
    ).replace("(unset)  # again.toml", "(unset)  # default")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("max_kk = 5", "igcf.toml: unknown setting max_kk; did you mean max_k?"),
        ("max_k = 'many'", "max_k must be a whole number, got 'many'"),
        ("max_k = 500", "max_k must be at most 100, got 500 (from igcf.toml)"),
        ("log_level = 'loud'", "log_level must be 'debug', 'info', 'warning' or 'error', got 'loud'"),
        ("max_k = ", "cannot read the settings in igcf.toml"),
        ("store_password_file = 'nothing'", "store_password_file is for a PostgreSQL store"),
        ("store = 'postgresql://a@h/d'\nstore_password_file = 'nothing'", "cannot read the password of the store"),
    ],
)
def test_a_mistake_in_the_file_is_one_line(folder: Path, text: str, message: str) -> None:
    (folder / "igcf.toml").write_text(text)
    result = run("model", "--config", "igcf.toml")
    assert result.exit_code == 2
    assert message in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1


def test_passwords_come_from_files_or_the_environment_and_are_not_printed(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "password").write_text("very/secret\n")
    (folder / "igcf.toml").write_text("store = 'postgresql://a@h/d'\nstore_password_file = 'password'\n")
    assert load_settings({}, file=folder / "igcf.toml").settings.store.startswith(
        "postgresql+psycopg://a:very%2Fsecret@h/d"
    )
    monkeypatch.setenv("IGCF_STORE", "postgresql://a:sesame@h/d?password=sesame")
    for arguments in (["--config", "igcf.toml"], []):
        for form in ([], ["--json"]):
            result = run("model", "--print-config", *form, *arguments)
            assert "a:***@h/d" in result.stdout
            assert 'secret"' not in result.output
            assert "sesame" not in result.output


def test_no_way_to_write_a_store_wrongly_prints_its_password(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "wrong.toml").write_text("store = ['postgresql://a:sesame@h/d']\n")
    for store, arguments in (
        ("postgresql://a@h/d?sslpassword=sesame", ["--print-config"]),
        ("postgresql://a:sesame@h:port/d", ["--print-config"]),
        ("postgresql://a:sesame@h:port/d", []),
        ("postgresql://a@127.0.0.1:1/d?password=sesame&sslpassword=sesame", []),
        ("mysql://a:sesame@h/d?password=sesame", []),
        ("", ["--print-config", "--config", "wrong.toml"]),
    ):
        monkeypatch.setenv("IGCF_STORE", store)
        result = run("model", *arguments)
        assert "sesame" not in result.output
        assert result.exit_code in (0, 2)
    monkeypatch.delenv("IGCF_STORE")
    result = run("model", "--print-config", "--store", "postgresql://a@h/d?sslpassword=sesame")
    assert "--store holds a password" in result.output


def test_a_variable_that_looks_like_a_setting_and_is_none_is_told(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("IGCF_MAX_KK", "5")
    result = run("model", "--print-config")
    assert "IGCF_MAX_KK is unknown; did you mean max_k?" in result.stderr
