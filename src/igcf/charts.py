"""Bars as SVG text, labelled in place and coloured by `charts.css`; curves are in `igcf.curves`.

Every chart is drawn twice, wide and narrow, and the style sheet shows the one that fits, so that letters have the same
size on a phone as on a large screen.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape
from itertools import pairwise
from math import floor, log10
from textwrap import wrap
from typing import Literal

Tone = Literal["first", "second", "other", "bad", "guide"]
"""Type of the part that a bar or line plays: the winner, the next one, another, a warning, or what to compare with."""
WIDE, NARROW = 1000, 300
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


def bar_chart(bars: Sequence[Bar], title: str, *, largest: float | None = None, log_from: float | None = None) -> str:
    """Draw horizontal bars, one below the other; `title` is read to those who cannot see them.

    Args:
        bars: from top to bottom.
        title: what they show.
        largest: value at the right end; charts that stand side by side share it.
        log_from: value at the left end of a logarithmic scale; without it, bars begin at zero.
    """
    told = f"{title}: " + "; ".join(f"{bar.label} {bar.text}" for bar in bars)
    most = largest or max(max(bar.value, bar.high or 0.0, bar.target or 0.0) for bar in bars) or 1.0

    def share(value: float) -> float:
        if log_from is None:
            return max(value, 0.0) / most
        return log10(max(value, log_from) / log_from) / log10(most / log_from)

    return both_sizes(told, lambda width: _bars(bars, width, share))


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


def _bars(bars: Sequence[Bar], width: int, share: Callable[[float], float]) -> tuple[float, list[str]]:
    is_above = width < WIDE or max(len(bar.label) for bar in bars) > LONG_LABEL
    left = 0.0 if is_above else 14 + LETTER * max(len(bar.label) for bar in bars)
    right = width - 14 - LETTER * max(len(bar.text) for bar in bars)

    def x(value: float) -> float:
        return left + (right - left) * share(value)

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
