"""Reads tables from text files; the one place that knows separators, headers and gzip."""

import csv
import gzip
import re
from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path

from igcf.data.columns import Columns
from igcf.data.layout import SEPARATORS, LogLayout, find_layout, is_known_name
from igcf.errors import DataError
from igcf.tabular.columns import Table, column_of
from igcf.tabular.engine import TableFileError, as_file
from igcf.tabular.text_files import TextForm, read_text

GZIP_MAGIC = b"\x1f\x8b"
ENDINGS = {".csv": ",", ".tsv": "\t", ".txt": None, ".dat": None, ".data": None}
"""Endings of text tables, also followed by `.gz`, and the separator that they promise where the rows do not tell."""
PARQUET_ENDINGS = (".parquet", ".pq")
SAMPLE_BYTES, SAMPLE_ROWS = 1 << 16, 50
"""How much of a text file is looked at to find its separator, header and columns."""
QUOTED = re.compile(r'"[^"]*"')


def is_parquet(path: Path) -> bool:
    """Tell whether a path is read as Parquet: a file with such an ending, or a folder."""
    return path.is_dir() or path.name.lower().endswith(PARQUET_ENDINGS)


def is_text_table(path: Path) -> bool:
    """Tell whether the ending of a path is that of a text table."""
    return _ending(path) in ENDINGS


def csv_frame(path: Path, columns: Columns, *, separator: str | None = None) -> tuple[Table, LogLayout]:
    """Read the columns of a log from a text file, and say which they are.

    An id such as `007` keeps its zeros, and values and times of which one cannot be read stay text, to be shown.
    """
    sample, separator, has_header = text_sample(path, separator)
    layout = replace(find_layout(sample, columns, str(path)), separator=separator, has_header=has_header)
    form = TextForm(sample.names, separator, separator != "::")
    numbers, times = ((layout.value,) if layout.value else ()), ((layout.timestamp,) if layout.timestamp else ())
    return _table(path, str(path), form, layout.wanted(), has_header, numbers, times), layout


def text_sample(path: Path, separator: str | None = None) -> tuple[Table, str, bool]:
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
    return Table(column_of(name, each) for name, each in zip(names, cells, strict=True)), found, has_header


def _ending(path: Path) -> str:
    name = path.name.lower().removesuffix(".gz")
    return Path(name).suffix


def _first_lines(path: Path) -> list[str]:
    content = _content(path, SAMPLE_BYTES)
    text = content.decode("utf-8-sig", errors="replace")
    lines = text.splitlines()
    if len(content) >= SAMPLE_BYTES and len(lines) > 1:
        del lines[-1]  # it may be cut
    return [line for line in lines if line.strip()][: SAMPLE_ROWS + 1]


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


def _cells(line: str, separator: str, *, has_quotes: bool = True) -> list[str]:
    if separator == "::" or not has_quotes:
        return line.split(separator)
    return next(csv.reader([line], delimiter=separator))


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _is_packed(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(2) == GZIP_MAGIC


def _content(path: Path, size: int = -1) -> bytes:
    """Return the first bytes of a file, or all; unpacked where it is gzipped."""
    try:
        with gzip.open(path) if _is_packed(path) else path.open("rb") as file:
            return bytes(file.read(size))
    except (OSError, EOFError) as error:
        raise DataError(f"{path} cannot be read: {first_line(error)}") from error


def text_table(
    content: Path | bytes,
    source: str,
    *,
    separator: str = ",",
    names: Sequence[str] | None = None,
    wanted: Collection[str] | None = None,
    has_header: bool = True,
) -> Table:
    """Read a table.

    Args:
        content: The file, or what it holds.
        source: Name of the file in error messages.
        separator: What stands between two columns: a character, or `::`, beside which quotes have no meaning.
        names: Names of the columns of a table without header, quotes having no meaning; None: there is a header. Rows
            may have fewer columns, but at least three.
        wanted: Names of the columns to return; None: all.
        has_header: Whether the first row holds the names; otherwise columns are called 1, 2, 3 ...
    """
    if isinstance(content, bytes):
        with as_file(content) as path:
            return text_table(path, source, separator=separator, names=names, wanted=wanted, has_header=has_header)
    found = _cells(next(iter(_first_lines(content)), ""), separator, has_quotes=names is None)
    if names is not None:
        if len(found) < 3:
            raise DataError(f"{source} has {len(found)} columns; expected {', '.join(names)}")
        found = [*names, *map(str, range(len(names) + 1, len(found) + 1))][: len(found)]
    elif not has_header:
        found = [str(place) for place in range(1, len(found) + 1)]
    form = TextForm(found, separator, names is None and separator != "::")
    try:
        return _table(content, source, form, found if wanted is None else wanted, has_header and names is None)
    except DataError as error:
        raise error if names is None else DataError(f"{error}; expected {', '.join(names)} in each row") from error


def _table(
    path: Path,
    source: str,
    form: TextForm,
    wanted: Collection[str],
    has_header: bool,
    numbers: Collection[str] = (),
    times: Collection[str] = (),
) -> Table:
    """Read columns of a file, whose first line with something in it is the header, if it has one."""
    lines = _content(path, SAMPLE_BYTES).decode("utf-8-sig", errors="replace").splitlines()
    n_blank = next((number for number, line in enumerate(lines) if line.strip()), len(lines))
    form = replace(form, skipped=n_blank + has_header, is_packed=_is_packed(path))
    try:
        return read_text(path, form, wanted, numbers=numbers, times=times)
    except (TableFileError, OSError) as error:
        raise DataError(f"{source} cannot be read as CSV: {first_line(error)}") from error


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
