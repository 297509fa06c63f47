"""The reference is complete and is what the code says."""

import doctest
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import igcf
from igcf.service.store.tables import metadata
from tools.check_links import broken_links

DOCS = Path(__file__).parents[1] / "docs" / "reference"
PUBLIC = ("igcf", "igcf.data", "igcf.online", "igcf.model", "igcf.baselines", "igcf.evaluate")
WITH_EXAMPLES = (
    "igcf.data.interactions",
    "igcf.data.registry",
    "igcf.online.policies",
    "igcf.online.recommender",
    "igcf.online.session",
    "igcf.model.model",
    "igcf.training.pretraining",
)


def test_the_page_of_the_command_line_is_what_help_says() -> None:
    again = "run `make generated`, or `python -m tools.cli_document > docs/reference/cli.md`"
    command = [sys.executable, "-m", "tools.cli_document"]  # alone: click remembers how a command was called before
    written = subprocess.run(command, cwd=DOCS.parents[1], capture_output=True, text=True, check=True).stdout
    assert (DOCS / "cli.md").read_text() == written, again


def test_every_table_of_the_store_is_described() -> None:
    page = (DOCS.parent / "operation.md").read_text()
    described = page.split("## What is kept, and what survives")[1].split("\n- ")[0]
    assert [name for name in metadata.tables if f"`{name}`" not in described] == []


def test_every_option_has_a_help_text() -> None:
    from tools.cli_document import commands

    silent = [
        f"{context.command_path} {option.opts[-1]}"
        for context in commands()
        for option in context.command.params
        if option.param_type_name == "option" and not getattr(option, "help", None)
    ]
    assert silent == []


def test_every_public_name_is_on_the_page_of_python() -> None:
    page = (DOCS / "python.md").read_text() + (DOCS / "settings.md").read_text()
    shown = set(re.findall(r"\.\. (?:auto\w+|py:data):: igcf\.(?:\w+\.)*(\w+)", page)) | {"__version__"}
    missing = [f"{name}.{each}" for name in PUBLIC for each in import_module(name).__all__ if each not in shown]
    assert missing == [], "add them to docs/reference/python.md"


@pytest.mark.parametrize("name", WITH_EXAMPLES)
def test_the_examples_of_the_docstrings_run(name: str) -> None:
    names: dict[str, object] = {}
    if name.startswith("igcf.online"):  # their examples begin with the model of the example of `Model`
        for example in doctest.DocTestParser().get_examples(igcf.Model.__doc__ or ""):
            exec(compile(example.source, "Model", "single"), names)
    result = doctest.testmod(import_module(name), extraglobs=names, optionflags=doctest.ELLIPSIS)
    assert result.attempted > 0
    assert result.failed == 0


def test_a_link_or_an_anchor_that_leads_nowhere_is_found(tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text('<a href="b.html#there">x</a> <a href="b.html#gone">x</a> <img src="c.png">')
    (tmp_path / "b.html").write_text('<h1 id="there">b</h1> <a href="https://elsewhere.example/">x</a>')
    assert broken_links(tmp_path) == ["a.html: b.html#gone", "a.html: c.png"]
