"""Tables of text: Markdown for documents, LaTeX for papers, rich for the terminal, HTML for notebooks."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from math import floor, isnan, log10
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table as RichTable

MOST_ROWS = 20
"""Rows of a table that a notebook shows."""
LATEX_ESCAPES = str.maketrans({"&": r"\&", "%": r"\%", "_": r"\_", "±": r"$\pm$"})


@dataclass(frozen=True)
class Table:
    """A titled table of text cells; the first column names the row, the others are numbers."""

    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    best: frozenset[tuple[int, int]] = frozenset()
    """Places (row, column) of the cells that are shown in bold."""
    n_keys: int = 1
    """Number of columns that identify a row, repeated where a table is divided."""


def markdown_table(header: Sequence[str], rows: Iterable[Sequence[object]], *, align: str = "") -> str:
    """Write a Markdown table; `align` has one letter per column, `r` for right, and is `l` where it ends."""
    marks = ["--:" if side == "r" else "---" for side in align.ljust(len(header), "l")]
    lines = (f"| {' | '.join(map(str, cells))} |" for cells in (header, *rows))
    return "\n".join([next(lines), f"|{'|'.join(marks)}|", *lines])


def short_number(value: float) -> str:
    """Write a number with three digits that matter, from a hundred on as a whole number."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def with_margin(value: float, half: float) -> str:
    """Write a number and half of the interval around it, both to the second digit of the latter."""
    decimals = min(max(1 - floor(log10(half)), 0), 6) if half > 0 else 2
    return f"{value:,.{decimals}f} ± {half:,.{decimals}f}"


def as_markdown(table: Table) -> str:
    """Write a table with its title in Markdown, the best cells in bold."""
    rows = _emphasised(table, "**{}**")
    return f"**{table.title}**\n\n{markdown_table(table.header, rows, align='l' + 'r' * (len(table.header) - 1))}\n"


def as_latex(table: Table) -> str:
    """Write a table as a LaTeX tabular, the best cells in bold."""
    escaped = Table(table.title, _escaped(table.header), tuple(map(_escaped, table.rows)), table.best)
    lines = [" & ".join(row) + r" \\" for row in _emphasised(escaped, r"\textbf{{{}}}")]
    begin = rf"\begin{{tabular}}{{l{'r' * (len(table.header) - 1)}}}"
    head = [f"% {table.title}", begin, r"\hline", " & ".join(escaped.header) + r" \\", r"\hline"]
    return "\n".join([*head, *lines, r"\hline", r"\end{tabular}"]) + "\n"


def fitted(table: Table, width: int) -> list[Table]:
    """Divide a table into several of at most `width` characters as `as_rich` prints them; no cell is shortened."""
    widths = [max(map(len, column)) + 3 for column in zip(table.header, *table.rows, strict=True)]
    keys = list(range(table.n_keys))
    parts: list[list[int]] = [[]]
    for column in range(table.n_keys, len(table.header)):
        if parts[-1] and sum(widths[each] for each in (*keys, *parts[-1], column)) + 1 > width:
            parts.append([])
        parts[-1].append(column)
    return [_columns(table, [*keys, *part], table.title if part is parts[0] else "") for part in parts]


def _columns(table: Table, places: list[int], title: str) -> Table:
    best = frozenset((row, places.index(column)) for row, column in table.best if column in places)
    header, *rows = (tuple(row[place] for place in places) for row in (table.header, *table.rows))
    return Table(title, header, tuple(rows), best, table.n_keys)


def print_fitted(table: Table, console: "Console") -> None:
    """Print a table as wide as the console, divided where it is wider; a single column may be wider still."""
    for part in fitted(table, console.width):
        width = max(console.width, *(sum(map(len, row)) for row in part.rows), 1)
        console.print(as_rich(part), width=width, crop=False)


def as_rich(table: Table) -> "RichTable":
    """Build a table for the terminal, the best cells in bold."""
    from rich.table import Table as RichTable

    found = RichTable(title=table.title or None, title_justify="left")
    for number, name in enumerate(table.header):
        found.add_column(name, justify="left" if number < table.n_keys else "right", no_wrap=True)
    for row in _emphasised(table, "[bold]{}[/]"):
        found.add_row(*row)
    return found


def _emphasised(table: Table, bold: str) -> list[list[str]]:
    """Cells by row, those of `table.best` put into the pattern `bold`."""
    return [
        [bold.format(cell) if (number, column) in table.best else cell for column, cell in enumerate(row)]
        for number, row in enumerate(table.rows)
    ]


def _escaped(cells: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(cell.translate(LATEX_ESCAPES) for cell in cells)


def html_card(title: str, header: Sequence[str], rows: Iterable[Sequence[object]], n_more: int = 0) -> str:
    """Write a titled table; numbers with three digits that matter, and a line for `n_more` rows that are left out."""
    head = "".join(f"<th>{escape(name)}</th>" for name in header)
    body = "".join(f"<tr>{''.join(f'<td>{escape(_html_text(cell))}</td>' for cell in row)}</tr>" for row in rows)
    more = f"<p>and {n_more:,} more</p>" if n_more > 0 else ""
    return f"<div><b>{escape(title)}</b><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{more}</div>"


def percent(chance: float, low: float, high: float) -> str:
    """Write a chance with its interval; nothing where it is not known."""
    return "" if isnan(chance) else f"{chance:.0%} ({low:.0%} to {high:.0%})"


def _html_text(cell: object) -> str:
    return f"{cell:.3g}" if isinstance(cell, float) else "" if cell is None else str(cell)
