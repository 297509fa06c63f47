"""Text files of columns become a table; numbers and dates among them are read without a Python object per entry."""

import tempfile
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from igcf.tabular.columns import Column, Kind, Table
from igcf.tabular.engine import OWN_DESCRIPTORS, Session, TableFileError, literal, plain_path, session
from igcf.tabular.text_values import LARGEST, is_whole, moment_of, number_of

LOOK_ROWS = 1000
BLOCK = 1 << 24


@dataclass(frozen=True)
class TextForm:
    """How a text file is divided into columns."""

    names: Sequence[str]
    """Names of all columns, in their order."""
    separator: str = ","
    has_quotes: bool = True
    """Whether an entry may stand in double quotes."""
    skipped: int = 0
    """Number of lines before the first row."""
    is_packed: bool = False
    """Whether the file is gzipped."""


def read_text(
    path: Path, form: TextForm, wanted: Collection[str], *, numbers: Collection[str] = (), times: Collection[str] = ()
) -> Table:
    """Read columns of a text file in their order; an empty entry is missing, and lines without any are passed over.

    A column is text, or whole numbers where every entry is one as a program writes it.

    Args:
        path: The file, in UTF-8.
        form: How it is divided.
        wanted: The columns to read.
        numbers: Columns that become floats where every entry is a number, however it is written.
        times: Columns that become floats or moments where every entry is one.

    Raises:
        TableFileError: a row has too many columns, a quote is not closed, or the text is not UTF-8.
    """
    try:
        return _read(path, form, wanted, numbers, times)
    except TableFileError as error:
        if "quoted new lines" in str(error):  # only one thread can follow those
            return _read(path, form, wanted, numbers, times, "parallel = false")
        if form.is_packed or "invalid state" not in str(error):
            raise
        with _plain_lines(path) as copy:  # lines that end in several ways
            return _read(copy, form, wanted, numbers, times, "parallel = false")


def _read(
    path: Path,
    form: TextForm,
    wanted: Collection[str],
    numbers: Collection[str],
    times: Collection[str],
    further: str = "parallel = true",
) -> Table:
    columns = ", ".join(f"c{place}: 'VARCHAR'" for place in range(len(form.names)))
    quote = "'\"'" if form.has_quotes else "''"
    source = (
        f"read_csv(?, columns = {{{columns}}}, auto_detect = false, header = false, "
        f"delim = {literal(form.separator)}, quote = {quote}, escape = {quote}, skip = {form.skipped:d}, "
        f"compression = '{'gzip' if form.is_packed else 'none'}', null_padding = true, {further})"
    )
    kinds: dict[str, list[Kind]] = {}
    for place, name in enumerate(form.names):
        if name in wanted:
            is_number, is_time = name in numbers or name in times, name in times
            kinds[f"c{place}"] = ["whole", *["float"] * is_number, *["time"] * is_time, "text"]  # type: ignore[list-item]
    with session() as opened:
        _hold(opened, f"(SELECT * FROM {source} LIMIT {LOOK_ROWS})", path, kinds)
        _hold(opened, source, path, kinds)
        ((n_rows,),) = opened.rows("SELECT count(*) FROM rows")
        return Table(
            (column_of_rows(opened, own, form.names[int(own[1:])], left[0]) for own, left in kinds.items()), n_rows
        )


def _hold(opened: Session, source: str, path: Path, kinds: dict[str, list[Kind]]) -> None:
    """Read `rows`, every column as the first of its kinds that all entries are of; kinds before that are removed."""
    while True:
        read = {own: _as_kind(own, left[0]) for own, left in kinds.items()}
        parts = [f"{value} AS {own}, {check} OR {own} IS NULL AS is_{own}" for own, (value, check) in read.items()]
        opened.rows(
            f"CREATE OR REPLACE TEMP TABLE rows AS SELECT {', '.join(parts)} FROM {source} AS file",
            plain_path(path),
        )
        holds = ", ".join(f"coalesce(bool_and(is_{own}), true)" for own in kinds)
        (told,) = opened.rows(f"SELECT {holds} FROM rows")
        if all(told):
            return
        for own, is_held in zip(kinds, told, strict=True):
            del kinds[own][: not is_held]


def _as_kind(own: str, kind: Kind) -> tuple[str, str]:
    """Say in a query how a column of text is read as a kind, and whether an entry is of that kind."""
    text = f"file.{own}"
    if kind == "whole":
        return f"TRY_CAST({text} AS BIGINT)", is_whole(text)
    if kind == "float":
        return number_of(text), f"coalesce(abs({number_of(text)}) <= {LARGEST}, false)"
    if kind == "time":
        return moment_of(text), f"{moment_of(text)} IS NOT NULL"
    return text, "true"


def column_of_rows(opened: Session, own: str, name: str, kind: Kind) -> Column:
    """Return a column of the `rows` that holds entries of a kind."""
    if kind == "text":
        return _words(opened, own, name)
    (found,) = opened.arrays(f"SELECT {own} AS found FROM rows")
    missing = np.ma.getmaskarray(found) if isinstance(found, np.ma.MaskedArray) else None
    if kind == "list":
        lists = np.empty(len(found), dtype=object)
        lists[:] = [None if each is np.ma.masked else list(each) for each in found]
        return Column(name, kind, lists, missing)
    dtype = {"float": np.float64, "truth": np.bool_}.get(kind, np.int64)
    return Column(name, kind, np.ma.getdata(found).astype(dtype, copy=False), missing)


def _words(opened: Session, own: str, name: str) -> Column:
    """Return a column of text of the `rows`: its different words, and the place of each entry among them."""
    opened.rows(
        "CREATE OR REPLACE TEMP TABLE words AS SELECT word, (row_number() OVER () - 1)::INTEGER AS code FROM "
        f"(SELECT DISTINCT {own} AS word FROM rows WHERE {own} IS NOT NULL ORDER BY 1)"
    )
    (words,) = opened.arrays("SELECT word FROM words ORDER BY code")
    ((n_rows,),) = opened.rows("SELECT count(*) FROM rows")
    codes = np.full(n_rows, -1, dtype=np.int32)
    # A join keeps no order, so it tells the rows.
    query = f"SELECT rows.rowid AS row, words.code FROM rows JOIN words ON rows.{own} = words.word"
    found, places = opened.arrays(query)
    codes[np.ma.getdata(found)] = np.ma.getdata(places)
    missing = codes < 0
    if not missing.any():
        return Column(name, "text", codes, None, words.tolist())
    codes[missing] = 0
    return Column(name, "text", codes, missing, words.tolist())


@contextmanager
def _plain_lines(path: Path) -> Iterator[Path]:
    """Copy a file, each line of it ending in a line feed alone."""
    with tempfile.NamedTemporaryFile(prefix="igcf-") as copy, path.open("rb") as file:
        while block := file.read(BLOCK):
            while block.endswith(b"\r"):
                block += file.read(1) or b"\n"
            copy.write(block.replace(b"\r\n", b"\n"))
        copy.flush()
        yield OWN_DESCRIPTORS / str(copy.fileno()) if OWN_DESCRIPTORS.is_dir() else Path(copy.name)
