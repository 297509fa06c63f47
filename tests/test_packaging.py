"""What is promised of the package: lower bounds, versions, files."""

import json
import re
import tomllib
from pathlib import Path

import igcf

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def test_the_oldest_dependencies_that_are_promised_are_those_that_were_tried() -> None:
    extras = PROJECT["optional-dependencies"]
    promised = [
        *PROJECT["dependencies"],
        *extras["evaluate"],
        *extras["client"],
        *extras["service"],
        *extras["postgresql"],
    ]
    bounds = [re.fullmatch(r"([\w-]+)(?:\[\w+\])?>=([\d.]+)", each) for each in promised if not each.startswith("igcf")]
    tried = dict(re.findall(r"^([\w-]+)==([\d.]+)$", (ROOT / "constraints-min.txt").read_text(), re.MULTILINE))

    def numbers(version: str) -> list[int]:
        parts = [int(part) for part in version.split(".")]
        return parts + [0] * (3 - len(parts))

    assert {found[1]: numbers(found[2]) for found in bounds if found} == {n: numbers(v) for n, v in tried.items()}


def test_the_default_installation_has_none_of_the_large_packages() -> None:
    names = " ".join(PROJECT["dependencies"])
    assert not [name for name in ("torch", "numba", "ray", "faiss", "matplotlib") if name in names]


def test_all_files_name_the_same_version() -> None:
    assert json.loads((ROOT / "clients/js/package.json").read_text())["version"] == igcf.__version__
    assert f"\nversion: {igcf.__version__}\n" in (ROOT / "CITATION.cff").read_text()
