"""Read tables from text files, a block of rows at a time, every column as text; no row is lost without an error.

A file is decompressed, decoded and divided at line ends. A line that is one row by the rules of CSV goes to polars as
it is; for any other line `quoting` looks for the reading that gives it as many columns as the header has.
"""

import codecs
import gzip
import importlib
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import IO, Any

import polars as pl

from igcf.data.columns import Columns
from igcf.data.layout import SEPARATORS, is_known_name
from igcf.data.quoting import Grammar, Record, cells, records, separator_of
from igcf.errors import DataError

GZIP_MAGIC, ZSTD_MAGIC = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"
ENDINGS = {".csv": ",", ".tsv": "\t", ".txt": None, ".dat": None, ".data": None}
"""Endings of text tables, also followed by `.gz` or `.zst`, and the separator that they promise."""
BLOCK_BYTES = 1 << 24
"""Text that is in memory at a time."""
SAMPLE_BYTES, SAMPLE_ROWS = 1 << 16, 50
"""How much of a text file is looked at to find its separator, header and columns."""
UNREADABLE = (OSError, EOFError, zlib.error, zipfile.BadZipFile)
"""What reading a file raises, also one whose compressed bytes are damaged."""
MARKS = {
    codecs.BOM_UTF8: "utf-8-sig",
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
"""Byte order marks; that of UTF-32 begins like that of UTF-16."""
LINE_SIGN, UNIT_SIGN = "\x1e", "\x1f"
"""Signs that stand in no line, and between columns in the place of `::`."""
SHOWN_ROWS = 5


class TextTable:
    """A text file: what its first rows tell, and its rows, block by block."""

    def __init__(
        self, path: Path, given: Columns | None = None, *, opener: Callable[[], IO[bytes]] | None = None
    ) -> None:
        """Look at the first rows; `opener` opens a file that is inside of another one."""
        given = given or Columns()
        self.path, self._open = path, opener or partial(opened, path)
        if opener is None:
            check_readable(path)
        self._given_encoding = checked_encoding(given.encoding)
        self.encoding: str | None = None
        """Encoding, known to the end of the rows that were read; None while they are ASCII."""
        lines = self._first_lines()
        ending = ENDINGS.get(_ending(path))
        self.separator = given.separator or separator_of(lines) or ending or ","
        first = cells(lines[0], self.separator)
        rows = [cells(line, self.separator) for line in lines[1:]]
        has_names = any(map(is_known_name, first))
        found = has_names or not (any(map(_is_number, first)) or _occur_again(first, rows))
        self.has_header = found if given.has_header is None else given.has_header
        self.is_header_guessed = self.has_header and not has_names and given.has_header is None
        self.names = first if self.has_header else [str(place + 1) for place in range(len(first))]
        self._refuse_names(lines[0])
        body = [[*row, *[None] * len(first)][: len(first)] for row in ([] if self.has_header else [first]) + rows]
        columns = [[row[place] or None for row in body] for place in range(len(first))]
        self.sample = pl.DataFrame(
            [pl.Series(name, column, dtype=pl.String) for name, column in zip(self.names, columns, strict=True)]
        )
        self.odd_rows: dict[str, list[int]] = {}
        """Rows that were not read by the rules of CSV, by what was done: `escaped`, `stray`, `several-lines`, `short`.

        Only the first rows are kept; `n_odd` counts them all.
        """
        self.n_odd: Counter[str] = Counter()
        self.n_rows = 0
        self._is_unended = False

    def _refuse_names(self, line: str) -> None:
        other = next((sign for sign in SEPARATORS if sign in line and sign not in (self.separator, " ")), None)
        if len(self.names) == 1 and other is not None:
            raise DataError(
                f"{self.path} has one column, {self.names[0]!r}, when split at {self.separator!r}; "
                f"the first line holds a {SEPARATORS[other]}, so try separator={other!r}"
            )
        twice = next((name for name, n in Counter(self.names).items() if n > 1), None)
        if twice is not None:
            raise DataError(f"{self.path} has two columns called {twice!r}; give every column a name of its own")

    def _first_lines(self) -> list[str]:
        head = next(self._blocks(SAMPLE_BYTES), b"")
        found = [line for line in head.decode().split("\n") if line.strip()]
        if not found:
            raise DataError(f"{self.path} is empty; expected a header and one row per reaction")
        return found[: SAMPLE_ROWS + 1]

    def frames(self, wanted: Sequence[str] | None = None, ids: Sequence[str] = ()) -> Iterator[pl.DataFrame]:
        """Yield the rows in order, some at a time; a field of the columns `ids` may not span lines."""
        wanted = list(self.names if wanted is None else wanted)
        grammar = Grammar(UNIT_SIGN if self.separator == "::" else self.separator, len(self.names))
        self.odd_rows, self.n_odd, self.n_rows = {}, Counter(), 0
        is_first, rest = self.has_header, b""
        for block in self._blocks():
            if self.separator == "::":
                block = block.replace(b"::", UNIT_SIGN.encode())
            block = rest + block
            if is_first:
                block = block.lstrip(b"\n")
                _, _, block = block.partition(b"\n")
                is_first = False
            frame, rest = self._frame(block, grammar, wanted, ids)
            self.n_rows += len(frame)
            if len(frame):
                yield frame
        if rest:
            self._is_unended = True
            frame, _ = self._frame(rest, grammar, wanted, ids)
            self.n_rows += len(frame)
            yield frame

    def _frame(
        self, block: bytes, grammar: Grammar, wanted: Sequence[str], ids: Sequence[str]
    ) -> tuple[pl.DataFrame, bytes]:
        """Return the rows of a block, and what belongs to a row that goes on in the next block."""
        if not block.strip(b"\n"):
            return pl.DataFrame(schema=dict.fromkeys(wanted, pl.String)), b""
        n_lines = block.count(b"\n") + (not block.endswith(b"\n"))
        has_blank = b"\n\n" in block or block.startswith(b"\n")
        is_plain = b'"' not in block or self.separator == "::"
        if is_plain and not has_blank and block.count(grammar.separator.encode()) == n_lines * (grammar.n_columns - 1):
            frame = self._parsed(block, grammar, wanted)
            if frame is not None and len(frame) == n_lines:
                return frame, b""
        lines = _lines(block)
        if has_blank:
            lines = lines.filter(lines.str.len_bytes() > 0)
        is_odd = ~lines.str.contains(grammar.plain if is_plain else grammar.strict)
        rest = b""
        if is_odd.any():
            found, rest_lines = records(lines.to_list(), is_odd.to_list(), grammar, may_go_on=not self._is_unended)
            self._note(found, grammar, ids)
            texts, rest = [record.text for record in found], "".join(f"{line}\n" for line in rest_lines).encode()
            block, n_lines = "\n".join(texts).encode(), len(texts)
        elif has_blank:
            block, n_lines = "\n".join(lines.to_list()).encode(), len(lines)
        if not n_lines:
            return pl.DataFrame(schema=dict.fromkeys(wanted, pl.String)), rest
        frame = self._parsed(block, grammar, wanted, has_quotes=not is_plain or is_odd.any())
        if frame is None or len(frame) != n_lines:
            raise DataError(
                f"{self.path} cannot be read as CSV: {n_lines:,} rows after row {self.n_rows:,} are read as "
                f"{0 if frame is None else len(frame):,}; check the quotes there, or name the separator with separator="
            )
        return frame, rest

    def _parsed(
        self, block: bytes, grammar: Grammar, wanted: Sequence[str], *, has_quotes: bool = False
    ) -> pl.DataFrame | None:
        header = grammar.separator.join(f"c{place}" for place in range(grammar.n_columns)).encode() + b"\n"
        places = [self.names.index(name) for name in wanted]
        try:
            frame = pl.read_csv(
                BytesIO(header + block),
                separator=grammar.separator,
                quote_char='"' if has_quotes else None,
                columns=[f"c{place}" for place in places],
                infer_schema=False,
            )
        except pl.exceptions.PolarsError:
            return None
        return frame.rename({f"c{place}": name for place, name in zip(places, wanted, strict=True)})

    def _note(self, found: Sequence[Record], grammar: Grammar, ids: Sequence[str]) -> None:
        """Remember what is odd about rows; raise where one has too many columns, or an id that spans lines."""
        id_places = {place: name for place, name in enumerate(self.names) if name in ids}
        wrong: list[tuple[int, Record]] = []
        for row, record in enumerate(found, start=self.n_rows + 1):
            if record.how is None:
                continue
            spanning = next((name for place, name in id_places.items() if place in record.broken), None)
            if spanning is not None:
                raise DataError(
                    f"{self.path}: row {row:,} has a quoted field in column {spanning!r} that spans "
                    f"{record.n_lines:,} lines; an id is on one line, so a quote is missing or too many there: "
                    'remove it, or write it twice ("")'
                )
            if record.how == "wrong":
                wrong.append((row, record))
                continue
            self.n_odd[record.how] += 1
            rows = self.odd_rows.setdefault(record.how, [])
            if len(rows) < SHOWN_ROWS:
                rows.append(row)
        if wrong:
            row, record = wrong[0]
            raise DataError(
                f"{self.path} cannot be read as CSV: {len(wrong):,} row{'s' if len(wrong) > 1 else ''} with another "
                f"number of columns than {grammar.n_columns}, first row {row:,} with {record.n_columns}: "
                f"{_short(record.text)}; quote fields that hold the separator and write quotes inside them twice"
            )

    def _blocks(self, size: int = BLOCK_BYTES) -> Iterator[bytes]:
        """Yield the text as UTF-8, whole lines with LF at their ends; `size` bytes of the file at a time."""
        decoder = _Decoder(self.path, self._given_encoding)
        line_end, rest = b"", b""
        for chunk in self._chunks(size):
            text = rest + decoder.text(chunk)
            if not line_end:
                line_end = b"\r" if b"\n" not in text and b"\r" in text else b"\n"
            end = text.rfind(line_end) + 1
            rest = text[end:]
            if end:
                block = decoder.checked(text[:end])
                self.encoding = decoder.found
                yield block.replace(b"\r", b"\n") if line_end == b"\r" else block.replace(b"\r\n", b"\n")
            elif len(rest) >= max(4 * size, SAMPLE_BYTES) or (size == SAMPLE_BYTES and len(chunk) == size):
                raise DataError(
                    f"{self.path} has no line that ends within {len(rest):,} bytes; expected one row per reaction"
                )
        rest = decoder.checked(rest + decoder.text(b"", final=True), final=True)
        self.encoding = decoder.found
        if rest.strip():
            yield rest.replace(b"\r", b"\n") if line_end == b"\r" else rest.removesuffix(b"\r")

    def _chunks(self, size: int) -> Iterator[bytes]:
        try:
            with self._open() as file:
                while chunk := file.read(size):
                    yield chunk
        except UNREADABLE as error:
            raise DataError(f"{self.path} cannot be read: {first_line(error)}") from error


class _Decoder:
    """Turns bytes into UTF-8: by a given encoding, by a byte order mark, otherwise UTF-8, or else cp1252."""

    def __init__(self, path: Path, given: str | None) -> None:
        self._path, self._given, self._n_lines = path, given, 0
        self._is_begun = False
        self._incremental: codecs.IncrementalDecoder | None = None
        self.found: str | None = None

    def text(self, chunk: bytes, *, final: bool = False) -> bytes:
        """Return a chunk as UTF-8 where its encoding is known beforehand; otherwise as it is."""
        if not self._is_begun:
            self._is_begun = True
            name = self._given or next((name for mark, name in MARKS.items() if chunk.startswith(mark)), None)
            if name is not None:
                self.found = {"utf-8-sig": "utf-8"}.get(name, name)
                self._incremental = codecs.getincrementaldecoder(name)()
        if self._incremental is None:
            return chunk
        try:
            return self._incremental.decode(chunk, final).encode()
        except UnicodeError as error:
            raise DataError(
                f"{self._path} is not {self.found} text after line {self._n_lines:,}: {error}; "
                "name its encoding with encoding="
            ) from error

    def checked(self, lines: bytes, *, final: bool = False) -> bytes:
        """Return whole lines as UTF-8; raise where they are text in no encoding."""
        if self._incremental is None and not lines.isascii():
            lines = self._guessed(lines, final)
        self._n_lines += lines.count(b"\n")
        return lines

    def _guessed(self, lines: bytes, final: bool) -> bytes:
        if self.found != "cp1252":
            try:
                lines.decode()
                self.found = "utf-8"
                return lines
            except UnicodeDecodeError as error:
                if self.found == "utf-8" or not lines[: error.start].isascii():
                    is_cut = final and error.end == len(lines) and "unexpected end" in error.reason
                    why = "the file ends in the middle of a character" if is_cut else "lines before it are"
                    raise DataError(
                        f"{self._path}: line {self._n_lines + lines[: error.start].count(bytes([10])) + 1:,} is not "
                        f"UTF-8, {why}; get the file again, or name its encoding with encoding="
                    ) from error
        try:
            text = lines.decode("cp1252").encode()
        except UnicodeDecodeError as error:
            raise DataError(
                f"{self._path}: line {self._n_lines + lines[: error.start].count(bytes([10])) + 1:,} is neither UTF-8 "
                "nor cp1252 text; name the encoding of the file with encoding="
            ) from error
        self.found = "cp1252"
        return text


def opened(path: Path) -> IO[bytes]:
    """Open a file for reading; what is compressed by gzip or zstd is decompressed."""
    with path.open("rb") as file:
        magic = file.read(4)
    if magic[:2] == GZIP_MAGIC:
        return gzip.open(path)  # type: ignore[return-value]
    if magic == ZSTD_MAGIC:
        return _zstd(path)
    return path.open("rb")


def _zstd(path: Path) -> IO[bytes]:
    """Open a file compressed by zstd, with the module that is there; otherwise polars, which reads UTF-8 only."""
    for name in ("compression.zstd", "zstandard"):
        try:
            return importlib.import_module(name).open(path, "rb")  # type: ignore[no-any-return]
        except ImportError:
            continue
    return _PolarsLines(path)  # type: ignore[return-value]


class _PolarsLines:
    """Lines of a file that polars decompresses, as a file to read from."""

    def __init__(self, path: Path) -> None:
        scan = pl.scan_csv(path, separator=LINE_SIGN, quote_char=None, has_header=False, infer_schema=False)
        self._batches = scan.select(pl.nth(0).fill_null("")).collect_batches(maintain_order=True)

    def __enter__(self) -> "_PolarsLines":
        return self

    def __exit__(self, *_: object) -> None:
        pass

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


def checked_encoding(name: str | None) -> str | None:
    """Return the usual name of an encoding; raise where there is none of this name."""
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


def check_readable(path: Path, *, text: bool = True) -> None:
    """Raise where a file is missing, a folder, empty or, for text, binary."""
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
    if text and b"\0" in head and not head.startswith(tuple(MARKS)):
        raise DataError(f"{path} is not a text file; expected CSV, or a name that ends in .parquet")


def first_line(error: Exception) -> str:
    """Return the first line of an error's message, or its class where there is none."""
    return str(error).strip().split("\n")[0] or type(error).__name__


def _lines(block: bytes) -> pl.Series:
    table: Any = pl.read_csv(
        BytesIO(block),
        separator=LINE_SIGN,
        quote_char=None,
        has_header=False,
        infer_schema=False,
        new_columns=["line"],
        truncate_ragged_lines=True,
    )
    return table["line"].fill_null("")  # type: ignore[no-any-return]


def _occur_again(first: Sequence[str], rows: Sequence[Sequence[str]]) -> bool:
    """Tell whether an entry of the first row stands below it again, as no name of a column would."""
    return any(cell and any(row[place : place + 1] == [cell] for row in rows) for place, cell in enumerate(first))


def _is_number(text: str) -> bool:
    try:
        float(text.replace(",", "."))
    except ValueError:
        return False
    return True


def _short(text: str) -> str:
    return repr(text if len(text) <= 80 else f"{text[:77]}...")
