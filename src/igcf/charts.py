"""Bars and curves as SVG text, labelled in place and coloured by `charts.css`.

Every chart is drawn twice, wide and narrow, and the style sheet shows the one that fits, so that letters have the same
size on a phone as on a large screen.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from importlib.resources import files
from itertools import pairwise
from math import ceil, floor, log10
from textwrap import wrap
from typing import Literal

from igcf.tables import short_number

Tone = Literal["first", "second", "other", "guide"]
"""Type of the part that a bar or line plays: the winner, the next one, another, or what to compare with."""
FRONT = ("guide", "other", "second", "first")
WIDE, NARROW = 1000, 300
LONG_LABEL, LONGEST_NAME = 45, 17
"""Letters from which labels stand above their bars on wide screens too, and after which a curve's name is broken."""
LETTER, LINE = 7.2, 16
"""Width of a letter and least distance of two labels, in the units of the drawing."""
MOST_POINTS = 120
"""Points of a curve that are drawn."""
GAP, HEADING, COLUMNS = 30, 24, 2
"""In a file of several charts: space between them and above each for its name, and how many stand in a row."""
DRAWING = re.compile(r'<svg class="chart (\w+)" viewBox="0 0 (\d+) (\d+)" role="img" aria-label="([^"]*)">(.*?)</svg>')
"""One drawing of a chart as `both_sizes` writes it: kind, width, height, what is read aloud, content."""


@dataclass(frozen=True)
class Bar:
    """One bar with the text at its end and the interval around its value."""

    label: str
    value: float
    text: str
    tone: Tone = "other"
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class Line:
    """One curve, named at its end, with a band around it or marked points."""

    label: str
    x: Sequence[float]
    y: Sequence[float]
    tone: Tone = "other"
    low: Sequence[float] = ()
    high: Sequence[float] = ()
    has_points: bool = False


def bar_chart(bars: Sequence[Bar], title: str) -> str:
    """Draw horizontal bars, one below the other; `title` is read to those who cannot see them."""
    read = f"{title}: " + "; ".join(f"{bar.label} {bar.text}" for bar in bars)
    most = max(max(bar.value, bar.high or 0.0) for bar in bars) or 1.0
    return both_sizes(read, lambda width: _bars(bars, width, most))


def line_chart(lines: Sequence[Line], title: str, x_name: str, y_name: str = "", *, places: Sequence[str] = ()) -> str:
    """Draw curves over axes that begin at zero; `title` is read to those who cannot see them.

    `places` names x = 1, 2, 3 ... where x only counts values, which may span powers of ten.
    """
    read = f"{title}: " + "; ".join(f"{line.label} ends at {short_number(line.y[-1])}" for line in lines)
    return both_sizes(read, lambda width: _lines(lines, width, x_name, y_name, places))


def ticks(largest: float, n_most: int = 5) -> list[float]:
    """Return round numbers from zero up to `largest`, at most `n_most` beside zero."""
    if largest <= 0:
        return [0.0]
    rough = largest / n_most
    power = 10.0 ** floor(log10(rough))
    step = next(factor * power for factor in (1, 2, 2.5, 5, 10) if factor * power >= rough * (1 - 1e-9))
    return [step * number for number in range(int(largest / step + 1e-9) + 1)]


def apart(places: Sequence[float], distance: float, most: float) -> list[float]:
    """Move places of labels so that neighbours are `distance` apart, in the same order and none beyond `most`."""
    order = sorted(range(len(places)), key=lambda number: places[number])
    found = list(places)
    for before, after in pairwise(order):
        found[after] = max(found[after], found[before] + distance)
    limit = most
    for number in reversed(order):
        found[number] = min(found[number], limit)
        limit = found[number] - distance
    return found


def both_sizes(told: str, draw: Callable[[int], tuple[float, list[str]]]) -> str:
    """Put the wide and the narrow drawing of one chart together; `draw` returns height and parts for a width."""
    drawn = []
    for name, width in (("wide", WIDE), ("narrow", NARROW)):
        height, parts = draw(width)
        drawn.append(
            f'<svg class="chart {name}" viewBox="0 0 {width} {height:.0f}" role="img" aria-label="{escape(told)}">'
            f"{''.join(parts)}</svg>"
        )
    return "".join(drawn)


def _bars(bars: Sequence[Bar], width: int, most: float) -> tuple[float, list[str]]:
    is_above = width < WIDE or max(len(bar.label) for bar in bars) > LONG_LABEL
    left = 0.0 if is_above else 14 + LETTER * max(len(bar.label) for bar in bars)
    right = width - 14 - LETTER * max(len(bar.text) for bar in bars)

    def x(value: float) -> float:
        return left + (right - left) * max(value, 0.0) / most

    parts, top = [], 4.0
    for bar in bars:
        for words in wrap(bar.label, int(width / LETTER)) if is_above else ():
            parts.append(f'<text x="0" y="{top + 10:.0f}">{escape(words)}</text>')
            top += LINE
        if not is_above:
            parts.append(f'<text class="end" x="{left - 10:.0f}" y="{top + 15:.0f}">{escape(bar.label)}</text>')
        end, at = x(bar.value), f'x="{left:.1f}" y="{top:.0f}"'
        parts.append(f'<rect class="{bar.tone}" {at} width="{end - left:.1f}" height="20" rx="3"/>')
        if bar.low is not None and bar.high is not None:
            parts.append(f'<path class="whisker" d="M{x(bar.low):.1f} {top + 10:.0f}H{x(bar.high):.1f}"/>')
            end = max(end, x(bar.high))
        parts.append(f'<text class="value {bar.tone}" x="{end + 8:.1f}" y="{top + 15:.0f}">{escape(bar.text)}</text>')
        top += 30
    return top, parts


def _lines(
    lines: Sequence[Line], width: int, x_name: str, y_name: str, places: Sequence[str]
) -> tuple[float, list[str]]:
    is_narrow = width < WIDE
    names = [wrap(line.label, LONGEST_NAME if is_narrow else 60) or [""] for line in lines]
    tallest = LINE * max(map(len, names))
    x_most = max(value for line in lines for value in line.x) or 1.0
    y_most = max(value for line in lines for value in (*line.y, *line.high)) or 1.0
    y_ticks = ticks(y_most)
    left = 10 + LETTER * max(len(f"{tick:g}") for tick in y_ticks)
    top = 12 + LINE * bool(y_name)
    height = max(top + (200 if is_narrow else 330), top + tallest * len(lines) + 50)
    bottom = height - 42
    right = width - 22 - LETTER * max(len(part) for name in names for part in name)

    def x(value: float) -> float:
        return left + (right - left) * min(max(value / x_most, 0.0), 1.0)

    def y(value: float) -> float:
        return bottom - (bottom - top) * min(max(value / y_most, 0.0), 1.0)

    parts = [f'<text x="0" y="12">{escape(y_name)}</text>'] if y_name else []
    for tick in y_ticks:
        parts.append(f'<path class="grid" d="M{left:.1f} {y(tick):.1f}H{right:.1f}"/>')
        parts.append(f'<text class="end" x="{left - 6:.1f}" y="{y(tick) + 4:.1f}">{tick:g}</text>')
    numbers = [(tick, f"{tick:g}") for tick in ticks(x_most, 3 if is_narrow else 6)]
    for place, name in enumerate(places, start=1) if places else numbers:
        parts.append(f'<text class="middle" x="{x(place):.1f}" y="{bottom + 18:.1f}">{escape(name)}</text>')
    middle = (left + right) / 2
    parts.append(f'<text class="middle" x="{middle:.0f}" y="{height - 6:.0f}">{escape(x_name)}</text>')
    labels = apart([y(line.y[-1]) for line in lines], tallest, bottom)
    for number in sorted(range(len(lines)), key=lambda each: FRONT.index(lines[each].tone)):
        line = lines[number]
        parts += _curve(line, x, y)
        end = f"M{x(line.x[-1]):.1f} {y(line.y[-1]):.1f}L{right + 10:.1f} {labels[number]:.1f}"
        parts.append(f'<path class="leader" d="{end}"/>')
        for row, words in enumerate(names[number]):
            at = f'x="{right + 13:.1f}" y="{labels[number] + 4 + row * (LINE - 2):.1f}"'
            parts.append(f'<text class="value {line.tone}" {at}>{escape(words)}</text>')
    return height, parts


def _curve(line: Line, x: Callable[[float], float], y: Callable[[float], float]) -> list[str]:
    """Draw one curve with what is around it."""
    kept = sorted({*range(0, len(line.x), max(1, ceil(len(line.x) / MOST_POINTS))), len(line.x) - 1})

    def points(values: Sequence[float]) -> list[tuple[str, str]]:
        return [(f"{x(line.x[at]):.1f}", f"{y(values[at]):.1f}") for at in kept]

    parts = []
    if line.low:
        around = map(" ".join, [*points(line.high), *reversed(points(line.low))])
        parts.append(f'<path class="band {line.tone}" d="M{"L".join(around)}Z"/>')
    shape = "guide" if line.tone == "guide" else f"line {line.tone}"
    parts.append(f'<path class="{shape}" d="M{"L".join(map(" ".join, points(line.y)))}"/>')
    marks = points(line.y) if line.has_points else ()
    return parts + [f'<circle class="{line.tone}" cx="{left}" cy="{top}" r="3.5"/>' for left, top in marks]


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
