"""The reference is complete and is what the code says."""

import doctest
import inspect
import re
import subprocess
import sys
from importlib import import_module
from operator import attrgetter
from pathlib import Path

import pytest

import igcf
from igcf.service.store.tables import metadata
from tools.check_links import broken_links

DOCS = Path(__file__).parents[1] / "docs" / "reference"
PUBLIC = ("igcf", "igcf.data", "igcf.online", "igcf.model", "igcf.lab.baselines", "igcf.lab.evaluate")
PAGES = "".join((DOCS / page).read_text() for page in ("python.md", "settings.md"))
CLASSES = re.findall(r"^\.\. autoclass:: (igcf\.(?!service\.client)[\w.]+)", PAGES, re.MULTILINE)
"""Public classes; the examples of the clients, which need a server, are those of docs/reference/clients.md."""
WITH_EXAMPLES = [*CLASSES, "igcf.GraphConfig.paper", "igcf.load_dataset", "igcf.online.named_policy", "igcf.pretrain"]
MODEL = "With the model of the example of `igcf.Model`"
"""So begins an example that goes on from another."""


def test_the_page_of_the_command_line_is_what_help_says() -> None:
    again = "run `make generated`, or `python -m tools.cli_document > docs/reference/cli.md`"
    command = [sys.executable, "-m", "tools.cli_document"]  # alone: click remembers how a command was called before
    written = subprocess.run(command, cwd=DOCS.parents[1], capture_output=True, text=True, check=True).stdout
    assert (DOCS / "cli.md").read_text() == written, again


def test_every_table_of_the_store_is_described() -> None:
    page = (DOCS.parent / "operate" / "backup.md").read_text()
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
    shown = set(re.findall(r"\.\. (?:auto\w+|py:data):: igcf\.(?:\w+\.)*(\w+)", PAGES)) | {"__version__"}
    missing = [f"{name}.{each}" for name in PUBLIC for each in import_module(name).__all__ if each not in shown]
    assert missing == [], "add them to docs/reference/python.md"


def named(name: str) -> object:
    return attrgetter(name.removeprefix("igcf."))(igcf)


def test_public_functions_with_more_than_three_parameters_describe_them() -> None:
    packages = [import_module(name) for name in (*PUBLIC, "igcf.service.client")]
    public = [
        each for package in packages for each in vars(package).values() if "igcf." in getattr(each, "__module__", "")
    ]
    methods = [
        getattr(each, name)
        for each in filter(inspect.isclass, public)
        for name in vars(each)
        if not name.startswith("_")
    ]
    silent = {
        each.__qualname__
        for each in (*public, *methods)
        if (inspect.isfunction(each) or inspect.ismethod(each))
        and len(inspect.signature(each).parameters.keys() - {"self"}) > 3
        and "Args:" not in (inspect.getdoc(each) or "")
    }
    assert silent == set()


def test_every_example_of_a_public_name_is_run_below() -> None:
    names = [f"{package}.{name}" for package in PUBLIC for name in import_module(package).__all__]
    public = {id(each): (each, name) for name in reversed(names) if callable(each := named(name))}
    found = {
        test.name
        for each, name in public.values()
        for test in doctest.DocTestFinder().find(each, name, module=False)
        if test.examples
    }
    assert found <= set(WITH_EXAMPLES)


@pytest.mark.parametrize("name", WITH_EXAMPLES)
def test_every_public_class_has_an_example_that_runs(name: str) -> None:
    text = inspect.getdoc(named(name)) or ""
    assert ">>> " in text, f"add an example to the docstring of {name}"
    if MODEL in text:
        text = f"{inspect.getdoc(igcf.Model)}\n\n{text}"
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    runner.run(doctest.DocTestParser().get_doctest(text, {}, name, None, 0))
    assert runner.summarize(verbose=False).failed == 0


def test_import_igcf_is_enough_for_every_name_of_the_reference() -> None:
    names = [name for name in re.findall(r"^\.\. \S+:: (igcf\.[\w.]+)", PAGES, re.MULTILINE) if "service" not in name]
    subprocess.run([sys.executable, "-c", "\n".join(["import igcf", *names])], check=True)


def test_a_link_or_an_anchor_that_leads_nowhere_is_found(tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text('<a href="b.html#there">x</a> <a href="b.html#gone">x</a> <img src="c.png">')
    (tmp_path / "b.html").write_text('<h1 id="there">b</h1> <a href="https://elsewhere.example/">x</a>')
    (tmp_path / "a.md").write_text("[b](b.html) ![c](images/c.png) [there](https://elsewhere.example/)")
    assert broken_links(tmp_path) == ["a.html: b.html#gone", "a.html: c.png", "a.md: images/c.png"]
