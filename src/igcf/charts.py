"""Bars and curves as SVG text, labelled in place and coloured by the style sheet of the page around them.

Every chart is drawn twice, wide and narrow, and the style sheet shows the one that fits, so that letters have the same
size on a phone as on a large screen.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape
from itertools import pairwise
from math import ceil, floor, log10
from textwrap import wrap
from typing import Literal

from igcf.tables import short_number

Tone = Literal["first", "second", "other", "bad"]
"""Type of the part that a bar or line plays: the winner, the next one, somebody else, or a warning."""
WIDE, NARROW = 1000, 340
LONG_LABEL = 45
"""Number of letters from which labels stand above their bars on wide screens too."""
LETTER, LINE = 7.2, 16
"""Width of a letter and least distance of two labels, in the units of the drawing."""


@dataclass(frozen=True)
class Bar:
    """One bar with the text at its end, and where they are known the interval around its value and a target."""

    label: str
    value: float
    text: str
    tone: Tone = "other"
    low: float | None = None
    high: float | None = None
    target: float | None = None


@dataclass(frozen=True)
class Line:
    """One line, named at its end, with a band around it where there is one."""

    label: str
    x: Sequence[float]
    y: Sequence[float]
    tone: Tone = "other"
    low: Sequence[float] = ()
    high: Sequence[float] = ()


def bar_chart(bars: Sequence[Bar], title: str) -> str:
    """Draw horizontal bars from zero, one below the other; `title` is read to those who cannot see them."""
    told = f"{title}: " + "; ".join(f"{bar.label} {bar.text}" for bar in bars)
    return _both(told, lambda width: _bars(bars, width))


def line_chart(lines: Sequence[Line], title: str, x_axis: str) -> str:
    """Draw lines over one axis, from zero upwards; `title` is read to those who cannot see them."""
    told = f"{title}: " + "; ".join(f"{line.label} ends at {short_number(line.y[-1])}" for line in lines)
    return _both(told, lambda width: _lines(lines, width, x_axis))


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


def _both(told: str, draw: Callable[[int], tuple[float, list[str]]]) -> str:
    drawn = []
    for name, width in (("wide", WIDE), ("narrow", NARROW)):
        height, parts = draw(width)
        drawn.append(
            f'<svg class="chart {name}" viewBox="0 0 {width} {height:.0f}" role="img" aria-label="{escape(told)}">'
            f"{''.join(parts)}</svg>"
        )
    return "".join(drawn)


def _bars(bars: Sequence[Bar], width: int) -> tuple[float, list[str]]:
    is_above = width < WIDE or max(len(bar.label) for bar in bars) > LONG_LABEL
    left = 0.0 if is_above else 14 + LETTER * max(len(bar.label) for bar in bars)
    right = width - 14 - LETTER * max(len(bar.text) for bar in bars)
    largest = max(max(bar.value, bar.high or 0.0, bar.target or 0.0) for bar in bars) or 1.0

    def x(value: float) -> float:
        return left + (right - left) * max(value, 0.0) / largest

    parts, top = [], 4.0
    for bar in bars:
        if is_above:
            for words in wrap(bar.label, int(width / LETTER)):
                parts.append(f'<text x="0" y="{top + 10:.0f}">{escape(words)}</text>')
                top += LINE
        else:
            parts.append(f'<text class="end" x="{left - 10:.0f}" y="{top + 15:.0f}">{escape(bar.label)}</text>')
        end = reach = x(bar.value)
        parts.append(
            f'<rect class="{bar.tone}" x="{left:.1f}" y="{top:.0f}" width="{end - left:.1f}" height="20" rx="3"/>'
        )
        if bar.low is not None and bar.high is not None:
            parts.append(f'<path class="whisker" d="M{x(bar.low):.1f} {top + 10:.0f}H{x(bar.high):.1f}"/>')
            reach = max(end, x(bar.high))
        if bar.target is not None:
            place = x(bar.target)
            parts.append(f'<path class="target" d="M{place:.1f} {top - 3:.0f}v26"/>')
            is_close = place - end < LETTER * len(bar.text) + 12
            reach = max(reach, place) if is_close else reach
        parts.append(f'<text class="value {bar.tone}" x="{reach + 8:.1f}" y="{top + 15:.0f}">{escape(bar.text)}</text>')
        top += 30
    return top, parts


def _lines(lines: Sequence[Line], width: int, x_axis: str) -> tuple[float, list[str]]:
    is_narrow = width < WIDE
    height = max(230 if is_narrow else 380, LINE * len(lines) + 70)
    left, top, bottom = 38, 12, height - 42
    right = width - 22 - LETTER * max(len(line.label) for line in lines)
    longest = max(line.x[-1] for line in lines)
    largest = max(max((*line.y, *line.high)) for line in lines) or 1.0

    def x(value: float) -> float:
        return left + (right - left) * value / longest

    def y(value: float) -> float:
        return bottom - (bottom - top) * value / largest

    parts = []
    for tick in ticks(largest):
        parts.append(f'<path class="grid" d="M{left} {y(tick):.1f}H{right:.1f}"/>')
        parts.append(f'<text class="end" x="{left - 6}" y="{y(tick) + 4:.1f}">{tick:g}</text>')
    for tick in ticks(longest, 3 if is_narrow else 6):
        parts.append(f'<text class="middle" x="{x(tick):.1f}" y="{bottom + 18}">{tick:g}</text>')
    parts.append(f'<text class="middle" x="{(left + right) / 2:.0f}" y="{height - 6:.0f}">{escape(x_axis)}</text>')
    labels = apart([y(line.y[-1]) for line in lines], LINE, bottom)
    back_to_front = sorted(
        range(len(lines)), key=lambda number: ("other", "bad", "second", "first").index(lines[number].tone)
    )
    for number in back_to_front:
        line = lines[number]
        kept = range(0, len(line.x), max(1, ceil(len(line.x) / 120)))
        kept_and_last = [*kept, len(line.x) - 1]
        if line.low:
            upper = [f"{x(line.x[at]):.1f} {y(line.high[at]):.1f}" for at in kept_and_last]
            lower = [f"{x(line.x[at]):.1f} {y(max(line.low[at], 0.0)):.1f}" for at in reversed(kept_and_last)]
            parts.append(f'<path class="band {line.tone}" d="M{"L".join([*upper, *lower])}Z"/>')
        points = [f"{x(line.x[at]):.1f} {y(line.y[at]):.1f}" for at in kept_and_last]
        parts.append(f'<path class="line {line.tone}" d="M{"L".join(points)}"/>')
        end = x(line.x[-1])
        parts.append(f'<path class="leader" d="M{end:.1f} {y(line.y[-1]):.1f}L{right + 10:.1f} {labels[number]:.1f}"/>')
        place = f'x="{right + 13:.1f}" y="{labels[number] + 4:.1f}"'
        parts.append(f'<text class="value {line.tone}" {place}>{escape(line.label)}</text>')
    return height, parts
