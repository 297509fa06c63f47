"""`igcf doctor`: what is installed, what is found, what is reachable."""

import os
import platform
import sys
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import click
import numpy as np
from rich.markup import escape
from rich.table import Table

from igcf.cli.options import DATA_DIR
from igcf.cli.output import Answer, answers
from igcf.data import DATASETS, default_data_dir, find_dataset
from igcf.online import backend
from igcf.threads import VARIABLES
from igcf.version import __version__

PACKAGES = {
    "core": ("numpy", "scipy", "polars", "safetensors", "click", "rich"),
    "evaluate": ("joblib",),
    "graph": ("torch", "numba"),
    "service": ("fastapi", "uvicorn", "sqlalchemy", "prometheus-client", "pydantic", "pydantic-settings"),
    "client": ("httpx", "pydantic", "pydantic-settings"),
    "mcp": ("mcp",),
    "postgresql": ("psycopg",),
    "scale": ("ray",),
}
"""Packages of each extra; the first one that has a package is the one to install."""


@click.command()
@DATA_DIR
@click.option("--store", default=None, help="Also try this store, for instance postgresql+psycopg://host/db.")
@answers
def doctor(data_dir: str | None, store: str | None) -> Answer:
    """Show installed packages, threads, data sets found, and whether a store can be reached.

    \b
    Examples:
      igcf doctor
      igcf doctor --store sqlite:///igcf.db --json
    """
    report = examine(data_dir, store)
    table = Table("what", "found", title=f"igcf {__version__}")
    for name, value in _rows(report):
        table.add_row(name, escape(value))
    return Answer(report, [table])


def examine(data_dir: str | None, store: str | None) -> dict[str, Any]:
    """Return everything that `igcf doctor` shows, as plain values."""
    config: Any = np.show_config(mode="dicts")
    blas = config["Build Dependencies"]["blas"]
    folder = Path(data_dir) if data_dir else default_data_dir()
    present = {name: not info.files or find_dataset(info, folder) is not None for name, info in DATASETS.items()}
    return {
        "igcf": __version__,
        "python": sys.version.split()[0],
        "machine": platform.machine(),
        "cores": os.cpu_count(),
        "threads": {name: os.environ[name] for name in (*VARIABLES, "NUMBA_NUM_THREADS") if name in os.environ},
        "blas": f"{blas.get('name', 'unknown')} {blas.get('version', '')}".strip(),
        "compiled": backend.loops.name == "native",
        "packages": {extra: {name: _version(name) for name in names} for extra, names in PACKAGES.items()},
        "data": {"folder": str(folder), "present": present},
        "store": None if store is None else _store(store),
    }


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _store(url: str) -> str:
    try:
        from igcf.service.store import Store
    except ImportError as error:
        return f"cannot be tried: {error}; pip install 'igcf[service]'"
    try:
        Store(url).close()
    except Exception as error:
        return f"does not answer: {error}"
    return "answers"


def _rows(report: dict[str, Any]) -> Iterator[tuple[str, str]]:
    yield "python", f"{report['python']} on {report['machine']}"
    yield "cores", ", ".join([str(report["cores"]), *(f"{name}={value}" for name, value in report["threads"].items())])
    yield "BLAS", report["blas"]
    yield "online loops", "compiled" if report["compiled"] else "NumPy; to compile, reinstall igcf with a C compiler"
    for extra, packages in report["packages"].items():
        found = ", ".join(f"{name} {number}" for name, number in packages.items() if number)
        missing = ", ".join(name for name, number in packages.items() if not number)
        hint = "" if extra == "core" else f" (pip install 'igcf[{extra}]')"
        yield extra, "; ".join(filter(None, [found, missing and f"missing: {missing}{hint}"]))
    present = [name for name, here in report["data"]["present"].items() if here]
    yield "data", f"{', '.join(present)} in {report['data']['folder']}"
    if report["store"] is not None:
        yield "store", report["store"]
