"""Small HTML tables that notebooks show in place of a `repr`: escaped, and without scripts or styles."""

from collections.abc import Iterable, Sequence
from html import escape
from math import isnan

MOST_ROWS = 20


def html_card(title: str, header: Sequence[str], rows: Iterable[Sequence[object]], n_more: int = 0) -> str:
    """Write a titled table; numbers with three digits that matter, and a line for `n_more` rows that are left out."""
    head = "".join(f"<th>{escape(name)}</th>" for name in header)
    body = "".join(f"<tr>{''.join(f'<td>{escape(_text(cell))}</td>' for cell in row)}</tr>" for row in rows)
    more = f"<p>and {n_more:,} more</p>" if n_more > 0 else ""
    return f"<div><b>{escape(title)}</b><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{more}</div>"


def percent(chance: float, low: float, high: float) -> str:
    """Write a chance with its interval; nothing where it is not known."""
    return "" if isnan(chance) else f"{chance:.0%} ({low:.0%} to {high:.0%})"


def _text(cell: object) -> str:
    return f"{cell:.3g}" if isinstance(cell, float) else "" if cell is None else str(cell)
