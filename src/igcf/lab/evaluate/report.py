"""Everything about an experiment in one folder: a self-contained page, tables, and what was shown."""

import json
from pathlib import Path
from typing import Any

from igcf.data import Interactions
from igcf.lab.evaluate.paper import printed
from igcf.lab.evaluate.plots import ends, main_curve, ways
from igcf.lab.evaluate.reproduce import side_by_side, side_by_side_tables
from igcf.lab.evaluate.results import Results
from igcf.lab.evaluate.shown import write_shown
from igcf.lab.evaluate.tables import results_tables
from igcf.lab.evaluate.tuned_settings import settings_document
from igcf.lab.evaluate.verdict import verdict
from igcf.pages import folded, html_table, multiples, preformatted, report_page, section, terms
from igcf.tables import Table, as_latex, as_markdown
from igcf.version import __version__

AS_TEXT: dict[str, Any] = {"indent": 2, "allow_nan": False}


def write_results(results: Results, data: Interactions, folder: Path) -> None:
    """Write `report.html`, `results.json`, `results.md`, `results.tex` and `shown.parquet` (with its two helpers).

    After a search also `settings.json`, which is `settings/<dataset>.json` of this package with what was found.
    """
    has_paper = printed(results.setup.protocol.name, results.setup.dataset)
    beside = side_by_side_tables(results) if has_paper else []
    tables = [*results_tables(results), *beside]
    texts = {
        "results.json": json.dumps(results_document(results) | {"paper": side_by_side(results)}, **AS_TEXT),
        "results.md": "\n".join([f"{verdict(results).sentence}\n", *map(as_markdown, tables)]),
        "results.tex": "\n".join(as_latex(table) for table in tables),
        "report.html": page(results, [*results_tables(results, is_short=True), *beside]),
    }
    if results.tuning:
        document = settings_document(results.setup.dataset, results.setup.protocol.name, results.tuning)
        texts["settings.json"] = json.dumps(document, indent=2, allow_nan=False) + "\n"
    for name, text in texts.items():
        part = folder / f".{name}.part"
        part.write_text(text)
        part.replace(folder / name)
    write_shown(results, data, folder)


def results_document(results: Results) -> dict[str, Any]:
    """Return the JSON document of an experiment, with the verdict."""
    return results.as_dict() | {"verdict": verdict(results).as_dict()}


WORDS = {
    "satisfied item": "A shown item to which the user reacted with at least the value that counts as a success. An "
    "item that is not in the user's log brings no reaction, so the counts are lower bounds.",
    "P@T, precision": "Satisfied items in the first T rounds, a mean over test users.",
    "R@T, recall": "The same as a share of all items that would have satisfied the user.",
    "share": "The same as a share of what was shown.",
    "nDCG": "Satisfied items weighted by their place in the list, as a share of the best order; 1 is perfect.",
    "MRR": "Mean of 1 / place of the first hidden item.",
    "coverage": "Share of the catalogue that was shown to anybody.",
    "novelty": "How unpopular the shown items are; 0 would be only what everybody knows.",
    "whiskers, bands, ±": "In charts a 95 % confidence interval over users, in tables the standard deviation of seeds.",
    "effect": "From -1 to 1: 1 if every user is better off with the method, -1 if none is.",
    "p": "How likely a difference of this size would be by chance, corrected for the number of comparisons (Holm); "
    "below 0.05 it is marked with a star, otherwise the two are a tie.",
    "fit s, online s": "Seconds of training, and of all sessions with users.",
}


def page(results: Results, tables: list[Table]) -> str:
    """Write one HTML page that needs no other file: the conclusion, its picture, and then the details."""
    setup = results.setup
    curves = [main_curve(results, session) for session in results.sessions]
    what = {"precision": "Satisfied items", "ndcg": "nDCG"}[curves[0]]
    intro = (
        f"{setup.dataset}, {setup.protocol.name}; {results.n_users} test users, {results.n_items} items; igcf "
        f"{__version__}. A reaction of at least {setup.satisfied:g} is a success. "
        "Every choice of a setting was made on validation users."
    )
    settings = {row.method: dict(row.outcome.settings) for row in results.rows}
    command = preformatted(results.command) if results.command else ""
    parts = [
        section(f"{what} per user in the end", multiples(ends(results)), "Whiskers: 95 % confidence over users."),
        section(f"{what} by {setup.protocol.axis}", multiples(ways(results))),
        section("Recall: the share of what would have satisfied the user", multiples(ways(results, "recall"))),
        *(section(table.title, html_table(table)) for table in tables),
        section("The words", terms(WORDS)),
        folded("Command and settings", command + preformatted(json.dumps(settings, indent=1))),
    ]
    return report_page(f"{setup.dataset}, {setup.protocol.name}", verdict(results).sentence, intro, parts)
