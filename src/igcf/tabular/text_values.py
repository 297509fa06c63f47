"""What text says: numbers and moments, in a query over a file's column or over a list of words."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from igcf.arrays import BoolArray
from igcf.tabular.engine import session

LARGEST = 3.4028235e38
"""Largest number in single precision."""
DAY_FIRST = tuple(
    f"%d{sign}%m{sign}%Y{time}"
    for sign in "./-"
    for time in ("", " %H:%M", " %H:%M:%S", "T%H:%M", "T%H:%M:%S", " %H:%M:%S.%f", "T%H:%M:%S.%f")
)
YEAR_FIRST_WITH_DOTS = ("%Y.%m.%d", "%Y.%m.%d %H:%M", "%Y.%m.%d %H:%M:%S")
FORMATS = ", ".join(f"'{form}'" for form in (*DAY_FIRST, *YEAR_FIRST_WITH_DOTS))


def number_of(column: str) -> str:
    """Say in a query which number a column of text holds; null where it holds none. `1_000` is none."""
    return f"CASE WHEN contains({column}, '_') THEN NULL ELSE TRY_CAST({column} AS DOUBLE) END"


def moment_of(column: str) -> str:
    """Say in a query which moment, in microseconds since 1970, a column of text holds; null where it holds none."""
    return (
        rf"CASE WHEN regexp_matches({column}, '^\d{{4}}[-/]\d{{1,2}}[-/]\d{{1,2}}') "
        f"THEN epoch_us(TRY_CAST({column} AS TIMESTAMPTZ)) "
        rf"WHEN regexp_matches({column}, '^(\d{{1,2}}[./-]\d{{1,2}}[./-]\d{{4}}|\d{{4}}[.]\d)') "
        f"THEN epoch_us(try_strptime({column}, [{FORMATS}])) END"
    )


def is_whole(column: str) -> str:
    """Say in a query whether text is a whole number as a program writes it: `007` and `+7` are not."""
    return f"coalesce(TRY_CAST({column} AS BIGINT)::VARCHAR = {column}, false)"


def numbers_in(words: Sequence[str]) -> tuple[npt.NDArray[np.float64], BoolArray]:
    """Return the number that each word is, and which are none."""
    return _read(words, number_of("word"), np.float64)


def moments_in(words: Sequence[str]) -> tuple[npt.NDArray[np.int64], BoolArray]:
    """Return the moment that each word is, in microseconds since 1970, and which are none."""
    return _read(words, moment_of("word"), np.int64)


def _read(words: Sequence[str], query: str, kind: type) -> tuple[npt.NDArray[Any], BoolArray]:
    if not words:
        return np.empty(0, dtype=kind), np.empty(0, dtype=np.bool_)
    with session() as opened:
        opened.lend("words", {"word": np.array(words, dtype=object)})
        (found,) = opened.arrays(f"SELECT {query} AS found FROM words")
    return np.ma.getdata(found).astype(kind), np.ma.getmaskarray(found)
