"""The whole benchmark as one document."""

import os
import platform
import time
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from igcf.bench.sizes import FULL, Sizes
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
    """What the numbers were measured on; a load above the number of cores makes them rough."""
    return {
        "igcf": __version__,
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "cores": os.cpu_count(),
        "load": round(os.getloadavg()[0], 1) if hasattr(os, "getloadavg") else None,
        "packages": {name: installed(name) for name in PACKAGES},
    }


def installed(name: str) -> str | None:
    """The version of a package, or None."""
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _start(sizes: Sizes) -> dict[str, Any]:
    from igcf.bench.startup import startup_rows

    return startup_rows(sizes)


def _online(sizes: Sizes) -> dict[str, Any]:
    from igcf.bench.online import online_rows

    return online_rows(sizes)


def _pretraining(sizes: Sizes) -> dict[str, Any]:
    from igcf.bench.training import pretraining_rows

    return pretraining_rows(sizes)


def _growth(sizes: Sizes) -> dict[str, Any]:
    from igcf.bench.growth import growth_curves

    return growth_curves(sizes)


def _learning(sizes: Sizes) -> dict[str, Any]:
    if sizes.dataset is None:
        return {}
    from igcf.bench.learning import learning_curve

    return learning_curve(sizes.dataset)


def _peers(sizes: Sizes) -> dict[str, Any]:
    from igcf.bench.peers import peer_rows

    return peer_rows(sizes)


PARTS: dict[str, Callable[[Sizes], dict[str, Any]]] = {
    "start": _start,
    "online": _online,
    "peers": _peers,
    "pretraining": _pretraining,
    "growth": _growth,
    "learning": _learning,
}
"""In this order; the parts that bring threads of their own come last."""


def all_rows(document: dict[str, Any]) -> list[dict[str, Any]]:
    """The comparisons of all parts."""
    return [row for name in PARTS for row in document.get(name, {}).get("rows", ())]
