"""Reads tables from text files, every column as text; the one place that knows separators, headers and gzip."""

import gzip
from collections.abc import Sequence
from io import BytesIO
from pathlib import Path

import polars as pl

from igcf.data.columns import Columns
from igcf.errors import DataError

GZIP_MAGIC = b"\x1f\x8b"
SEPARATORS = {",": "a comma", ";": "a semicolon", "\t": "a tab", "|": "a bar"}
"""Characters that may stand between columns, and their names."""
ENDINGS = {".csv": ",", ".csv.gz": ",", ".tsv": "\t", ".tsv.gz": "\t"}
"""Endings of text tables, and the character between their columns."""
PARQUET_ENDINGS = (".parquet", ".pq")


def is_parquet(path: Path) -> bool:
    """Tell whether a path is read as Parquet: a file with such an ending, or a folder."""
    return path.is_dir() or path.name.lower().endswith(PARQUET_ENDINGS)


def separator_of(path: Path) -> str | None:
    """Return the separator that the ending of a text table tells; None where the ending is unknown."""
    return next((sign for ending, sign in ENDINGS.items() if path.name.lower().endswith(ending)), None)


def csv_frame(path: Path, columns: Columns, *, separator: str = ",") -> pl.DataFrame:
    """Read the named columns of a CSV file as text; all columns but no rows where a named one is missing.

    As text an id such as `007` keeps its zeros, and a bad value can be shown as it stands.
    """
    check_readable(path)
    header = text_table(path, str(path), separator=separator, n_rows=0)
    _check_separator(path, header.columns, separator)
    if not set(columns.required()) <= set(header.columns):
        return header
    wanted = [name for name in header.columns if name in (*columns.required(), "timestamp")]
    return text_table(path, str(path), separator=separator, wanted=wanted)


def text_table(
    content: Path | bytes,
    source: str,
    *,
    separator: str = ",",
    names: Sequence[str] | None = None,
    wanted: Sequence[str] | None = None,
    n_rows: int | None = None,
) -> pl.DataFrame:
    """Read a table, every column as text.

    Args:
        content: The file, or what it holds.
        source: Name of the file in error messages.
        separator: Character between two columns.
        names: Names of the columns of a table without header, quotes having no meaning; None: there is a header. Rows
            may have fewer columns, but at least three.
        wanted: Names of the columns to return; None: all.
        n_rows: Number of rows to read; None: all.
    """
    try:
        frame = pl.read_csv(
            BytesIO(content) if isinstance(content, bytes) else content,
            separator=separator,
            has_header=names is None,
            quote_char='"' if names is None else None,
            columns=None if wanted is None else list(wanted),
            infer_schema=False,
            n_rows=n_rows,
        )
    except (pl.exceptions.PolarsError, OSError, UnicodeDecodeError) as error:
        expected = "" if names is None else f"; expected {', '.join(names)} in each row"
        raise DataError(f"{source} cannot be read as CSV: {first_line(error)}{expected}") from error
    if names is None:
        return frame
    if len(frame.columns) < 3:
        raise DataError(f"{source} has {len(frame.columns)} columns; expected {', '.join(names)}")
    return frame.rename(dict(zip(frame.columns, names, strict=False)))


def check_readable(path: Path, *, text: bool = True) -> None:
    """Raise where a file is missing, a folder, empty or, for text, binary."""
    if not path.exists():
        raise DataError(f"no file at {path}")
    if path.is_dir():
        raise DataError(f"{path} is a folder; expected a file")
    try:
        with path.open("rb") as file:
            head = file.read(4096)
        if text and head[:2] == GZIP_MAGIC:
            with gzip.open(path) as unpacked:
                head = unpacked.read(4096)
    except (OSError, EOFError) as error:
        raise DataError(f"{path} cannot be read: {first_line(error)}") from error
    if not head.strip():
        raise DataError(f"{path} is empty; expected a header and one row per reaction")
    if text and b"\0" in head:
        raise DataError(f"{path} is not a text file; expected CSV, or a name that ends in .parquet")


def first_line(error: Exception) -> str:
    """Return the first line of an error's message, or its class where there is none."""
    return str(error).strip().split("\n")[0] or type(error).__name__


def _check_separator(path: Path, header: list[str], separator: str) -> None:
    other = next((sign for sign in SEPARATORS if sign in header[0] and sign != separator), None)
    if len(header) == 1 and other is not None:
        raise DataError(
            f"{path} has one column, {header[0]!r}, when split at {separator!r}; "
            f"the header holds {SEPARATORS[other]}, so try separator={other!r}"
        )
