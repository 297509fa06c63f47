"""Check a log and say everything that is wrong with it at once: what, how often, in which rows."""

import shlex
from collections.abc import Iterator
from pathlib import Path

from igcf.data.columns import Columns
from igcf.data.findings import Defect, Findings, Report
from igcf.data.interactions import Interactions
from igcf.data.items import read_items
from igcf.data.layout import LogLayout
from igcf.data.log_files import LogFiles
from igcf.data.reading import read_files
from igcf.data.success import Success, success_in
from igcf.errors import DataError


def validate(
    path: str | Path,
    columns: Columns | None = None,
    *,
    satisfied: float | None = None,
    items: str | Path | None = None,
) -> Report:
    """Read a log and report every defect with the numbers of its first rows, counted from 1 after the header.

    Args:
        path: a text file (`.csv`, `.tsv`, `.dat`, `.txt`, also compressed), a Parquet file, or a folder of those.
        columns: how the log is read; what is left out is found.
        satisfied: smallest value of a success; None: chosen from the values (`what_is_a_success`).
        items: a table of the items, to be checked beside the log.
    """
    findings, layout = Findings(is_strict=False), None
    try:
        layout = LogFiles(Path(path), columns or Columns()).layout
        log = read_files(Path(path), columns, findings)
        if items is not None:
            log = read_items(items).describe(log)
    except DataError as error:
        defects = (Defect(error.kind, str(error), 1, error.rows), *findings.defects)
        return Report(str(path), 0, 0, 0, defects, layout)
    try:
        success = success_in(log, satisfied)
    except DataError as error:
        findings.add("no-success", str(error), len(log))
        success = None
    return report_of(log, success, str(path), findings=findings)


def report_of(log: Interactions, success: Success | None, name: str, *, findings: Findings | None = None) -> Report:
    """Report how a log was understood: the same for `validate` and for whatever else reads it."""
    collected = Findings(is_strict=False)
    for defect in dict.fromkeys((*log.defects, *(findings.defects if findings else ()))):
        collected.add(defect.kind, defect.message, defect.count, defect.rows)
    for kind, message in () if log.layout is None else _guessed_columns(log.layout):
        collected.add(kind, message, 1)
    if success is not None and success.warning:
        collected.add("few-successes", success.warning, success.n_successes)
    size = log.source_size or (len(log) + log.n_duplicates, log.n_users, log.n_items)
    return Report(name, *size, collected.defects, log.layout, success, log.notes)


def _guessed_columns(layout: LogLayout) -> Iterator[tuple[str, str]]:
    for name, role in ((layout.user, "user"), (layout.item, "item")):
        if name in layout.guessed:
            message = f"{name!r} was taken for the {role}s by its place alone; if that is wrong, say which with {role}="
            yield "guessed-column", message
    perhaps = {"value": layout.perhaps_value, "timestamp": layout.perhaps_timestamp}
    for role, column in perhaps.items():
        if column is not None:
            message = (
                f"{column!r} is not used and looks like {role}s; if it holds them, say {role}= {shlex.quote(column)}"
            )
            yield "perhaps-column", message
