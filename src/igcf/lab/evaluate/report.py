"""Everything about an experiment in one folder: a self-contained page with charts, tables, and what was shown."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from igcf.arrays import FloatArray
from igcf.charts import Bar, Line, Tone, bar_chart, line_chart
from igcf.data import Interactions
from igcf.lab.evaluate.paper import printed, side_by_side, side_by_side_tables
from igcf.lab.evaluate.protocols import Session
from igcf.lab.evaluate.results import Results, by_user
from igcf.lab.evaluate.tables import results_tables, verdict
from igcf.lab.evaluate.tuned_settings import settings_document
from igcf.pages import folded, html_table, multiples, preformatted, report_page, section, terms
from igcf.tables import Table, as_latex, as_markdown, with_margin
from igcf.version import __version__

NORMAL_95 = 1.96
Moments = dict[str, tuple[FloatArray, FloatArray]]
"""Mean over users and half of its 95 % interval per round, by method."""
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
    "nDCG": "Satisfied items weighted by their rank, as a share of the best order; 1 is perfect.",
    "MRR": "Mean of 1 / rank of the first hidden item that was recommended.",
    "coverage": "Share of the catalogue that was shown to anybody.",
    "novelty": "How unpopular the shown items are; 0 would be only what everybody knows.",
    "whiskers, bands, ±": "In charts a 95 % confidence interval over users, in tables the standard deviation of seeds.",
    "light, medium, heavy": "Users by their number of reactions. Of those who can be tested, light users are the half "
    "with the fewest, heavy users the most active tenth, and medium users all between.",
    "effect": "From -1 to 1: 1 if every user gains from the method, -1 if every user loses.",
    "p": "How likely a difference of at least this size would be by chance, corrected for the number of comparisons "
    "(Holm); below 0.05 it is marked with a star, otherwise the two methods tie.",
    "fit s, online s": "Seconds of training, and of all sessions with users.",
}


def page(results: Results, tables: list[Table]) -> str:
    """Write one HTML page that needs no other file: the conclusion, its picture, and then the details."""
    setup = results.setup
    what = {"precision": "Satisfied items", "ndcg": "nDCG"}[setup.protocol.target(results.sessions[0])[0]]
    intro = (
        f"{setup.dataset}, {setup.protocol.name}; {results.n_users} test users, {results.n_items} items; igcf "
        f"{__version__}. A reaction of at least {setup.satisfied:g} is a success. "
        "Every choice of a setting was made on validation users."
    )
    settings = {row.method: dict(row.outcome.settings) for row in results.rows}
    command = preformatted(results.command) if results.command else ""
    parts = [
        section(f"{what} per user in the end", charts(results, _ends), "Whiskers: 95 % confidence over users."),
        section(f"{what} by {setup.protocol.axis}", charts(results, _ways)),
        section("Recall: the share of what would have satisfied the user", charts(results, _ways, "recall")),
        *(section(table.title, html_table(table)) for table in tables),
        section("The words", terms(WORDS)),
        folded("Command and settings", command + preformatted(json.dumps(settings, indent=1))),
    ]
    return report_page(f"{setup.dataset}, {setup.protocol.name}", verdict(results).sentence, intro, parts)


def charts(results: Results, draw: Callable[..., str], curve: str | None = None) -> str:
    """Draw a chart per session; `curve` is what the methods are compared by unless given."""
    found, setup = {}, results.setup
    for session in results.sessions:
        which, name = curve or setup.protocol.target(session)[0], f"{setup.dataset}, {setup.protocol.shape(session)}"
        found[name] = draw(_moments(results, session, which), which, name, setup.protocol.axis)
    return multiples(found)


def _moments(results: Results, session: Session, curve: str) -> Moments:
    """Return mean over users and half of its 95 % interval per round, the method that ended best first."""
    found = {}
    for method in results.methods:
        runs = by_user(results.rows_of(method, session), curve).values()
        users = np.array([np.mean(each, axis=0) for each in runs])
        users = users[~np.isnan(users).any(axis=1)]
        if len(users):
            found[method] = (users.mean(axis=0), NORMAL_95 * users.std(axis=0) / np.sqrt(len(users)))
    return dict(sorted(found.items(), key=lambda each: -each[1][0][-1]))


def _tone(place: int) -> Tone:
    return "first" if place == 0 else "second" if place == 1 else "other"


def _ends(moments: Moments, curve: str, name: str, axis: str) -> str:
    """Draw what each method reached in the end, the best first."""
    bars = []
    for place, (method, (mean, half)) in enumerate(moments.items()):
        value, around = float(mean[-1]), float(half[-1])
        text = with_margin(value, around)
        bars.append(Bar(method, value, text, _tone(place), value - around, value + around))
    return bar_chart(bars, f"{curve} in the end, {name}")


def _ways(moments: Moments, curve: str, name: str, axis: str) -> str:
    """Draw how a metric grew."""
    lines = []
    for place, (method, (mean, half)) in enumerate(moments.items()):
        low, high = (mean - half).tolist(), (mean + half).tolist()
        lines.append(Line(method, list(range(1, len(mean) + 1)), mean.tolist(), _tone(place), low, high))
    return line_chart(lines, f"{curve}, {name}", axis)


def write_shown(results: Results, data: Interactions, folder: Path) -> None:
    """Write `shown.parquet`, one row per item shown, and what recall and novelty are relative to.

    `reward` is the value in the units of the log, 0 where there was no reaction. `users.parquet` holds how many items
    satisfy each user, `items.parquet` the share of the training users who reacted to each item.
    """
    shown, users, items = [], {}, {}
    item_ids = np.array(data.item_ids)
    for row in results.rows:
        each = row.outcome
        user, t, slot = (part.ravel() for part in np.indices(each.shown.rows.shape))
        values, seed = each.shown.values.ravel(), pl.lit(each.seed, pl.Int64).alias("seed")
        columns = {
            "user_id": np.array(each.user_ids)[user],
            "round": (t + 1).astype(np.int32),
            "slot": (slot + 1).astype(np.int32),
            "item_id": item_ids[each.shown.rows.ravel()],
            "reward": np.nan_to_num(values),
            "satisfied": values >= results.setup.satisfied,
        }
        labels = (pl.lit(each.label).alias("method"), seed, pl.lit(each.session.slate, pl.Int32).alias("slate"))
        shown.append(pl.DataFrame(columns).select(*labels, pl.all()))
        satisfied = {"user_id": each.user_ids, "satisfied_items": each.n_satisfied.astype(int)}
        users[each.seed] = pl.DataFrame(satisfied).select(seed, pl.all())
        items[each.seed] = pl.DataFrame({"item_id": item_ids, "share": each.item_shares}).select(seed, pl.all())
    for name, frames in (("shown", shown), ("users", list(users.values())), ("items", list(items.values()))):
        part = folder / f".{name}.parquet.part"
        pl.concat(frames).write_parquet(part)
        part.replace(folder / f"{name}.parquet")
