"""Time that the command takes to answer, and modules that importing the library loads."""

import subprocess
import sys
from typing import Any

from igcf.lab.bench.sizes import Sizes
from igcf.lab.bench.timing import compared, interleaved

HEAVY = ("torch", "matplotlib", "fastapi", "starlette", "numba", "scipy", "polars", "sqlalchemy")
NEVER = ("torch", "matplotlib", "fastapi", "starlette")
HELP_SECONDS = 0.3


def startup_rows(sizes: Sizes) -> dict[str, Any]:
    """Start processes one after the other, `igcf --help` and bare Python in turn, and time them."""
    commands = {"help": ["-m", "igcf", "--help"], "import": ["-c", "import igcf"], "python": ["-c", "pass"]}
    seconds = interleaved(
        {name: lambda arguments=arguments: _run(arguments) for name, arguments in commands.items()},  # type: ignore[misc]
        repeats=sizes.starts,
        clock="wall",
    )
    rows = [
        compared("start", job, "starting Python", seconds[name], seconds["python"], clock="wall")
        for name, job in (("help", "igcf --help"), ("import", "import igcf"))
    ]
    loaded = modules_after("import igcf")
    fastest = float(seconds["help"].min())
    return {
        "rows": [row.as_dict() for row in rows],
        "help_seconds": {"fastest": fastest, "at_most": HELP_SECONDS, "met": fastest <= HELP_SECONDS},
        "import_igcf": {
            "modules": len(loaded),
            "heavy": sorted(set(HEAVY) & loaded),
            "met": not set(NEVER) & loaded,
        },
    }


def modules_after(statement: str) -> set[str]:
    """Return the modules that a fresh Python has loaded after `statement`."""
    return set(_run(["-c", f"{statement}; import sys; print(' '.join(sys.modules))"]).split())


def _run(arguments: list[str]) -> str:
    return subprocess.run([sys.executable, *arguments], capture_output=True, text=True, check=True).stdout  # noqa: S603
