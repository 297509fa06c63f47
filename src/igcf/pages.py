"""Reports as HTML: one file that needs no other, conclusion first, what only few read folded."""

import html
import re
from collections.abc import Mapping, Sequence
from importlib.resources import files

from igcf.charts import chart_style
from igcf.tables import Table


def report_page(title: str, conclusion: str, intro: str, parts: Sequence[str]) -> str:
    """Write a page that begins with its conclusion; `parts` are sections as the functions below make them."""
    style = chart_style() + files("igcf").joinpath("report.css").read_text(encoding="utf-8")
    view = '<meta name=viewport content="width=device-width, initial-scale=1">'
    head = f"<meta charset=utf-8>{view}<title>{html.escape(title)}</title><style>{style}</style>"
    names = re.sub(r"\w+(?:-\w+)+", r"<span>\g<0></span>", html.escape(conclusion))  # not broken at their hyphens
    first = f"<h1>{names}</h1><p>{html.escape(intro)}</p>"
    body = f"<main>{first}{''.join(parts)}</main>"
    return f"<!doctype html><html lang=en><head>{head}</head><body>{body}</body></html>"


def section(title: str, content: str, note: str = "") -> str:
    """Write a panel with its heading, a note in words and the content, which is HTML."""
    paragraph = f"<p>{html.escape(note)}</p>" if note else ""
    return f"<section><h2>{html.escape(title)}</h2>{paragraph}{content}</section>"


def folded(title: str, content: str) -> str:
    """Write a panel that is closed until it is asked for."""
    return f"<details><summary>{html.escape(title)}</summary>{content}</details>"


def multiples(charts: Mapping[str, str]) -> str:
    """Write charts side by side, each under its name; a single one takes the whole width."""
    names = {name: f"<h3>{html.escape(name)}</h3>" if len(charts) > 1 else "" for name in charts}
    parts = "".join(f"<div>{names[name]}{chart}</div>" for name, chart in charts.items())
    return f"<figure class=multiples>{parts}</figure>"


def html_table(table: Table) -> str:
    """Write a table, which moves sideways where it is wider than the page."""
    head = "".join(f"<th scope=col>{html.escape(name)}</th>" for name in table.header)
    marks = dict.fromkeys(table.best, " class=best")
    rows = (
        "".join(f"<td{marks.get((number, at), '')}>{html.escape(cell)}</td>" for at, cell in enumerate(row))
        for number, row in enumerate(table.rows)
    )
    body, label = "".join(f"<tr>{cells}</tr>" for cells in rows), html.escape(table.title)
    return (
        f'<div class=wide-content role=region tabindex=0 aria-label="{label}">'
        f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def preformatted(text: str) -> str:
    """Write text as it is."""
    return f"<pre tabindex=0>{html.escape(text)}</pre>"


def terms(words: Mapping[str, str]) -> str:
    """Write words with what they mean."""
    return f"<dl>{''.join(f'<dt>{html.escape(k)}</dt><dd>{html.escape(v)}</dd>' for k, v in words.items())}</dl>"
