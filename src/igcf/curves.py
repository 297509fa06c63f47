"""Curves as SVG text: named at their ends, over linear or logarithmic axes, coloured by `charts.css`."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape
from math import asinh, ceil, floor, inf, log10
from textwrap import wrap
from typing import Literal

from igcf.charts import LETTER, LINE, WIDE, Tone, apart, both_sizes, ticks
from igcf.tables import short_number

LONGEST_NAME = 17
"""Letters of a name in one line; longer ones are broken."""
FRONT = ("guide", "other", "bad", "second", "first")
MOST_POINTS = 120
"""Points of a curve that are drawn."""
Kind = Literal["linear", "log", "signed"]
"""Type of an axis; `signed` is linear around zero, as wide as `NEAR`, and logarithmic beyond it on both sides."""
NEAR = 5.0


@dataclass(frozen=True)
class Line:
    """One curve, named at its end, with a band around it, or whiskers where its points are marked."""

    label: str
    x: Sequence[float]
    y: Sequence[float]
    tone: Tone = "other"
    low: Sequence[float] = ()
    high: Sequence[float] = ()
    has_points: bool = False


@dataclass(frozen=True)
class Frame:
    """The axes of a chart, their ends where the curves do not say them, and upright marks with names."""

    x_name: str
    y_name: str = ""
    x: Kind = "linear"
    y: Kind = "linear"
    x_ends: tuple[float, float] | None = None
    y_ends: tuple[float, float] | None = None
    marks: tuple[tuple[float, str], ...] = ()


@dataclass(frozen=True)
class Axis:
    """Maps values to shares of the length of an axis."""

    low: float
    high: float
    kind: Kind

    def __call__(self, value: float) -> float:
        """Return the place of a value, 0 at the lower end and 1 at the upper; never outside."""
        bent = {"linear": float, "log": lambda v: log10(max(v, self.low)), "signed": lambda v: asinh(v / NEAR)}
        place = bent[self.kind]
        start, end = place(self.low), place(self.high)
        return min(max((place(value) - start) / ((end - start) or 1.0), 0.0), 1.0)

    def ticks(self, n_most: int) -> list[float]:
        """Return round values within the axis."""
        if self.kind == "linear" and self.low >= 0:
            return [each for each in ticks(self.high, n_most) if each >= self.low]
        if self.kind == "signed":
            steps = [0.0, *(sign * NEAR * 4**power for power in range(8) for sign in (1, -1))]
            return sorted(each for each in steps if self.low <= each <= self.high)
        if self.kind == "linear":
            return [self.low, 0.0, self.high]
        powers = range(floor(log10(self.low)) - 1, ceil(log10(self.high)) + 1)
        for factors in ((1,), (1, 3), (1, 2, 5)):
            found = [n * 10.0**power for power in powers for n in factors]
            found = [each for each in found if self.low * 0.999 <= each <= self.high * 1.001]
            if len(found) >= 3:
                break
        return found[:: ceil(len(found) / n_most)] if found else [self.low, self.high]


def line_chart(lines: Sequence[Line], title: str, frame: Frame) -> str:
    """Draw curves; `title` is read to those who cannot see them."""
    told = f"{title}: " + "; ".join(f"{line.label} ends at {short_number(line.y[-1])}" for line in lines)
    return both_sizes(told, lambda width: _lines(lines, width, frame))


def tick_text(value: float) -> str:
    """Write the value of a tick in few letters."""
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:g}{letter}"
    return f"{value:g}"


def _axes(lines: Sequence[Line], frame: Frame) -> tuple[Axis, Axis]:
    """Find the ends of both axes: linear ones begin at zero, or below it where the values do."""
    xs = [value for line in lines for value in line.x] + [place for place, _ in frame.marks]
    ys = [value for line in lines for value in (*line.y, *line.high, *line.low)]
    found = []
    for values, kind, ends in ((xs, frame.x, frame.x_ends), (ys, frame.y, frame.y_ends)):
        least = min((value for value in values if kind != "log" or value > 0), default=0.1)
        low, high = ends or (least if kind == "log" else min(least, 0.0), max(max(values), -inf))
        found.append(Axis(low, high if high > low else low + 1.0, kind))
    return found[0], found[1]


def _lines(lines: Sequence[Line], width: int, frame: Frame) -> tuple[float, list[str]]:
    is_narrow = width < WIDE
    names = [wrap(line.label, LONGEST_NAME if is_narrow else 60) or [""] for line in lines]
    tallest = LINE * max(map(len, names))
    x_axis, y_axis = _axes(lines, frame)
    y_ticks = y_axis.ticks(5)
    left = 10 + LETTER * max(len(tick_text(tick)) for tick in y_ticks)
    top = 12 + LINE * (len(frame.marks) + bool(frame.y_name))
    height = max(top + (200 if is_narrow else 330), top + tallest * len(lines) + 50)
    bottom = height - 42
    right = width - 22 - LETTER * max(len(part) for name in names for part in name)

    def x(value: float) -> float:
        return left + (right - left) * x_axis(value)

    def y(value: float) -> float:
        return bottom - (bottom - top) * y_axis(value)

    parts = [f'<text x="0" y="12">{escape(frame.y_name)}</text>'] if frame.y_name else []
    for tick in y_ticks:
        parts.append(f'<path class="grid" d="M{left:.1f} {y(tick):.1f}H{right:.1f}"/>')
        parts.append(f'<text class="end" x="{left - 6:.1f}" y="{y(tick) + 4:.1f}">{tick_text(tick)}</text>')
    for tick in x_axis.ticks(3 if is_narrow else 6):
        parts.append(f'<text class="middle" x="{x(tick):.1f}" y="{bottom + 18:.1f}">{tick_text(tick)}</text>')
    middle = (left + right) / 2
    parts.append(f'<text class="middle" x="{middle:.0f}" y="{height - 6:.0f}">{escape(frame.x_name)}</text>')
    for number, (place, name) in enumerate(frame.marks):
        above = top - LINE * (len(frame.marks) - number) + 10
        side = "end" if x_axis(place) > 0.5 else "start"
        shift = -5 if side == "end" else 5
        parts.append(f'<path class="guide" d="M{x(place):.1f} {bottom:.1f}V{above - 8:.1f}"/>')
        parts.append(f'<text class="{side}" x="{x(place) + shift:.1f}" y="{above:.1f}">{escape(name)}</text>')
    labels = apart([y(line.y[-1]) for line in lines], tallest, bottom)
    for number in sorted(range(len(lines)), key=lambda each: FRONT.index(lines[each].tone)):
        line = lines[number]
        parts += _curve(line, x, y)
        end = f"M{x(line.x[-1]):.1f} {y(line.y[-1]):.1f}L{right + 10:.1f} {labels[number]:.1f}"
        parts.append(f'<path class="leader" d="{end}"/>')
        for row, words in enumerate(names[number]):
            place = f'x="{right + 13:.1f}" y="{labels[number] + 4 + row * (LINE - 2):.1f}"'
            parts.append(f'<text class="value {line.tone}" {place}>{escape(words)}</text>')
    return height, parts


def _curve(line: Line, x: Callable[[float], float], y: Callable[[float], float]) -> list[str]:
    """Draw one curve with what is around it."""
    kept = sorted({*range(0, len(line.x), max(1, ceil(len(line.x) / MOST_POINTS))), len(line.x) - 1})
    points = [f"{x(line.x[at]):.1f} {y(line.y[at]):.1f}" for at in kept]
    parts = []
    if line.low and line.has_points:
        for at in kept:
            whisker = f"M{x(line.x[at]):.1f} {y(line.low[at]):.1f}V{y(line.high[at]):.1f}"
            parts.append(f'<path class="margin" d="{whisker}"/>')
    elif line.low:
        upper = [f"{x(line.x[at]):.1f} {y(line.high[at]):.1f}" for at in kept]
        lower = [f"{x(line.x[at]):.1f} {y(line.low[at]):.1f}" for at in reversed(kept)]
        parts.append(f'<path class="band {line.tone}" d="M{"L".join([*upper, *lower])}Z"/>')
    shape = "guide" if line.tone == "guide" else f"line {line.tone}"
    parts.append(f'<path class="{shape}" d="M{"L".join(points)}"/>')
    if line.has_points:
        parts += [
            f'<circle class="{line.tone}" cx="{x(line.x[at]):.1f}" cy="{y(line.y[at]):.1f}" r="3.5"/>' for at in kept
        ]
    return parts
