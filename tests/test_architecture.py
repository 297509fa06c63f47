"""docs/architecture.md speaks of folders and functions; they exist."""

import re
from functools import reduce
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
LISTS = [part.split("\n", 1) for part in PAGE.split("\n### ")[1:]]


def test_every_folder_of_the_package_is_described_and_every_described_folder_exists() -> None:
    described = set(re.findall(r"^\| `([^`*]+)/` \|", PAGE, re.MULTILINE))
    assert [name for name in described if not (ROOT / name).is_dir()] == []
    packages = {str(file.parent.relative_to(ROOT)) for file in (ROOT / "src/igcf").rglob("__init__.py")}
    assert packages - described == {"src/igcf"}


@pytest.mark.parametrize(("title", "hops"), LISTS, ids=[title for title, _ in LISTS])
def test_every_hop_of_the_data_names_a_function_that_exists(title: str, hops: str) -> None:
    for name in re.findall(r"`(igcf\.[\w.]+)`", hops):
        module, attributes = found_module(name)
        assert attributes, name
        assert callable(reduce(getattr, attributes, module)), name


def found_module(name: str) -> tuple[object, list[str]]:
    """Return the longest prefix of `name` that is a module, and the attributes that follow it."""
    parts = name.split(".")
    for end in range(len(parts), 0, -1):
        place = ROOT.joinpath("src", *parts[:end])
        if place.with_suffix(".py").is_file() or (place / "__init__.py").is_file():
            return import_module(".".join(parts[:end])), parts[end:]
    raise AssertionError(name)


def test_all_sql_is_in_the_store() -> None:
    service, sql = ROOT / "src" / "igcf" / "service", re.compile(r"^(import|from) sqlalchemy", re.MULTILINE)
    assert {path.parent for path in service.rglob("*.py") if sql.search(path.read_text())} == {service / "store"}
