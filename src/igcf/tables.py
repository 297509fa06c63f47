"""Tables of text: Markdown for documents, LaTeX for papers, rich for the terminal."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.table import Table as RichTable

LATEX_ESCAPES = (("&", r"\&"), ("%", r"\%"), ("_", r"\_"), ("±", r"$\pm$"))


@dataclass(frozen=True)
class Table:
    """A titled table of text cells; the first column names the row, the others are numbers."""

    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    best: frozenset[tuple[int, int]] = frozenset()
    """Places (row, column) of the cells that are shown in bold."""


def markdown_table(header: Sequence[str], rows: Iterable[Sequence[object]], *, align: str = "") -> str:
    """Write a Markdown table; `align` has one letter per column, `r` for right, and is `l` where it ends."""
    marks = ["--:" if side == "r" else "---" for side in align.ljust(len(header), "l")]
    lines = (f"| {' | '.join(map(str, cells))} |" for cells in (header, *rows))
    return "\n".join([next(lines), f"|{'|'.join(marks)}|", *lines])


def short_number(value: float) -> str:
    """Write a number with three digits that matter, from a hundred on as a whole number."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


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


def as_rich(table: Table) -> "RichTable":
    """Build a table for the terminal, the best cells in bold."""
    from rich.table import Table as RichTable

    found = RichTable(title=table.title, title_justify="left")
    for number, name in enumerate(table.header):
        found.add_column(name, justify="left" if number == 0 else "right", no_wrap=True)
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
    for plain, escape in LATEX_ESCAPES:
        cells = tuple(cell.replace(plain, escape) for cell in cells)
    return cells
