"""Charts in files of their own: an SVG that carries its style, light or dark as the reader prefers."""

import os
import re
from collections.abc import Mapping
from html import escape
from importlib.resources import files
from pathlib import Path

from igcf.errors import ConfigError

GAP, HEADING = 30, 24
"""Space between charts, and above each for its name."""
COLUMNS = 2
DRAWING = re.compile(r'<svg class="chart (\w+)" viewBox="0 0 (\d+) (\d+)" role="img" aria-label="([^"]*)">(.*?)</svg>')
"""One drawing of a chart as `igcf.charts.both_sizes` writes it: kind, width, height, what is read aloud, content."""


def chart_style() -> str:
    """Return the style sheet of all charts."""
    return files("igcf").joinpath("charts.css").read_text(encoding="utf-8")


def standalone(title: str, charts: Mapping[str, str]) -> str:
    """Put charts into one SVG file, two beside each other; a single one is as wide as the page."""
    size = "wide" if len(charts) == 1 else "narrow"
    placed, top, widest = [], 0.0, 0.0
    named = list(charts.items())
    for start in range(0, len(named), COLUMNS):
        left, tallest = 0.0, 0.0
        for name, chart in named[start : start + COLUMNS]:
            width, height, told, inner = {kind: rest for kind, *rest in DRAWING.findall(chart)}[size]
            head = HEADING if name else 0
            heading = f'<text class="name" x="0" y="14">{escape(name)}</text>' if name else ""
            place = f'transform="translate({left:.0f} {top + head:.0f})"'
            placed.append(
                f'<g {place} aria-label="{told}"><g transform="translate(0 -{head})">{heading}</g>{inner}</g>'
            )
            left, tallest = left + float(width) + GAP, max(tallest, float(height) + head)
            widest = max(widest, left - GAP)
        top += tallest + GAP
    box = f'viewBox="-8 -8 {widest + 16:.0f} {top - GAP + 16:.0f}" width="{widest + 16:.0f}"'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="chart" {box} role="img"><title>{escape(title)}</title>'
        f"<style>{chart_style()}</style>{''.join(placed)}</svg>\n"
    )


def prepare_folder(folder: Path) -> None:
    """Make the folder, or say why nothing can be written there; ask before a long computation, not after."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"cannot make the folder {folder} ({error.strerror}); choose another --out") from error
    if not os.access(folder, os.W_OK):
        raise ConfigError(f"cannot write into the folder {folder}; choose another --out")
