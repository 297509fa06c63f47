"""The whole benchmark as one document of plain values, and as Markdown for the terminal and docs/bench.md."""

import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from igcf.lab.bench.measure import compared, interleaved
from igcf.lab.bench.sizes import FULL, Sizes
from igcf.tables import markdown_table, short_number
from igcf.version import __version__

HEAVY = ("torch", "matplotlib", "fastapi", "starlette", "numba", "scipy", "polars", "sqlalchemy")
NEVER = ("torch", "matplotlib", "fastapi", "starlette")
HELP_SECONDS = 0.3
PACKAGES = ("numpy", "scipy", "torch", "numba", "threadpoolctl")


def run_bench(sizes: Sizes = FULL, *, step: Callable[[str], None] = lambda name: None) -> dict[str, Any]:
    """Measure all parts in this process; `step` is called with the name of each part as it begins."""
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


def _part(module: str, function: str) -> Callable[[Sizes], dict[str, Any]]:
    """Return a part that imports what it measures when it begins, so that nothing heavy is loaded before its turn."""
    return lambda sizes: getattr(import_module(f"igcf.lab.bench.{module}"), function)(sizes)


PARTS: dict[str, Callable[[Sizes], dict[str, Any]]] = {
    "start": startup_rows,
    "online": _part("online", "online_rows"),
    "index": _part("online", "index_rows"),
    "peers": _part("peers", "peer_rows"),
    "pretraining": _part("graph", "pretraining_rows"),
}
"""Parts of the benchmark in order; those that bring threads of their own come last."""


def all_rows(document: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the comparisons of all parts."""
    return [row for name in PARTS for row in document.get(name, {}).get("rows", ())]


def as_text(document: dict[str, Any]) -> str:
    """Write everything that a person wants to see."""
    parts = [conclusion(document), _machine(document), ratio_table(document), "\n".join(_notes(document))]
    return "\n\n".join(parts)


def conclusion(document: dict[str, Any]) -> str:
    """Say in a sentence whether igcf is as fast as it should be, and how fast a round is."""
    rows = [row for row in all_rows(document) if row["at_most"] is not None]
    missed = [row for row in rows if not row["met"]]
    told = f"igcf meets {len(rows) - len(missed)} of {len(rows)} targets of speed"
    if missed:
        told += f"; missed: {', '.join(_told(row) for row in missed)}"
    warm = [row for row in all_rows(document) if row["against"] == "the textbook way"]
    if warm:
        told += (
            f"; a round ({warm[0]['job']}) takes {short_number(1 / warm[0]['ratio'])} times less than the textbook way"
        )
    return f"{told}."


def _told(row: dict[str, Any]) -> str:
    return f"{row['job']} ({short_number(row['ratio'])} times {row['against']}, target {short_number(row['at_most'])})"


def ratio_table(document: dict[str, Any]) -> str:
    """Write one line per comparison."""
    header = ("job", "against", "ours, ms", "reference, ms", "ratio", "target", "met", "clock")
    rows = [
        (
            row["job"],
            row["against"],
            *(short_number(row[name]) for name in ("ours_ms", "reference_ms", "ratio")),
            "" if row["at_most"] is None else f"≤ {short_number(row['at_most'])}",
            _yes(row["met"]),
            row["clock"],
        )
        for row in all_rows(document)
    ]
    return markdown_table(header, rows, align="llrrrr")


def _machine(document: dict[str, Any]) -> str:
    machine = document["machine"]
    packages = ", ".join(f"{name} {found}" for name, found in machine["packages"].items() if found)
    return (
        f"igcf {machine['igcf']}, Python {machine['python']}, {machine['system']}, {machine['cores']} cores, "
        f"load {machine['load']} at the start; {packages}; {document['seconds']:.0f} s in all."
    )


def _notes(document: dict[str, Any]) -> list[str]:
    start, online = document["start"], document["online"]
    shown = start["help_seconds"]
    heavy = (
        ", ".join(start["import_igcf"]["heavy"]) or "none of torch, matplotlib, a web framework, numba, SciPy, polars"
    )
    notes = [
        f"- `igcf --help`: {shown['fastest']:.2f} s (target {shown['at_most']} s, met: {_yes(shown['met'])}).",
        f"- `import igcf` loads {start['import_igcf']['modules']} modules, of the heavy ones {heavy}.",
    ]
    notes += [
        f"- Serving {entry['items']:,} items, d={entry['dim']}: at most {entry['gigabytes_beyond_items']:.3f} GB "
        "beyond the item matrix."
        for entry in online["memory"]
    ]
    if "index" in document:
        notes += _index_notes(document["index"])
    many = online["many_users"]
    notes.append(f"- {many['users']:,} users x {many['items']:,} items in blocks: {many['gigabytes']:.3f} GB at most.")
    if document["peers"]["missing"]:
        notes.append(f"- Peers that are not installed: {', '.join(document['peers']['missing'])}.")
    notes += [f"- Peer {name} could not run: {why}." for name, why in document["peers"]["failed"].items()]
    return notes


def _index_notes(index: dict[str, Any]) -> list[str]:
    notes = []
    for curve in index["curves"]:
        points = curve["points"]
        sizes = ", ".join(f"{point['size']:,}" for point in points)
        ms, built = (", ".join(short_number(point[name]) for point in points) for name in ("seconds", "build_s"))
        notes.append(
            f"- Answers from an index, {curve['model']}, {sizes} items: {ms} s per round, "
            f"exponent {curve['exponent']:.2f} (target {curve['at_most']}, met: {_yes(curve['met'])}); "
            f"built in {built} s; a user in memory takes {points[0]['user_bytes']:,} bytes at the smallest and "
            f"{points[-1]['user_bytes']:,} at the largest."
        )
    return notes


def _yes(is_met: bool | None) -> str:
    return "" if is_met is None else "yes" if is_met else "no"
