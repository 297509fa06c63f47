"""Tables of any kind: the files of a log, read in pieces, and smaller tables and frames, read at once."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote

import numpy as np
import polars as pl

from igcf.data.columns import Columns, refuse_nested
from igcf.data.findings import Findings, Piece
from igcf.data.layout import LogLayout, find_layout, is_known_name, named
from igcf.data.text_tables import ENDINGS, SAMPLE_ROWS, TextTable, check_readable, first_line, is_text_table
from igcf.errors import DataError

PIECE_ROWS = 1 << 20
"""Number of rows of a Parquet file with their text in memory."""
PARQUET_ENDINGS = (".parquet", ".pq")


def is_parquet(path: Path) -> bool:
    """Tell whether the ending of a path is that of a Parquet file."""
    return path.name.lower().endswith(PARQUET_ENDINGS)


@dataclass(frozen=True)
class LogFiles:
    """A text or Parquet file, or a folder of them; its rows are read by `pieces` only."""

    path: Path
    columns: Columns = field(default_factory=Columns)
    """How the columns are read."""
    items: Path | None = None
    """File with titles and categories of the items."""
    users: Path | None = None
    """File with attributes of the users."""
    without: tuple[str, ...] = ()
    """Attributes to leave out."""

    @property
    def name(self) -> str:
        """Name of the log: that of the file or folder without its ending."""
        return self.path.name.split(".")[0]

    @cached_property
    def files(self) -> tuple[Path, ...]:
        """The file itself, or all Parquet files below a folder, or else all text tables, in the order of names."""
        path = self.path
        if not path.is_dir():
            if not (is_parquet(path) or is_text_table(path)):
                known = ", ".join((*ENDINGS, ".parquet"))
                raise DataError(f"{path} has no known ending; expected one of {known}, or a folder of such files")
            check_readable(path, text=not is_parquet(path), encoding=self.columns.encoding)
            return (path,)
        inside = self._inside
        files = [file for file in inside if is_parquet(file)] or [file for file in inside if is_text_table(file)]
        if not files:
            raise DataError(f"{path} holds no .parquet file and no text table")
        return tuple(files)

    @cached_property
    def _inside(self) -> list[Path]:
        return sorted(file for file in self.path.rglob("*") if file.is_file()) if self.path.is_dir() else []

    def note_unread(self, findings: Findings) -> None:
        """Note files of the folder that are not read: text beside Parquet, and what has no known ending."""
        unread = [file for file in self._inside if file not in self.files and file.name[0] not in "._"]
        if unread:
            names = ", ".join(str(file.relative_to(self.path)) for file in unread[:3]) + " ..." * (len(unread) > 3)
            findings.add("unread-files", f"files of the folder are not read ({names}); is one of the log?", len(unread))

    @cached_property
    def layout(self) -> LogLayout:
        """What the columns are, by the first rows of the first file."""
        file = self.files[0]
        if not is_parquet(file):
            table = TextTable(file, self.columns)
            layout = find_layout(table.sample, self.columns, str(file))
            return replace(layout, separator=table.separator, has_header=table.has_header)
        with reading_parquet(file):
            head = self._scan(file).head(SAMPLE_ROWS).collect()
            own = scan_parquet(file).collect_schema().names()
        asked = (self.columns.user, self.columns.item, self.columns.value, self.columns.timestamp, self.columns.kind)
        columns = [name for name in head.columns if name in own or name in asked or is_known_name(name)]
        return find_layout(head.select(columns), self.columns, str(file))

    def shares(self, n_workers: int) -> list[list[int]]:
        """Divide the numbers of the files among workers: the largest first, each to who has the fewest bytes."""
        sizes = [file.stat().st_size for file in self.files]
        shares = [list[int]() for _ in range(n_workers)]
        for number in sorted(range(len(sizes)), key=lambda each: -sizes[each]):
            min(shares, key=lambda share: sum(sizes[each] for each in share)).append(number)
        return [sorted(share) for share in shares]

    def pieces(self, number: int, findings: Findings | None = None) -> Iterator[Piece]:
        """Yield some rows of a file at a time; note what is odd about the rows of a text file when they are read."""
        file, layout, place = self.files[number], self.layout, 0
        if is_parquet(file):
            with reading_parquet(file):
                scan, n_rows = self._scan(file), int(scan_parquet(file).select(pl.len()).collect().item())
                wanted = self._wanted(scan.collect_schema().names(), file)
            for place in range(0, max(n_rows, 1), PIECE_ROWS):
                with reading_parquet(file):
                    frame = scan.select(wanted).slice(place, PIECE_ROWS).collect()
                refuse_nested(frame, wanted, str(file))
                yield Piece(frame, str(file), place)
            return
        alike = replace(self.columns, separator=layout.separator, has_header=layout.has_header)
        table, told = TextTable(file, alike if number else self.columns), self._told_by_folders(file)
        wanted = self._wanted([*table.names, *told], file)
        own, ids = [name for name in wanted if name not in told], (layout.user, layout.item)
        for frame in table.frames(own, ids, findings):
            frame = frame.with_columns(**{name: pl.lit(told[name]) for name in wanted if name in told})
            yield Piece(frame, str(file), place)
            place += len(frame)

    def _wanted(self, names: list[str], file: Path) -> list[str]:
        """Return the columns of the layout, all of which a file must have."""
        if missing := [name for name in self.layout.wanted() if name not in names]:
            raise DataError(
                f"{file} has no column {', '.join(map(repr, missing))}; found {', '.join(map(repr, names))}; "
                "give all files the same columns"
            )
        return list(self.layout.wanted())

    def _scan(self, file: Path) -> pl.LazyFrame:
        """Scan a Parquet file, with the columns in the names of its folders (`day=3/`)."""
        columns = [pl.lit(text).alias(name) for name, text in self._told_by_folders(file).items()]
        return scan_parquet(file).with_columns(columns)

    def _told_by_folders(self, file: Path) -> dict[str, str]:
        folders = file.relative_to(self.path).parts[:-1] if self.path.is_dir() else ()
        pairs: Any = (folder.split("=", 1) for folder in folders if "=" in folder)
        return {name: unquote(text) for name, text in pairs}


def scan_parquet(file: Path) -> pl.LazyFrame:
    """Scan one Parquet file; its name is not a pattern, and folder names carry no columns."""
    return pl.scan_parquet(file, hive_partitioning=False, glob=False)


@contextmanager
def reading_parquet(file: Path) -> Iterator[None]:
    """Turn errors of reading Parquet inside the block into ours."""
    try:
        yield
    except (pl.exceptions.PolarsError, OSError) as error:
        raise DataError(f"{file} cannot be read as Parquet: {first_line(error)}") from error


class WholeTable(NamedTuple):
    """A table that was read at once."""

    frame: pl.DataFrame
    source: str
    """File that it comes from; error messages begin with it."""
    sentence: str
    """How a text file was divided; empty for other tables."""
    findings: Findings
    """What was odd about its rows."""


def read_whole(table: object, what: str, id_names: Sequence[str], columns: Columns | None = None) -> WholeTable:
    """Read a text or Parquet file, or a frame, called `what`; a field of the column of ids may not span lines."""
    findings = Findings(is_strict=False)
    if not isinstance(table, str | Path):
        return WholeTable(as_polars(table), what, "", findings)
    path = Path(table)
    if is_parquet(path) or path.is_dir():
        if not path.is_dir():
            check_readable(path, text=False)
        with reading_parquet(path):
            return WholeTable(pl.read_parquet(path, glob=path.is_dir()), str(path), "", findings)
    text = TextTable(path, columns)
    ids = named(text.names, id_names) or text.names[0]
    return WholeTable(pl.concat(text.frames(ids=[ids], findings=findings)), str(path), text.sentence, findings)


def as_polars(frame: Any) -> pl.DataFrame:
    """Return a polars frame of anything that has named columns: polars (also lazy), pandas, a mapping of columns."""
    if isinstance(frame, pl.DataFrame | pl.LazyFrame):
        return frame.lazy().collect()
    names = list(frame) if isinstance(frame, Mapping) else getattr(frame, "columns", None)
    if names is None:
        raise DataError(f"expected a pandas or polars frame, got a {type(frame).__name__}")
    return pl.DataFrame([_series(str(name), frame[name]) for name in names])


def _series(name: str, column: Any) -> pl.Series:
    """Return a column of a frame; what pandas has for a missing entry becomes null, a mix of types text."""
    if isinstance(column, pl.Series):
        return column.alias(name)
    entries = column.to_numpy() if hasattr(column, "to_numpy") else column
    if isinstance(entries, np.ndarray) and entries.dtype == object:
        is_missing = column.isna().to_numpy() if hasattr(column, "isna") else np.zeros(len(entries), dtype=np.bool_)
        entries = [None if missing else each for each, missing in zip(entries.tolist(), is_missing, strict=True)]
    try:
        return pl.Series(name, entries)
    except (TypeError, pl.exceptions.PolarsError):  # a mix of strings and numbers
        return pl.Series(name, [None if entry is None else str(entry) for entry in entries])
