"""Reading the files of an audit: journals, whose lines are JSON, and Parquet files of the same columns."""

from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

from igcf.errors import StoreError

if TYPE_CHECKING:
    import polars as pl

JOURNAL, TABLE = ".jsonl", ".parquet"


def read_answers_of(path: Path) -> "pl.DataFrame":
    """Read the answers in one file; refuses one that is damaged or of another kind."""
    import polars as pl

    with readable(path):
        frame = frame_of(path.read_bytes()) if path.suffix == JOURNAL else pl.read_parquet(path)
    if dict(frame.schema) != schema():
        raise StoreError(f"{path} is no file of an audit: it has other columns; move it out of the folder")
    return frame


@contextmanager
def readable(path: Path) -> Iterator[None]:
    """Say of what cannot be read which file it is, and what to do."""
    import polars as pl

    try:
        yield
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        reason = (str(error).splitlines() or ["no reason given"])[0]
        raise StoreError(f"{path} of the audit is damaged: {reason}; move it out of the folder") from error


def frame_of(journal: bytes) -> "pl.DataFrame":
    """Read a journal; what a crash left of a last line is no answer."""
    import polars as pl

    whole = journal[: journal.rfind(b"\n") + 1]
    return pl.read_ndjson(BytesIO(whole), schema=schema()) if whole else pl.DataFrame(schema=schema())


def schema() -> "dict[str, pl.DataType]":
    """Name the columns of the audit and their types."""
    import polars as pl

    numbers = {name: pl.Float64() for name in ("score", "mean", "std", "chance")}
    item = {"item": pl.String(), **numbers, "mean_rank": pl.Int64(), "reason": pl.String(), "propensity": pl.Float64()}
    texts = {name: pl.String() for name in ("recommendation_id", "user_id", "model")}
    return {
        **texts,
        "revision": pl.Int64(),
        "policy": pl.String(),
        "propensity": pl.String(),
        "items": pl.List(pl.Struct(item)),
        "time": pl.Float64(),
    }
