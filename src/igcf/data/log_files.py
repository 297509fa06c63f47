"""The files of a log, text or Parquet, one or a folder of them: which columns to take, and their rows in pieces."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import numpy as np
import polars as pl

from igcf.data.columns import Columns, refuse_nested
from igcf.data.findings import Findings, Piece
from igcf.data.layout import LogLayout, find_layout, is_known_name
from igcf.data.text_tables import (
    ENDINGS,
    SAMPLE_ROWS,
    TextTable,
    check_readable,
    first_line,
    is_text_table,
)
from igcf.errors import DataError

PIECE_ROWS = 1 << 20
"""Number of rows of a Parquet file whose text is in memory at a time."""
PARQUET_ENDINGS = (".parquet", ".pq")
ODD_ROWS = {
    "escaped": ("escaped-quotes", "quotes inside a field, with or without a backslash, were read as part of it"),
    "stray": ("stray-quotes", "a quote that no other one closes was read as part of its field"),
    "several-lines": ("several-lines", "a quoted field spans lines: one row, of several lines of the file"),
    "short": ("short-row", "there are fewer columns than in the header; is the file complete?"),
}  # fmt: skip
"""Defects of rows that `TextTable` read otherwise than by the rules of CSV."""


def is_parquet(path: Path) -> bool:
    """Tell whether the ending of a path is that of a Parquet file."""
    return path.name.lower().endswith(PARQUET_ENDINGS)


@dataclass(frozen=True)
class LogFiles:
    """A text or Parquet file, or a folder of them, that is not read yet."""

    path: Path
    columns: Columns = field(default_factory=Columns)
    """How the columns are read."""
    items: Path | None = None
    """File with titles and categories of the items."""

    def files(self) -> "FilesOfLog":
        """Look at the names of the files, at their sizes, and at the first rows of the first one."""
        files = _found_files(self.path)
        if is_parquet(files[0]):
            layout = find_layout(_head(files[0], self.path, self.columns), self.columns, str(files[0]))
            sizes = [_n_rows(file) for file in files]
            if not sum(sizes):
                raise DataError(f"{self.path} has no rows; expected one row per reaction", kind="empty")
        else:
            table = TextTable(files[0], self.columns)
            layout = find_layout(table.sample, self.columns, str(files[0]))
            layout = replace(layout, separator=table.separator, has_header=table.has_header)
            sizes = [_most_rows(file) for file in files]
        starts = np.concatenate([[0], np.cumsum(sizes)]).tolist()
        return FilesOfLog(self.path, tuple(files), tuple(starts), layout, self.columns)


@dataclass(frozen=True)
class FilesOfLog:
    """Files of a log with the place of their first rows, and what their columns are."""

    root: Path
    files: tuple[Path, ...]
    starts: tuple[int, ...]
    """Number of rows in the files before each, and of all rows; for text files at least so many."""
    layout: LogLayout
    columns: Columns

    @property
    def kinds(self) -> Mapping[str, float]:
        """Value of each kind of feedback."""
        return self.columns.kinds

    def shares(self, n_workers: int) -> list[list[int]]:
        """Divide the numbers of the files among workers: the largest first, each to the one who has the fewest rows."""
        sizes = np.diff(self.starts)
        loads, shares = [0] * n_workers, [list[int]() for _ in range(n_workers)]
        for number in np.argsort(-sizes, kind="stable").tolist():
            least = int(np.argmin(loads))
            loads[least] += int(sizes[number])
            shares[least].append(number)
        return [sorted(share) for share in shares]

    def pieces(self, number: int, findings: Findings | None = None) -> Iterator[Piece]:
        """Yield some rows of a file at a time; note what is odd about the rows of a text file when they are read."""
        file = self.files[number]
        if is_parquet(file):
            for offset in range(0, max(self.starts[number + 1] - self.starts[number], 1), PIECE_ROWS):
                yield Piece(_parquet_piece(file, self.root, self.layout, offset), str(file), offset)
            return
        layout = self.layout
        alike = replace(self.columns, separator=layout.separator, has_header=layout.has_header)
        table = TextTable(file, alike if number else self.columns)
        wanted = self._present(table.names, file)
        told = _told_by_folders(file, self.root)
        place = 0
        for frame in table.frames([name for name in wanted if name not in told], ids=(layout.user, layout.item)):
            yield Piece(
                frame.with_columns(**{name: pl.lit(told[name]) for name in wanted if name in told}), str(file), place
            )
            place += len(frame)
        if findings is not None:
            note_table(table, findings)

    def _present(self, names: Sequence[str], file: Path) -> list[str]:
        known = [*names, *_told_by_folders(file, self.root)]
        _refuse_missing(self.layout, known, file)
        return [name for name in self.layout.wanted() if name in known]


def note_table(table: TextTable, findings: Findings) -> None:
    """Note what was odd about the rows of a text table, and about its header."""
    for how, (kind, message) in ODD_ROWS.items():
        if table.n_odd[how]:
            findings.add(kind, message, table.n_odd[how], table.odd_rows[how])
    if table.is_header_guessed:
        names = ", ".join(table.names)
        findings.add(
            "guessed-header",
            f"the first line ({names}) was taken for the header; if it is a row, pass --no-header",
            1,
        )
    if table.encoding is not None:
        findings.encodings.add(table.encoding)


def _found_files(path: Path) -> list[Path]:
    """Return the file itself, or all Parquet files below a folder, or else all text tables, in the order of names."""
    if not path.is_dir():
        if not (is_parquet(path) or is_text_table(path)):
            known = ", ".join((*ENDINGS, ".parquet"))
            raise DataError(f"{path} has no known ending; expected one of {known}, or a folder of such files")
        check_readable(path, text=not is_parquet(path))
        return [path]
    inside = sorted(file for file in path.rglob("*") if file.is_file())
    files = [file for file in inside if is_parquet(file)] or [file for file in inside if is_text_table(file)]
    if not files:
        raise DataError(f"{path} holds no .parquet file and no text table")
    return files


def _most_rows(file: Path) -> int:
    """Return a bound of the number of rows of a text file by its size: a row has four bytes or more."""
    factor = {".gz": 1_032, ".zst": 20_000}.get(file.suffix.lower(), 1)
    return file.stat().st_size * factor // 4 + 1


def _refuse_missing(layout: LogLayout, names: Sequence[str], file: Path) -> None:
    missing = [name for name in layout.wanted() if name not in names]
    if missing and missing != [layout.timestamp]:  # where times are missing is said later
        raise DataError(
            f"{file} has no column {', '.join(map(repr, missing))}; found {', '.join(repr(name) for name in names)}"
        )


def _parquet_piece(file: Path, root: Path, layout: LogLayout, offset: int) -> pl.DataFrame:
    """Return the columns of the layout, also those that a folder's name tells (`day=3/`)."""
    try:
        scan = _scan(file, root)
        found = scan.collect_schema().names()
        _refuse_missing(layout, found, file)
        present = [name for name in found if name in layout.wanted()]
        piece = scan.select(present).slice(offset, PIECE_ROWS).collect()
        refuse_nested(piece, present, str(file))
        return piece
    except (pl.exceptions.PolarsError, OSError) as error:
        raise _unreadable(file, error) from error


def _head(file: Path, root: Path, columns: Columns) -> pl.DataFrame:
    """Return the first rows with all columns; one that a folder's name tells counts where its name says what it is."""
    asked = (columns.user, columns.item, columns.value, columns.timestamp, columns.kind)
    try:
        head = _scan(file, root).head(SAMPLE_ROWS).collect()
        own = pl.scan_parquet(file, hive_partitioning=False, glob=False).collect_schema().names()
        return head.select([name for name in head.columns if name in own or name in asked or is_known_name(name)])
    except (pl.exceptions.PolarsError, OSError) as error:
        raise _unreadable(file, error) from error


def _scan(file: Path, root: Path) -> pl.LazyFrame:
    columns = [pl.lit(text).alias(name) for name, text in _told_by_folders(file, root).items()]
    return pl.scan_parquet(file, hive_partitioning=False, glob=False).with_columns(columns)


def _told_by_folders(file: Path, root: Path) -> dict[str, str]:
    folders = file.relative_to(root).parts[:-1] if root.is_dir() else ()
    pairs: Any = (folder.split("=", 1) for folder in folders if "=" in folder)
    return {name: unquote(text) for name, text in pairs}


def _n_rows(file: Path) -> int:
    try:
        return int(pl.scan_parquet(file, hive_partitioning=False, glob=False).select(pl.len()).collect().item())
    except (pl.exceptions.PolarsError, OSError) as error:
        raise _unreadable(file, error) from error


def _unreadable(file: Path, error: Exception) -> DataError:
    return DataError(f"{file} cannot be read as Parquet: {first_line(error)}")
