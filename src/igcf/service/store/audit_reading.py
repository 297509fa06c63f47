"""Reading the files of an audit: journals, whose lines are JSON, and Parquet files of the same columns."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeAlias

from igcf.errors import StoreError

JOURNAL, TABLE = ".jsonl", ".parquet"
Answer: TypeAlias = dict[str, Any]
"""One answer: the columns of the audit by name; its items are dictionaries."""

ITEM = (
    "STRUCT(item VARCHAR, score DOUBLE, mean DOUBLE, std DOUBLE, chance DOUBLE, mean_rank BIGINT, reason VARCHAR, "
    "propensity DOUBLE)"
)
COLUMNS = {
    "recommendation_id": "VARCHAR",
    "user_id": "VARCHAR",
    "model": "VARCHAR",
    "revision": "BIGINT",
    "policy": "VARCHAR",
    "propensity": "VARCHAR",
    "items": f"{ITEM}[]",
    "time": "DOUBLE",
}
"""Columns of the audit and their types."""


def read_answers_of(path: Path) -> list[Answer]:
    """Read the answers in one file; refuses one that is damaged or of another kind."""
    from igcf.tabular.parquet import ParquetFile
    from igcf.tabular.records import read_lines

    with readable(path):
        if path.suffix == JOURNAL:
            return read_lines(whole_lines(path.read_bytes()), COLUMNS)
        path.stat()  # DuckDB would say in other words that there is none
        file = ParquetFile(path)
        if file.types == COLUMNS:
            return [dict(zip(COLUMNS, row, strict=True)) for row in file.rows()]
    raise StoreError(f"{path} is no file of an audit: it has other columns; move it out of the folder")


@contextmanager
def readable(path: Path) -> Iterator[None]:
    """Say of what cannot be read which file it is, and what to do."""
    from igcf.tabular.engine import TableFileError

    try:
        yield
    except TableFileError as error:
        raise StoreError(f"{path} of the audit is damaged: {error}; move it out of the folder") from error


def whole_lines(journal: bytes) -> bytes:
    """Return a journal without what a crash left of a last line, which is no answer."""
    return journal[: journal.rfind(b"\n") + 1]
