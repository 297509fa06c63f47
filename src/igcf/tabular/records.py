"""Lines of JSON and Parquet files of the same columns: read as records, turned into each other, changed."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from igcf.tabular.engine import Session, as_file, identifier, literal, plain_path, session
from igcf.tabular.parquet import SOURCE

Types = Mapping[str, str]
"""Names and types of columns, as the database calls them; all of them are constants of a program."""


def read_lines(content: bytes, types: Types) -> list[dict[str, Any]]:
    """Read lines of JSON; what a line does not have is None, and what is not in `types` is left out."""
    with _lines(content, types) as opened:
        return _records(types, opened.rows("SELECT * FROM lines"))


def lines_to_parquet(content: bytes, types: Types, path: Path, order: Sequence[str]) -> None:
    """Write lines of JSON as a Parquet file, sorted by some columns."""
    with _lines(content, types) as opened:
        sort = ", ".join((*map(identifier, order), "rowid"))
        opened.write(f"SELECT * FROM lines ORDER BY {sort}", path)


@contextmanager
def _lines(content: bytes, types: Types) -> Iterator[Session]:
    with as_file(content) as path, session() as opened:
        columns = ", ".join(f"{identifier(name)}: {literal(kind)}" for name, kind in types.items())
        read = f"read_json(?, columns = {{{columns}}}, format = 'newline_delimited', compression = 'uncompressed')"
        if content:
            opened.rows(f"CREATE TEMP TABLE lines AS SELECT * FROM {read}", plain_path(path))
        else:
            empty = ", ".join(f"{identifier(name)} {kind}" for name, kind in types.items())
            opened.rows(f"CREATE TEMP TABLE lines ({empty})")
        yield opened


def count_equal(path: Path, name: str, value: str) -> tuple[int, int]:
    """Count the rows of a Parquet file that have a value in a column, and all rows; only this column is read."""
    with session() as opened:
        query = f"SELECT count(*) FILTER ({identifier(name)} = ?), count(*) FROM {SOURCE}"
        ((n_equal, n_rows),) = opened.rows(query, value, plain_path(path))
        return int(n_equal), int(n_rows)


def changed_copy(path: Path, out: Path, name: str, value: str, becomes: str | None) -> None:
    """Copy a Parquet file with another value in the place of one, or without the rows that have it."""
    column = identifier(name)
    with session() as opened:
        opened.rows(f"CREATE TEMP TABLE kept AS SELECT * FROM {SOURCE}", plain_path(path))
        if becomes is None:
            opened.rows(f"DELETE FROM kept WHERE {column} = ?", value)
        else:
            opened.rows(f"UPDATE kept SET {column} = ? WHERE {column} = ?", becomes, value)
        opened.write("SELECT * FROM kept ORDER BY rowid", out)


def _records(types: Types, rows: Sequence[tuple[Any, ...]]) -> list[dict[str, Any]]:
    return [dict(zip(types, row, strict=True)) for row in rows]
