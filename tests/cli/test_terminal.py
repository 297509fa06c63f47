"""Nothing in a log, a catalogue or a message reaches the terminal as something that it obeys."""

import io
from pathlib import Path

import pytest
from rich.table import Table

import igcf.cli
from igcf.cli.output import Terminal, plain
from igcf.model import Model
from tests.cli.test_main import run
from tests.toys import two_channel_model

EVIL = "\x1b]0;owned\x07\x1b[31mred\x1b[0m\x9b2J \u202etxt.exe"
OBEYED = ("\x1b", "\x07", "\x9b", "\u202e")


def test_titles_with_escape_sequences_are_shown_and_not_obeyed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Model, "title", lambda _, item_id: f"{EVIL} {item_id}")
    two_channel_model().save(tmp_path / "model")
    (tmp_path / "alice.csv").write_text("item,value\nitem-3,5\n")
    table = run("recommend", str(tmp_path / "model"), "--history", str(tmp_path / "alice.csv"))
    talk = run("recommend", str(tmp_path / "model"), stdin="5\n?\nu\nt\nq\n")
    (tmp_path / "log.csv").write_text(f"user,item,value\na,{EVIL},1\n")
    wrong = run("data", "validate", str(tmp_path / "log.csv"))
    for said in (table.stdout, talk.stderr, wrong.stdout, run("pretrain", "--dataset", EVIL, "--out", "x").stderr):
        assert "owned" in said or "control" in said
        assert not any(sign in said for sign in OBEYED)


def test_a_terminal_keeps_its_own_colours() -> None:
    stream = io.StringIO()
    table = Table("title")
    table.add_row(f"[bold]{EVIL}[/]")
    Terminal(file=stream, force_terminal=True, width=80).print(table, f"[red]{EVIL}[/]")
    assert "\x1b[1m" in stream.getvalue()
    assert "\x1b]0" not in stream.getvalue()
    assert "\x9b" not in stream.getvalue()
    assert plain("tab\tline\n") == "tab\tline\n"


def test_one_module_prints() -> None:
    folder = Path(igcf.cli.__file__).parent
    printing = [file.name for file in folder.glob("*.py") if "click.echo" in file.read_text()]
    assert printing == ["output.py"]
    assert [file.name for file in folder.glob("*.py") if " Console(" in file.read_text()] == []
