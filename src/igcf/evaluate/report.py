"""Everything about an experiment in one folder: a self-contained page, tables, and what was shown."""

import html
import json
from pathlib import Path

from igcf.data import Interactions
from igcf.evaluate.chosen import settings_document
from igcf.evaluate.reproduce import side_by_side
from igcf.evaluate.results import Results
from igcf.evaluate.shown import write_shown
from igcf.evaluate.tables import Table, as_latex, as_markdown, results_tables
from igcf.version import __version__

STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 72rem; padding: 0 1rem; color: #1c2430; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.15rem; margin-top: 2.2rem; }
.wide { overflow-x: auto; } table { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: 0.9rem; }
th, td { padding: 0.25rem 0.7rem; text-align: right; border-bottom: 1px solid #dde3ea; white-space: nowrap; }
th:first-child, td:first-child { text-align: left; } td.best { font-weight: 700; }
pre { background: #f3f5f8; padding: 0.8rem; overflow-x: auto; font-size: 0.85rem; } figure { margin: 1rem 0; }
svg { max-width: 100%; height: auto; } .note { color: #5a6675; }
"""


def write_results(results: Results, data: Interactions, folder: Path) -> None:
    """Write `report.html`, `results.json`, `results.md`, `results.tex` and `shown.parquet` (with its two helpers).

    After a search also `settings.json`, which is `settings/<dataset>.json` of this package with what was found.
    """
    from igcf.evaluate.plots import figures

    tables = results_tables(results)
    texts = {
        "results.json": json.dumps(results.as_dict() | {"paper": side_by_side(results)}, indent=2, allow_nan=False),
        "results.md": "\n".join(as_markdown(table) for table in tables),
        "results.tex": "\n".join(as_latex(table) for table in tables),
        "report.html": page(results, tables, figures(results)),
    }
    if results.tuning:
        document = settings_document(results.setup.dataset, results.setup.protocol, results.tuning)
        texts["settings.json"] = json.dumps(document, indent=2, allow_nan=False) + "\n"
    for name, text in texts.items():
        part = folder / f".{name}.part"
        part.write_text(text)
        part.replace(folder / name)
    write_shown(results, data, folder)


def page(results: Results, tables: list[Table], figures: dict[str, str]) -> str:
    """One HTML page without any reference to the outside."""
    setup = results.setup
    title = f"{setup.dataset}, {setup.protocol}"
    parts = [
        f"<h1>{html.escape(title)}</h1>",
        f"<p class=note>igcf {__version__}. A reaction of at least {setup.satisfied:g}",
    ]
    parts.append(" is a success. Every choice of a setting was made on validation users.</p>")
    if results.command:
        parts.append(f"<pre>{html.escape(results.command)}</pre>")
    for table in tables:
        parts += [f"<h2>{html.escape(table.title)}</h2>", _table(table)]
    for caption, svg in figures.items():
        parts.append(f"<h2>{html.escape(caption)}</h2><figure>{svg}</figure>")
    settings = {row.method: dict(row.outcome.settings) for row in results.rows}
    parts.append(f"<h2>Settings</h2><pre>{html.escape(json.dumps(settings, indent=1))}</pre>")
    head = f"<meta charset=utf-8><title>{html.escape(title)}</title><style>{STYLE}</style>"
    return f"<!doctype html><html lang=en><head>{head}</head><body>{''.join(parts)}</body></html>"


def _table(table: Table) -> str:
    head = "".join(f"<th>{html.escape(name)}</th>" for name in table.header)
    body = "".join(
        "<tr>"
        + "".join(
            f"<td{' class=best' if (number, at) in table.best else ''}>{html.escape(cell)}</td>"
            for at, cell in enumerate(row)
        )
        + "</tr>"
        for number, row in enumerate(table.rows)
    )
    return f"<div class=wide><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
