"""A folder of Parquet files is read piece by piece, and is the same log as one table."""

from datetime import datetime, time
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from igcf.data import load_dataset, log_files
from igcf.data.columns import Columns
from igcf.data.findings import validate
from igcf.data.interactions import MISSING_TIME, Interactions
from igcf.data.reading import read_table
from igcf.errors import DataError


def random_frame(n: int = 500, *, text_ids: bool = True, seed: int = 0) -> pl.DataFrame:
    rng = np.random.default_rng(seed)
    users, items = rng.integers(0, 60, n), rng.integers(-3, 20, n)
    return pl.DataFrame(
        {
            "user": [f"u{user}" for user in users] if text_ids else users,
            "item": items,
            "value": rng.integers(1, 6, n).astype(np.float32),
            "timestamp": rng.integers(0, 100, n),
        }
    )


def written(frame: pl.DataFrame, folder: Path, parts: int = 4) -> Path:
    size = -(-len(frame) // parts)
    for number in range(parts):
        path = folder / f"day={number}" / f"part-{number}.parquet"
        path.parent.mkdir(parents=True)
        frame.slice(number * size, size).write_parquet(path, row_group_size=37)
    return folder


def assert_same(one: Interactions, other: Interactions) -> None:
    assert (one.user_ids, one.item_ids, one.n_duplicates) == (other.user_ids, other.item_ids, other.n_duplicates)
    assert one.fingerprint() == other.fingerprint()


@pytest.mark.parametrize("piece", [1, 50, 1 << 20])
@pytest.mark.parametrize("text_ids", [True, False])
def test_pieces_of_any_size_give_the_log_of_the_whole_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, piece: int, text_ids: bool
) -> None:
    monkeypatch.setattr(log_files, "PIECE_ROWS", piece)
    frame = random_frame(text_ids=text_ids)
    log = load_dataset(written(frame, tmp_path / "log"))
    assert log.n_duplicates > 0
    assert_same(log, read_table(frame))


def test_ids_may_be_numbers_in_one_file_and_text_in_another(tmp_path: Path) -> None:
    one = pl.DataFrame({"user": [10, 9], "item": ["a", "b"], "value": [1, 2]})
    two = pl.DataFrame({"user": ["9", "007"], "item": ["b", "c"], "value": ["3.5", " 4 "]})
    one.write_parquet(tmp_path / "1.parquet")
    two.write_parquet(tmp_path / "2.parquet")
    log = Interactions.from_parquet(tmp_path)
    assert log.user_ids == ("007", "10", "9")
    assert log.values.tolist() == [1.0, 3.5, 4.0]
    assert log.n_duplicates == 1


def test_a_column_may_be_the_name_of_the_folder(tmp_path: Path) -> None:
    for film in ("Heat", "Jules et Jim", "M/W"):
        folder = tmp_path / f"item={film.replace('/', '%2F')}"
        folder.mkdir()
        pl.DataFrame({"user": [1, 2], "value": [5, 3]}).write_parquet(folder / "0.parquet")
    assert Interactions.from_parquet(tmp_path).item_ids == ("Heat", "Jules et Jim", "M/W")


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ([3, None], [5, 6], [3, MISSING_TIME, 5, 6]),
        ([None, None], [5, 6], [MISSING_TIME, MISSING_TIME, 5, 6]),
        ([3.0, 4.0], [5.5, 6.0], [3_000_000, 4_000_000, 5_500_000, 6_000_000]),
        (
            [datetime(1970, 1, 1, 0, 0, 3), None],
            [datetime(1970, 1, 1, 0, 0, 5, 500_000), datetime(1970, 1, 1)],
            [3_000_000, MISSING_TIME, 5_500_000, 0],
        ),
        ([None, None], [None, None], None),
    ],
)
def test_times_have_one_unit_in_all_files(tmp_path: Path, first: Any, second: Any, expected: Any) -> None:
    for number, times in enumerate((first, second)):
        ids = [2 * number, 2 * number + 1]
        pl.DataFrame({"user": ids, "item": ids, "value": ids, "timestamp": times}).write_parquet(
            tmp_path / f"{number}.parquet"
        )
    log = Interactions.from_parquet(tmp_path)
    assert (None if log.timestamps is None else log.timestamps.tolist()) == expected


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda frame: frame.drop("item"), "has no column 'item'; found 'user', 'value', 'timestamp'"),
        (lambda frame: frame.with_columns(value=pl.lit("x")), "'value' is not a number in 125 rows"),
        (lambda frame: frame.with_columns(value=pl.lit(float("nan"))), "first nan in row 1"),
        (lambda frame: frame.with_columns(user=pl.lit(None, pl.String)), "'user' is empty in 125 rows"),
        (lambda frame: frame.with_columns(item=pl.lit(0.5)), "'item' holds fractions in 125 rows, first 0.5 in row 1"),
        (lambda frame: frame.with_columns(timestamp=pl.lit("soon")), "neither a number nor a date"),
        (lambda frame: frame.with_columns(timestamp=pl.lit(time(12))), "neither a number nor a date"),
        (lambda frame: frame.with_columns(timestamp=pl.lit(2**64 - 1, pl.UInt64)), "neither a number nor a date"),
        (lambda frame: frame.with_columns(value=pl.lit(b"5")), "'value' is not a number in 125 rows"),
        (lambda frame: frame.with_columns(user=pl.concat_list("user")), "'user' is of type List(String); expected"),
        (lambda frame: frame.with_columns(timestamp=pl.struct("timestamp")), "'timestamp' is of type Struct"),
        (
            lambda frame: frame.drop("timestamp"),
            "has no column 'timestamp'; found 'user', 'item', 'value', 'day'; give all files the same columns",
        ),
    ],
)
def test_a_bad_part_is_named_in_one_line(tmp_path: Path, change: Any, message: str) -> None:
    folder = written(random_frame(), tmp_path / "log")
    bad = folder / "day=2" / "part-2.parquet"
    change(pl.read_parquet(bad, hive_partitioning=False)).write_parquet(bad)
    with pytest.raises(DataError) as caught:
        load_dataset(folder)
    text = str(caught.value)
    assert text.startswith(str(bad))
    assert message in text
    assert "\n" not in text
    assert not validate(folder).is_usable


def test_parts_may_have_columns_of_different_types(tmp_path: Path) -> None:
    frame = random_frame()
    folder = written(frame, tmp_path / "log")
    part = folder / "day=2" / "part-2.parquet"
    own = pl.read_parquet(part, hive_partitioning=False)
    own = own.with_columns(
        pl.col("user").cast(pl.Categorical),
        pl.col("value").cast(pl.String).cast(pl.Categorical),
        pl.from_epoch("timestamp").dt.replace_time_zone("Asia/Kolkata", ambiguous="earliest").alias("timestamp"),
    )
    own.write_parquet(part)
    assert len(load_dataset(folder).user_ids) == frame["user"].n_unique()
    report = validate(folder)
    assert report.is_usable
    assert (report.n_rows, report.n_users) == (len(frame), frame["user"].n_unique())


def test_a_column_that_is_not_used_may_be_of_any_type(tmp_path: Path) -> None:
    path = tmp_path / "log[1].parquet"  # not a pattern
    frame = random_frame().drop("timestamp").with_columns(tags=pl.lit([1, 2]))
    frame.write_parquet(path)
    assert_same(load_dataset(path), read_table(frame.drop("tags")))
    assert validate(path).is_usable


def test_the_row_of_a_bad_value_counts_from_the_beginning_of_its_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_files, "PIECE_ROWS", 10)
    values = [1.0] * 40
    values[33] = float("inf")
    ids = list(range(40))
    pl.DataFrame({"user": ids, "item": ids, "value": values}).write_parquet(tmp_path / "log.parquet")
    with pytest.raises(DataError, match="first inf in row 34"):
        Interactions.from_parquet(tmp_path / "log.parquet")


def test_a_part_that_is_no_parquet_is_named(tmp_path: Path) -> None:
    folder = written(random_frame(), tmp_path / "log")
    (folder / "day=1" / "part-1.parquet").write_text("user,item\n")
    with pytest.raises(DataError, match=r"part-1\.parquet cannot be read as Parquet"):
        load_dataset(folder)


def test_empty_parts_are_passed_over_and_a_log_of_empty_parts_is_refused(tmp_path: Path) -> None:
    frame = random_frame(40)
    folder = written(frame, tmp_path / "log", parts=2)
    frame.head(0).write_parquet(folder / "a.parquet")
    assert_same(Interactions.from_parquet(folder), read_table(frame))
    (tmp_path / "none").mkdir()
    frame.head(0).write_parquet(tmp_path / "none" / "a.parquet")
    with pytest.raises(DataError, match="has no rows"):
        Interactions.from_parquet(tmp_path / "none")
    with pytest.raises(DataError, match=r"a\.parquet has no column 'who'"):
        load_dataset(tmp_path / "none", columns=Columns(user="who"))
