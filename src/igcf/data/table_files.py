"""Reads tables from text files, every column as text; the one place that knows separators, headers and gzip."""

import csv
import gzip
import re
import zlib
from collections.abc import Sequence
from dataclasses import replace
from io import BytesIO
from pathlib import Path

import polars as pl

from igcf.data.columns import Columns
from igcf.data.layout import SEPARATORS, LogLayout, find_layout, is_known_name
from igcf.errors import DataError

GZIP_MAGIC = b"\x1f\x8b"
ENDINGS = {".csv": ",", ".tsv": "\t", ".txt": None, ".dat": None, ".data": None}
"""Endings of text tables, also followed by `.gz`, and the separator that they promise where the rows do not tell."""
PARQUET_ENDINGS = (".parquet", ".pq")
DOUBLE_COLON, UNIT_SEPARATOR = b"::", b"\x1f"
SAMPLE_BYTES, SAMPLE_ROWS = 1 << 16, 50
"""How much of a text file is looked at to find its separator, header and columns."""
UNREADABLE = (OSError, EOFError, zlib.error)
"""What reading a file raises, also one whose compressed bytes are damaged."""
QUOTED = re.compile(r'"[^"]*"')


def is_parquet(path: Path) -> bool:
    """Tell whether a path is read as Parquet: a file with such an ending, or a folder."""
    return path.is_dir() or path.name.lower().endswith(PARQUET_ENDINGS)


def is_text_table(path: Path) -> bool:
    """Tell whether the ending of a path is that of a text table."""
    return _ending(path) in ENDINGS


def check_ending(path: Path) -> None:
    """Raise where the name of a path does not tell how it is read."""
    if not (is_parquet(path) or is_text_table(path)):
        known = ", ".join((*ENDINGS, ".parquet"))
        raise DataError(f"{path} has no known ending; expected one of {known}, or a folder of Parquet")


def csv_frame(path: Path, columns: Columns, *, separator: str | None = None) -> tuple[pl.DataFrame, LogLayout]:
    """Read the columns of a log from a text file, as text, and say which they are.

    As text an id such as `007` keeps its zeros, and a bad value can be shown as it stands.
    """
    sample, separator, has_header = text_sample(path, separator)
    layout = replace(find_layout(sample, columns, str(path)), separator=separator, has_header=has_header)
    wanted = [name for name in sample.columns if name in layout.wanted()]
    return text_table(path, str(path), separator=separator, wanted=wanted, has_header=has_header), layout


def text_sample(path: Path, separator: str | None = None) -> tuple[pl.DataFrame, str, bool]:
    """Return the first rows of a text file, its separator, and whether it has a header; without, columns are 1, 2 ...

    There is none where the first row holds a number and no common name of a column.
    """
    check_readable(path)
    lines = _first_lines(path)
    found = separator or _separator(lines) or ENDINGS.get(_ending(path)) or ","
    rows = [_cells(line, found) for line in lines]
    has_header = any(is_known_name(cell) for cell in rows[0]) or not any(map(_is_number, rows[0]))
    names = rows[0] if has_header else [str(place) for place in range(1, len(rows[0]) + 1)]
    other = next((sign for sign in SEPARATORS if sign in lines[0] and sign != found), None)
    if len(names) == 1 and other is not None:
        raise DataError(
            f"{path} has one column, {names[0]!r}, when split at {found!r}; "
            f"the first line holds a {SEPARATORS[other]}, so try separator={other!r}"
        )
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise DataError(f"{path} has two columns called {twice!r}; give every column a name of its own")
    body = [[*row, *[None] * len(names)][: len(names)] for row in (rows[1:] if has_header else rows)]
    cells = [[row[place] or None for row in body] for place in range(len(names))]
    sample = pl.DataFrame([pl.Series(name, each, dtype=pl.String) for name, each in zip(names, cells, strict=True)])
    return sample, found, has_header


def _ending(path: Path) -> str:
    name = path.name.lower().removesuffix(".gz")
    return Path(name).suffix


def _first_lines(path: Path) -> list[str]:
    content = _content(path, SAMPLE_BYTES)
    text = content.decode("utf-8-sig", errors="replace")
    lines = text.splitlines()
    if len(content) >= SAMPLE_BYTES:
        del lines[-1]  # it may be cut
    found = [line for line in lines if line.strip()][: SAMPLE_ROWS + 1]
    if not found and len(content) >= SAMPLE_BYTES:
        raise DataError(f"{path} has no line that ends within {SAMPLE_BYTES:,} bytes; expected one row per reaction")
    if not found:
        raise _empty(path)
    return found


def _separator(lines: list[str]) -> str | None:
    """Return the sign that divides all lines into equally many columns, the most of them; None where none does."""
    best: tuple[int, str] | None = None
    for sign in ("::", "\t", ";", ",", "|"):
        counts = {QUOTED.sub("", line).count(sign) for line in lines}
        if len(counts) == 1 and (n := counts.pop()) and (best is None or n > best[0]):
            best = (n, sign)
    if best is None:  # rows of unequal length: the header tells
        best = max(((lines[0].count(sign), sign) for sign in (",", "\t", ";", "|")), key=lambda each: each[0])
    return best[1] if best[0] else None


def _cells(line: str, separator: str) -> list[str]:
    if separator == "::":
        return line.split("::")
    return next(csv.reader([line], delimiter=separator))


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _content(path: Path, size: int = -1) -> bytes:
    """Return the first bytes of a file, or all; unpacked where it is gzipped."""
    try:
        with path.open("rb") as file:
            packed = file.read(2) == GZIP_MAGIC
        with gzip.open(path) if packed else path.open("rb") as file:
            return bytes(file.read(size))
    except UNREADABLE as error:
        raise DataError(f"{path} cannot be read: {first_line(error)}") from error


def text_table(
    content: Path | bytes,
    source: str,
    *,
    separator: str = ",",
    names: Sequence[str] | None = None,
    wanted: Sequence[str] | None = None,
    has_header: bool = True,
) -> pl.DataFrame:
    """Read a table, every column as text.

    Args:
        content: The file, or what it holds.
        source: Name of the file in error messages.
        separator: What stands between two columns: a character, or `::`, beside which quotes have no meaning.
        names: Names of the columns of a table without header, quotes having no meaning; None: there is a header. Rows
            may have fewer columns, but at least three.
        wanted: Names of the columns to return; None: all.
        has_header: Whether the first row holds the names; otherwise columns are called 1, 2, 3 ...
    """
    has_header = has_header and names is None
    has_quotes = names is None and separator != "::"
    if separator == "::":
        content = content if isinstance(content, bytes) else _content(content)
        content, separator = content.replace(DOUBLE_COLON, UNIT_SEPARATOR), UNIT_SEPARATOR.decode()
    places = None if wanted is None or has_header else sorted(int(name) - 1 for name in wanted)
    try:
        frame = pl.read_csv(
            BytesIO(content) if isinstance(content, bytes) else content,
            separator=separator,
            has_header=has_header,
            quote_char='"' if has_quotes else None,
            columns=places if wanted is None or not has_header else list(wanted),
            infer_schema=False,
            glob=False,
        )
    except (pl.exceptions.PolarsError, OSError, UnicodeDecodeError) as error:
        expected = "" if names is None else f"; expected {', '.join(names)} in each row"
        raise DataError(f"{source} cannot be read as CSV: {first_line(error)}{expected}") from error
    if names is None:
        if not has_header:
            frame.columns = [str(place + 1) for place in (range(frame.width) if places is None else places)]
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
    if not path.is_file():
        raise DataError(f"{path} is a pipe or a device; expected a file, which is read more than once")
    try:
        with path.open("rb") as file:
            head = file.read(4096)
        if text and head[:2] == GZIP_MAGIC:
            with gzip.open(path) as unpacked:
                head = unpacked.read(4096)
    except UNREADABLE as error:
        raise DataError(f"{path} cannot be read: {first_line(error)}") from error
    if not head.strip():
        raise _empty(path)
    if text and b"\0" in head:
        raise DataError(f"{path} is not a text file; expected CSV, or a name that ends in .parquet")


def _empty(path: Path) -> DataError:
    return DataError(f"{path} is empty; expected a header and one row per reaction")


def first_line(error: Exception) -> str:
    """Return the first line of an error's message, or its class where there is none."""
    return str(error).strip().split("\n")[0] or type(error).__name__
