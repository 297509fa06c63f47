"""docs/design/service.md names the tests that hold what has gone wrong before, and the scenarios of `make torture`."""

import re
from pathlib import Path

import pytest

from tools.torture.scenarios import SCENARIOS

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "design" / "service.md").read_text(encoding="utf-8")


def part(title: str) -> str:
    return PAGE.split(f"\n## {title}", 1)[1].split("\n## ", 1)[0]


@pytest.mark.parametrize(("table", "least"), [(1, 20), (2, 10)])
def test_every_defect_and_every_promise_has_tests_and_they_exist(table: int, least: int) -> None:
    rows = part("What has gone wrong before").split("|---|---|\n")[table].split("\n\n", 1)[0].splitlines()
    assert len(rows) >= least
    for row in rows:
        file = None
        names = re.findall(r"`((?:[\w/]+/)?test_\w+(?:\.py)?)`", row.split("|")[2])
        assert any(not name.endswith(".py") for name in names), row
        for name in names:
            if name.endswith(".py"):
                file = ROOT / (name if name.startswith("tests/") else f"tests/service/{name}")
            else:
                assert file is not None, row
                assert f"def {name}(" in file.read_text(encoding="utf-8"), name


def test_every_scenario_is_described() -> None:
    described = re.findall(r"`([a-z-]+)`", "".join(re.findall(r"^\| (`.*?) \|", part("Breaking it"), re.MULTILINE)))
    assert sorted(described) == sorted(SCENARIOS)
