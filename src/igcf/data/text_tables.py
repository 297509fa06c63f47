"""Read tables from text files, a block of rows at a time, every column as text; no row is lost without an error.

A file is decompressed, decoded and divided at line ends. A line that is one row by the rules of CSV goes to polars as
it is; for any other line `quoting` looks for the reading that gives it as many columns as the header has.
"""

import codecs
import gzip
import importlib
import io
import re
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import IO

import polars as pl

from igcf.data.columns import Columns
from igcf.data.findings import Findings
from igcf.data.layout import SEPARATORS, is_known_name, text_sentence
from igcf.data.quoting import Grammar, Record, cells, records, separator_of
from igcf.errors import DataError, quoted

GZIP_MAGIC, ZSTD_MAGIC = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"
ENDINGS = {".csv": ",", ".tsv": "\t", ".txt": None, ".dat": None, ".data": None}
"""Endings of text tables, also followed by `.gz` or `.zst`, and the separator that they promise."""
BLOCK_BYTES = 1 << 24
"""Text that is in memory at a time."""
MOST_EXPANDED, MOST_TIMES = 1 << 30, 200
"""A compressed file may expand to so many bytes, or to so many times its own size, whichever is more."""
SAMPLE_BYTES, SAMPLE_ROWS = 1 << 16, 50
"""How much of a text file is read to find its separator, header and columns."""
Opener = Callable[[], IO[bytes]]
UNREADABLE = (OSError, EOFError, zlib.error, zipfile.BadZipFile)
"""What reading a file raises, damaged compressed bytes included."""
MARKS = {
    codecs.BOM_UTF8: "utf-8-sig",
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
"""Byte order marks; that of UTF-32 begins like that of UTF-16."""
NUMBER = re.compile(r" *[+-]?(\d+[.,]?\d*|[.,]\d+|inf|nan)(e[+-]?\d+)? *", re.IGNORECASE)
LINE_SIGN, UNIT_SIGN = "\x1e", "\x1f"
"""Signs that stand in no line, and between columns in the place of a separator of several bytes, such as `::`."""
ODD_ROWS = {
    "escaped": ("escaped-quotes", "quotes inside a field, with or without a backslash, were read as part of it"),
    "stray": ("stray-quotes", "an unclosed quote was read as part of its field"),
    "several-lines": ("several-lines", "a quoted field spans lines: one row, of several lines of the file"),
    "short": ("short-row", "there are fewer columns than in the header; is the file complete?"),
}  # fmt: skip
"""Defects of rows that were read otherwise than by the rules of CSV."""


class TextTable:
    """A text file: what its first rows show, and its rows, block by block."""

    def __init__(self, path: Path, given: Columns | None = None, *, opener: Opener | None = None) -> None:
        """Look at the first rows; `opener` opens a file that is inside of another one."""
        given = given or Columns()
        self.path, self._open = path, opener or partial(opened, path)
        if opener is None:
            check_readable(path, encoding=given.encoding)
        self._given_encoding = _checked_encoding(given.encoding)
        self.encoding: str | None = None
        """Encoding, known to the end of the rows that were read; None while they are ASCII."""
        self._n_lines = self._n_rows = 0
        head = next(self._blocks(SAMPLE_BYTES), b"").decode().split("\n")
        lines = [line for line in head if line.strip()][: SAMPLE_ROWS + 1]
        if not lines:
            raise DataError(f"{path} is empty; expected a header and one row per reaction")
        if lines[0].lstrip().startswith(("{", '[{"', "<")):
            raise DataError(
                f"{path} holds JSON, HTML or XML: its first line is {quoted(lines[0])}; expected a table, one row per "
                "reaction: save it as CSV or Parquet"
            )
        excel = re.fullmatch('"?sep=(.)"?', lines[0]) if len(lines) > 1 else None  # a line that Excel writes and reads
        lines = lines[1:] if excel else lines
        own = excel[1] if excel else separator_of(lines)
        self.separator = given.separator or own or ENDINGS.get(_ending(path)) or ","
        self._is_wide = len(self.separator.encode()) > 1
        rows = [cells(line, self.separator) for line in lines]
        first, n_columns = rows[0], len(rows[0])
        has_names = any(map(is_known_name, first))
        found = has_names or not (any(map(NUMBER.fullmatch, first)) or _occur_again(first, rows[1:]))
        self.has_header = found if given.has_header is None else given.has_header
        self._n_before = bool(excel) + self.has_header
        """Number of lines before the first row, not counting blank ones."""
        self._is_header_guessed = self.has_header and not has_names and given.has_header is None
        self.names = [(self.has_header and name) or str(place) for place, name in enumerate(first, start=1)]
        self._grammar = Grammar(UNIT_SIGN if self._is_wide else self.separator, n_columns)
        self._refuse_names(lines[0], max(map(len, rows)))
        body = [[cell or None for cell in [*row, *[""] * n_columns][:n_columns]] for row in rows[self.has_header :]]
        self.sample = pl.DataFrame(body, schema=dict.fromkeys(self.names, pl.String), orient="row")

    def _refuse_names(self, line: str, most_columns: int) -> None:
        if self.has_header and len(self.names) == 1 < most_columns:
            raise DataError(
                f"{self.path}: the first line, {quoted(line)}, has one column and lines below it {most_columns}; "
                "remove what comes before the header"
            )
        other = next((sign for sign in SEPARATORS if sign in line and sign not in (self.separator, " ")), None)
        if len(self.names) == 1 and other is not None:
            raise DataError(
                f"{self.path} has one column, {self.names[0]!r}, when split at {self.separator!r}; "
                f"the first line holds a {SEPARATORS[other]}, so try separator={other!r}"
            )
        twice = next((name for name, n in Counter(self.names).items() if n > 1), None)
        if twice is not None:
            raise DataError(f"{self.path} has two columns called {twice!r}; give every column a name of its own")

    @property
    def sentence(self) -> str:
        """How the text was divided: `separator: comma; no header; encoding: cp1252`."""
        return text_sentence(self.separator, self.has_header, self.encoding)

    def frames(
        self, wanted: Sequence[str] | None = None, ids: Sequence[str] = (), findings: Findings | None = None
    ) -> Iterator[pl.DataFrame]:
        """Yield the rows in order, some at a time; a field of the columns `ids` may not span lines.

        What is odd about rows goes to the findings, and at the end the encoding, and a header that was guessed.
        """
        wanted, findings = list(self.names if wanted is None else wanted), findings or Findings()
        id_places = {place: name for place, name in enumerate(self.names) if name in ids}
        self._n_rows, n_before, rest = 0, self._n_before, b""
        yield pl.DataFrame(schema=dict.fromkeys(wanted, pl.String))
        for block in self._blocks():
            while n_before:
                first, _, block = block.partition(b"\n")
                n_before -= bool(first.strip())  # blank lines may come before the header
            if self._is_wide:
                block = block.replace(self.separator.encode(), UNIT_SIGN.encode())
            frame, rest = self._frame(rest + block, wanted, id_places, findings)
            yield frame
        if rest:
            yield self._frame(rest, wanted, id_places, findings, may_go_on=False)[0]
        if self._is_header_guessed:
            names = ", ".join(self.names)
            message = f"the first line ({names}) was taken for the header; if it is a row, pass --no-header"
            findings.add("guessed-header", message, 1)
        if self.encoding is not None:
            findings.encodings.add(self.encoding)

    def _frame(
        self,
        block: bytes,
        wanted: Sequence[str],
        ids: dict[int, str],
        findings: Findings,
        *,
        may_go_on: bool = True,
    ) -> tuple[pl.DataFrame, bytes]:
        """Return the rows of a block, and the lines of a row that continues in the next one."""
        grammar, has_quotes = self._grammar, b'"' in block and not self._is_wide
        frame, rest, n_rows = None, b"", block.count(b"\n")
        if _is_regular(block, n_rows, grammar, has_quotes=has_quotes):
            frame = self._parsed(block, n_rows, wanted)
        if frame is None:
            lines = [line for line in block.decode().split("\n") if line]
            is_odd = ~pl.Series(lines, dtype=pl.String).str.contains(grammar.strict if has_quotes else grammar.plain)
            found, left = records(lines, is_odd.to_list(), grammar, may_go_on=may_go_on)
            self._note(found, ids, findings)
            text, n_rows = "".join(f"{record.text}\n" for record in found).encode(), len(found)
            frame, rest = self._parsed(text, n_rows, wanted), "".join(f"{line}\n" for line in left).encode()
        if frame is None:
            raise DataError(
                f"{self.path} cannot be read as CSV: {n_rows:,} rows after row {self._n_rows:,} are read as another "
                "number of rows; check the quotes there, or name the separator with separator="
            )
        self._n_rows += n_rows
        return frame, rest

    def _parsed(self, text: bytes, n_rows: int, wanted: Sequence[str]) -> pl.DataFrame | None:
        """Parse rows; None where they are not as many as there should be."""
        if not n_rows:
            return pl.DataFrame(schema=dict.fromkeys(wanted, pl.String))
        places = [place for place, name in enumerate(self.names) if name in wanted]
        try:
            frame = pl.read_csv(
                text,
                has_header=False,
                schema={f"c{place}": pl.String for place in range(len(self.names))},
                columns=places,
                separator=self._grammar.separator,
                quote_char='"' if b'"' in text and not self._is_wide else None,
            )
        except pl.exceptions.PolarsError:
            return None
        names = {f"c{place}": self.names[place] for place in places}
        return frame.rename(names).select(wanted) if len(frame) == n_rows else None

    def _note(self, found: Sequence[Record], ids: dict[int, str], findings: Findings) -> None:
        """Note what is odd about rows; raise where one has too many columns, or an id that spans lines."""
        odd = [(row, each) for row, each in enumerate(found, start=self._n_rows + 1) if each.how is not None]
        for row, record in odd:
            spanning = next((ids[place] for place in record.broken if place in ids), None)
            if spanning is not None:
                raise DataError(
                    f"{self.path}: row {row:,} has a quoted field in column {spanning!r} that spans "
                    f"{record.n_lines:,} lines; an id is on one line, so a quote is missing or too many there: "
                    'remove it, or write it twice ("")',
                    rows=[row],
                )
        wrong = [(row, record) for row, record in odd if record.how == "wrong"]
        if wrong:
            row, record = wrong[0]
            n_columns = len(cells(record.text, self._grammar.separator))
            raise DataError(
                f"{self.path} cannot be read as CSV: {len(wrong):,} row{'s' if len(wrong) > 1 else ''} with another "
                f"number of columns than {len(self.names)}, first row {row:,} with {n_columns}: "
                f"{quoted(record.text)}; quote fields that hold the separator and write quotes inside them twice",
                rows=[row for row, _ in wrong[:5]],
            )
        for how, (kind, message) in ODD_ROWS.items():
            if rows := [row for row, record in odd if record.how == how]:
                findings.add(kind, message, len(rows), rows)

    def _blocks(self, size: int = BLOCK_BYTES) -> Iterator[bytes]:
        """Yield the text as UTF-8, whole lines with LF at their ends; `size` bytes of the file at a time."""
        self.encoding, self._n_lines = None, 0
        decoder: codecs.IncrementalDecoder | None = None
        line_end, rest, is_begun = b"", b"", False
        for chunk in self._chunks(size):
            if not is_begun:
                is_begun = True
                mark = next((name for mark, name in MARKS.items() if chunk.startswith(mark)), None)
                if name := self._given_encoding or mark:
                    self.encoding, decoder = name.removesuffix("-sig"), codecs.getincrementaldecoder(name)()
            text = rest + (chunk if decoder is None else self._decoded(decoder, chunk))
            line_end = line_end or (b"\r" if b"\n" not in text and b"\r" in text else b"\n")
            end = text.rfind(line_end) + 1 if chunk else len(text)
            block, rest = text[:end], text[end:]
            if decoder is None:
                block = self._guessed(block, is_last=not chunk)
            if b"\r" in block:
                block = block.replace(b"\r" if line_end == b"\r" else b"\r\n", b"\n")
            self._n_lines += block.count(b"\n")
            is_blank = not block or (block.isspace() and not block.strip(b"\r\n"))
            if not is_blank:
                yield block if chunk else block.rstrip(b"\r\n") + b"\n"
            elif not end and len(rest) >= max(4 * size, SAMPLE_BYTES):
                raise DataError(
                    f"{self.path} has no line that ends within {len(rest):,} bytes; expected one row per reaction"
                )

    def _chunks(self, size: int) -> Iterator[bytes]:
        """Yield the bytes of the file, and an empty chunk at its end."""
        n_bytes = 0
        try:
            most = max(MOST_EXPANDED, MOST_TIMES * self.path.stat().st_size)
            with self._open() as file:
                while chunk := file.read(size):
                    n_bytes += len(chunk)
                    if n_bytes > most:
                        raise DataError(
                            f"{self.path} expands to more than {most:,} bytes, {MOST_TIMES} times its size; decompress "
                            "it yourself if that is right"
                        )
                    yield chunk
        except UNREADABLE as error:
            raise DataError(f"{self.path} cannot be read: {first_line(error)}") from error
        yield b""

    def _decoded(self, decoder: codecs.IncrementalDecoder, chunk: bytes) -> bytes:
        try:
            return decoder.decode(chunk, not chunk).encode()
        except UnicodeError as error:
            raise DataError(
                f"{self.path} is not {self.encoding} text after line {self._n_lines:,}: {error}; "
                "name its encoding with encoding="
            ) from error

    def _guessed(self, lines: bytes, *, is_last: bool) -> bytes:
        """Return lines without a byte order mark as UTF-8, which they are, or else cp1252, as all lines before them."""
        if lines.isascii():
            return lines
        if self.encoding != "cp1252":
            try:
                lines.decode()
                self.encoding = "utf-8"
                return lines
            except UnicodeDecodeError as error:
                if self.encoding == "utf-8" or not lines[: error.start].isascii():
                    is_cut = is_last and error.end == len(lines) and "unexpected end" in error.reason
                    why = "the file ends in the middle of a character" if is_cut else "lines before it are"
                    raise self._undecodable(lines, error, f"not UTF-8, {why}; get the file again, or") from error
        self.encoding = "cp1252"
        try:
            return lines.decode("cp1252").encode()
        except UnicodeDecodeError as error:
            raise self._undecodable(lines, error, "neither UTF-8 nor cp1252 text;") from error

    def _undecodable(self, lines: bytes, error: UnicodeDecodeError, what: str) -> DataError:
        line = self._n_lines + lines[: error.start].count(b"\n") + 1
        return DataError(f"{self.path}: line {line:,} is {what} name its encoding with encoding=")


def _is_regular(block: bytes, n_lines: int, grammar: Grammar, *, has_quotes: bool) -> bool:
    """Tell by counting whether a block may be one row per line: no field is quoted, or every one and no other."""
    sign, n_signs = grammar.separator.encode(), n_lines * (grammar.n_columns - 1)
    if not has_quotes:
        return n_signs > 0 and block.count(sign) == n_signs
    return (
        block.count(b'"') == 2 * (n_signs + n_lines)
        and block.count(b'"' + sign + b'"') == n_signs
        and block.count(b'"\n"') == n_lines - 1
        and block.startswith(b'"')
        and block.endswith(b'"\n')
    )


def opened(path: Path) -> IO[bytes]:
    """Open a file for reading; what is compressed by gzip or zstd is decompressed."""
    with path.open("rb") as file:
        magic = file.read(4)
    if magic[:2] == GZIP_MAGIC:
        return gzip.open(path)  # type: ignore[return-value]
    if magic != ZSTD_MAGIC:
        return path.open("rb")
    for name in ("compression.zstd", "zstandard"):
        try:
            return importlib.import_module(name).open(path, "rb")  # type: ignore[no-any-return]
        except ImportError:
            continue
    return _PolarsLines(path)  # type: ignore[return-value]


class _PolarsLines(io.RawIOBase):
    """Lines of a file that polars decompresses, which reads UTF-8 only, as a file to read from."""

    def __init__(self, path: Path) -> None:
        scan = pl.scan_csv(path, separator=LINE_SIGN, quote_char=None, has_header=False, infer_schema=False)
        self._batches = scan.select(pl.nth(0).fill_null("")).collect_batches(maintain_order=True)

    def read(self, _: int = -1) -> bytes:
        """Return the next lines, however many."""
        try:
            batch = next(self._batches, None)
        except pl.exceptions.PolarsError as error:
            raise OSError(f"{first_line(error)}; pip install zstandard, or decompress the file") from error
        return b"" if batch is None else "".join(f"{line}\n" for line in batch.to_series().to_list()).encode()


def is_text_table(path: Path) -> bool:
    """Tell whether the ending of a path is that of a text table."""
    return _ending(path) in ENDINGS


def _ending(path: Path) -> str:
    return Path(path.name.lower().removesuffix(".gz").removesuffix(".zst")).suffix


def _checked_encoding(name: str | None) -> str | None:
    """Return the canonical name of an encoding; raise if the name is unknown."""
    if name is None:
        return None
    try:
        found = codecs.lookup(name).name
        "".encode(found)
    except (LookupError, TypeError) as error:
        raise DataError(
            f"there is no text encoding {name!r}; expected one like utf-8, utf-16, cp1252, shift_jis"
        ) from error
    return {"utf-8": "utf-8-sig"}.get(found, found)


def check_readable(path: Path, *, text: bool = True, encoding: str | None = None) -> None:
    """Raise where a file is missing, a folder, empty or, for text in no given encoding, binary."""
    if not path.exists():
        raise DataError(f"no file at {path}")
    if path.is_dir():
        raise DataError(f"{path} is a folder; expected a file")
    if not path.is_file():
        raise DataError(f"{path} is a pipe or a device; expected a file, which is read more than once")
    try:
        with opened(path) if text else path.open("rb") as file:
            head = file.read(4096)
    except UNREADABLE as error:
        raise DataError(f"{path} cannot be read: {first_line(error)}") from error
    if not head.strip():
        raise DataError(f"{path} is empty; expected a header and one row per reaction")
    if text and b"\0" in head and encoding is None and not head.startswith(tuple(MARKS)):
        raise DataError(
            f"{path} is not a text file: it holds zero bytes; expected CSV, or a name that ends in .parquet; "
            "text in UTF-16 without a byte order mark needs encoding= (utf-16-le or utf-16-be)"
        )


def first_line(error: Exception) -> str:
    """Return the first line of an error's message; its class if the message is empty."""
    return str(error).strip().split("\n")[0] or type(error).__name__


def _occur_again(first: Sequence[str], rows: Sequence[Sequence[str]]) -> bool:
    """Tell whether an entry of the first row stands below it again, as no name of a column would."""
    return any(cell and any(row[place : place + 1] == [cell] for row in rows) for place, cell in enumerate(first))
