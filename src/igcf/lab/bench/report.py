"""The whole benchmark as one document of plain values."""

import os
import platform
import time
from collections.abc import Callable
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from igcf.lab.bench.sizes import FULL, Sizes
from igcf.version import __version__

PACKAGES = ("numpy", "scipy", "torch", "numba", "threadpoolctl")


def run_bench(sizes: Sizes = FULL, *, step: Callable[[str], None] = lambda name: None) -> dict[str, Any]:
    """Measure all parts in this process; `step` is told which part begins."""
    document: dict[str, Any] = {"machine": machine()}
    begun = time.perf_counter()
    for name, measure in PARTS.items():
        step(name)
        document[name] = measure(sizes)
    return {**document, "seconds": time.perf_counter() - begun}


def machine() -> dict[str, Any]:
    """Describe the machine; a load above the number of cores makes the measured times rough."""
    return {
        "igcf": __version__,
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "cores": os.cpu_count(),
        "load": round(os.getloadavg()[0], 1) if hasattr(os, "getloadavg") else None,
        "packages": {name: installed(name) for name in PACKAGES},
    }


def installed(name: str) -> str | None:
    """Return the version of a package, or None."""
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _part(module: str, function: str) -> Callable[[Sizes], dict[str, Any]]:
    """Return a part that imports what it measures when it begins, so that nothing heavy is loaded before its turn."""
    return lambda sizes: getattr(import_module(f"igcf.lab.bench.{module}"), function)(sizes)


PARTS: dict[str, Callable[[Sizes], dict[str, Any]]] = {
    "start": _part("startup", "startup_rows"),
    "online": _part("online", "online_rows"),
    "index": _part("index", "index_rows"),
    "peers": _part("peers", "peer_rows"),
    "pretraining": _part("training", "pretraining_rows"),
    "growth": _part("growth", "growth_curves"),
    "learning": _part("learning", "learning_part"),
}
"""Parts of the benchmark in order; those that bring threads of their own come last."""


def all_rows(document: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the comparisons of all parts."""
    return [row for name in PARTS for row in document.get(name, {}).get("rows", ())]
