"""docs/design/service.md describes every scenario of `make torture`."""

import re
from pathlib import Path

from tools.torture.scenarios import SCENARIOS

PAGE = (Path(__file__).parents[2] / "docs" / "design" / "service.md").read_text(encoding="utf-8")


def test_every_scenario_is_described() -> None:
    part = PAGE.split("\n## Breaking it", 1)[1].split("\n## ", 1)[0]
    described = re.findall(r"`([a-z-]+)`", "".join(re.findall(r"^\| (`.*?) \|", part, re.MULTILINE)))
    assert sorted(described) == sorted(SCENARIOS)
