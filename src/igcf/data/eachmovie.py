"""EachMovie in its two forms; scores are returned on the scale 0 to 5, so that four or more counts as satisfied.

The owner's `Vote.txt` has scores 0.0, 0.2, ... 1.0 (person, movie, score, weight, date; tab-separated, no header);
`eachmovie_triple` has the same scores as 1 ... 6 (movie, user, score; blanks between them).
"""

import gzip
import re
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from igcf.arrays import IntArray
from igcf.data.columns import MICROSECONDS, first_rows
from igcf.data.frames import interactions_from_frame
from igcf.data.interactions import Interactions
from igcf.data.table_files import text_table
from igcf.errors import DataError
from igcf.tabular.columns import Column, Table, as_text
from igcf.tabular.text_values import numbers_in

TRIPLE = ("eachmovie_triple", "eachmovie_triple.gz")
VOTES = ("Vote.txt", "vote.txt")
DATE_FORMATS = (
    "%m/%d/%y %H:%M:%S",
    "%m/%d/%y",
    "%m/%d/%Y %H:%M:%S",
    "%Y-%m-%d %H:%M:%S",
)  # %Y would take 96 for the year 96


def read_eachmovie(path: Path) -> Interactions:
    """Read `eachmovie_triple[.gz]` or `Vote.txt`, or the folder that holds one of them."""
    file = path
    if path.is_dir():
        found = next((path / name for name in (*VOTES, *TRIPLE) if (path / name).exists()), None)
        if found is None:
            raise DataError(f"{path} holds no eachmovie_triple, eachmovie_triple.gz or Vote.txt")
        file = found
    frame = _votes(file) if file.name in VOTES else _triples(file)
    return interactions_from_frame(frame, name="eachmovie", source=str(file))


def _triples(path: Path) -> Table:
    table = re.sub(rb"[ \t]+", b"\t", _content(path))
    frame = text_table(table, str(path), separator="\t", names=("item", "user", "score"))
    return _with_values(path, frame, shift=-1.0, lowest=1.0, highest=6.0)


def _votes(path: Path) -> Table:
    names = ("user", "item", "score", "weight", "date")
    frame = text_table(_content(path), str(path), separator="\t", names=names)
    frame = _with_values(path, frame, scale=5.0, lowest=0.0, highest=1.0)
    if "date" not in frame.names:
        return frame
    dates = as_text(frame["date"])
    moments = next((found for form in DATE_FORMATS if (found := _moments(dates.words, form)) is not None), None)
    if moments is None or not dates.words:
        return frame
    return frame.with_column(Column("timestamp", "time", moments[dates.entries], dates.missing))


def _moments(words: Sequence[str], form: str) -> IntArray | None:
    """Return the moment of each date in microseconds since 1970; None where one has another form."""
    try:
        dates = [datetime.strptime(word, form).replace(tzinfo=UTC) for word in words]
    except ValueError:
        return None
    return np.array([int(date.timestamp()) * MICROSECONDS for date in dates], dtype=np.int64)


def _with_values(
    path: Path, frame: Table, *, scale: float = 1.0, shift: float = 0.0, lowest: float, highest: float
) -> Table:
    text = as_text(frame["score"])
    found, is_none = numbers_in(text.words)
    scores = found[text.entries] if text.words else np.zeros(len(text))
    good = ~text.is_missing & (scores >= lowest) & (scores <= highest)
    good &= ~is_none[text.entries] if text.words else False
    if not good.all():
        row = first_rows(~good)[0]
        raise DataError(
            f"{path}: {(~good).sum()} scores are not between {lowest} and {highest}, "
            f"first {text[row - 1]!r} in row {row}"
        )
    return frame.with_column(Column("value", "float", scores * scale + shift))


def _content(path: Path) -> bytes:
    try:
        content = path.read_bytes()
        return gzip.decompress(content) if content[:2] == b"\x1f\x8b" else content
    except (OSError, EOFError) as error:
        raise DataError(f"{path} cannot be read: {error}") from error
