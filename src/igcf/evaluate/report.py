"""Everything about an experiment in one folder: a self-contained page, tables, and what was shown."""

import html
import json
from importlib.resources import files
from pathlib import Path
from typing import Any

from igcf.data import Interactions
from igcf.errors import IgcfError
from igcf.evaluate.paper import printed
from igcf.evaluate.reproduce import side_by_side, side_by_side_tables
from igcf.evaluate.results import Results
from igcf.evaluate.shown import write_shown
from igcf.evaluate.tables import results_tables
from igcf.evaluate.tuned_settings import settings_document
from igcf.evaluate.verdict import verdict
from igcf.tables import Table, as_latex, as_markdown
from igcf.version import __version__

AS_TEXT: dict[str, Any] = {"indent": 2, "allow_nan": False}


def write_results(results: Results, data: Interactions, folder: Path) -> None:
    """Write `report.html`, `results.json`, `results.md`, `results.tex` and `shown.parquet` (with its two helpers).

    After a search also `settings.json`, which is `settings/<dataset>.json` of this package with what was found.
    """
    from igcf.evaluate.plots import figures

    tables = results_tables(results)
    if printed(results.setup.protocol, results.setup.dataset):
        tables += side_by_side_tables(results)
    texts = {
        "results.json": json.dumps(results_document(results) | {"paper": side_by_side(results)}, **AS_TEXT),
        "results.md": "\n".join([f"{verdict(results).sentence}\n", *map(as_markdown, tables)]),
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


def results_document(results: Results) -> dict[str, Any]:
    """Return the JSON document of an experiment, with the verdict."""
    return results.as_dict() | {"verdict": verdict(results).as_dict()}


def write_tables(folder: Path, document: dict[str, Any], tables: list[Table]) -> None:
    """Write `results.json`, `results.md` and `results.tex` of a protocol that has figures of its own."""
    texts = {
        "results.json": json.dumps(document, indent=2, allow_nan=False),
        "results.md": "\n".join(as_markdown(table) for table in tables),
        "results.tex": "\n".join(as_latex(table) for table in tables),
    }
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in texts.items():
            (folder / name).write_text(text)
    except OSError as error:
        raise IgcfError(f"cannot write the report to {folder}: {error.strerror or error}") from error


def page(results: Results, tables: list[Table], figures: dict[str, str]) -> str:
    """Write one HTML page that needs no other file."""
    setup = results.setup
    title = f"{setup.dataset}, {setup.protocol}"
    parts = [
        f"<h1>{html.escape(verdict(results).sentence)}</h1>",
        f"<p>{html.escape(title)}. igcf {__version__}. A reaction of at least {setup.satisfied:g} is a success. ",
        "Every choice of a setting was made on validation users.</p>",
    ]
    if results.command:
        parts.append(f"<pre>{html.escape(results.command)}</pre>")
    parts += [_panel(table.title, _table(table)) for table in tables]
    parts += [_panel(caption, f"<figure>{svg}</figure>") for caption, svg in figures.items()]
    settings = {row.method: dict(row.outcome.settings) for row in results.rows}
    parts.append(_panel("Settings", f"<pre>{html.escape(json.dumps(settings, indent=1))}</pre>"))
    style = files("igcf.evaluate").joinpath("report.css").read_text(encoding="utf-8")
    head = f"<meta charset=utf-8><title>{html.escape(title)}</title><style>{style}</style>"
    body = f"<main>{''.join(parts)}</main>"
    return f"<!doctype html><html lang=en><head>{head}</head><body>{body}</body></html>"


def _panel(title: str, content: str) -> str:
    return f"<section><h2>{html.escape(title)}</h2>{content}</section>"


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
