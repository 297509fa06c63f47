"""The whole benchmark as one document of plain values, and as Markdown for the terminal and docs/bench.md."""

import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import Any

from igcf.lab.bench.measure import FULL, Sizes, compared, interleaved
from igcf.lab.evaluate.jobs import package_versions
from igcf.tables import markdown_table, short_number
from igcf.version import __version__

HELP_SECONDS = 0.3


def run_bench(sizes: Sizes = FULL, *, step: Callable[[str], None] = lambda name: None) -> dict[str, Any]:
    """Measure all parts in this process; `step` is called with the name of each part as it begins.

    Each part imports what it measures when it begins, so that nothing heavy is loaded before its turn.
    """
    document: dict[str, Any] = {"machine": machine()}
    begun = time.perf_counter()
    for name, (module, function) in PARTS.items():
        step(name)
        document[name] = getattr(import_module(f"igcf.lab.bench.{module}"), function)(sizes)
    return {**document, "seconds": time.perf_counter() - begun}


def machine() -> dict[str, Any]:
    """Describe the machine; a load above the number of cores makes the measured times rough."""
    return {
        "igcf": __version__,
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "cores": os.cpu_count(),
        "load": round(os.getloadavg()[0], 1) if hasattr(os, "getloadavg") else None,
        "packages": package_versions(),
    }


def startup_rows(sizes: Sizes) -> dict[str, Any]:
    """Time processes of `igcf --help` and of bare Python in alternation."""
    commands = {"igcf --help": ["-m", "igcf", "--help"], "import igcf": ["-c", "import igcf"], "python": ["-c", "pass"]}
    jobs = {name: partial(_run, arguments) for name, arguments in commands.items()}
    seconds = interleaved(jobs, repeats=sizes.starts, clock="wall")
    rows = [
        compared("start", job, "starting Python", seconds[job], seconds["python"], clock="wall")
        for job in ("igcf --help", "import igcf")
    ]
    fastest = float(seconds["igcf --help"].min())
    return {
        "rows": [row.as_dict() for row in rows],
        "help_seconds": {"fastest": fastest, "at_most": HELP_SECONDS, "met": fastest <= HELP_SECONDS},
    }


def _run(arguments: list[str]) -> str:
    return subprocess.run([sys.executable, *arguments], capture_output=True, text=True, check=True).stdout  # noqa: S603


PARTS = {
    "start": ("report", "startup_rows"),
    "online": ("online", "online_rows"),
    "index": ("online", "index_rows"),
    "peers": ("peers", "peer_rows"),
    "pretraining": ("graph", "pretraining_rows"),
}
"""Module and function of each part, in order; those that bring threads of their own come last."""


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
        which = (
            f"{row['job']} ({short_number(row['ratio'])} times {row['against']}, target {short_number(row['at_most'])})"
            for row in missed
        )
        told += f"; missed: {', '.join(which)}"
    warm = next((row for row in all_rows(document) if row["against"] == "the textbook way"), None)
    if warm is not None:
        told += f"; a round ({warm['job']}) takes {short_number(1 / warm['ratio'])} times less than the textbook way"
    return f"{told}."


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
    packages = ", ".join(f"{name} {found}" for name, found in machine["packages"].items() if found != "none")
    return (
        f"igcf {machine['igcf']}, Python {machine['python']}, {machine['system']}, {machine['cores']} cores, "
        f"load {machine['load']} at the start; {packages}; {document['seconds']:.0f} s in all."
    )


def _notes(document: dict[str, Any]) -> list[str]:
    shown = document["start"]["help_seconds"]
    notes = [f"- `igcf --help`: {shown['fastest']:.2f} s (target {shown['at_most']} s, met: {_yes(shown['met'])})."]
    notes += [_index_note(curve) for curve in document.get("index", {}).get("curves", ())]
    if document["peers"]["missing"]:
        notes.append(f"- Peers that are not installed: {', '.join(document['peers']['missing'])}.")
    notes += [f"- Peer {name} could not run: {why}." for name, why in document["peers"]["failed"].items()]
    return notes


def _index_note(curve: dict[str, Any]) -> str:
    points = curve["points"]
    sizes = ", ".join(f"{point['size']:,}" for point in points)
    ms, built = (", ".join(short_number(point[name]) for point in points) for name in ("seconds", "build_s"))
    return (
        f"- Answers from an index, {curve['model']}, {sizes} items: {ms} s per round, exponent {curve['exponent']:.2f} "
        f"(target {curve['at_most']}, met: {_yes(curve['met'])}); built in {built} s."
    )


def _yes(is_met: bool | None) -> str:
    return "" if is_met is None else "yes" if is_met else "no"
