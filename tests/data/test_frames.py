import gzip
import os
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from igcf.data import Interactions, load_dataset
from igcf.errors import DataError

TABLE = "user,item,value,timestamp\nu2,i1,5,100\nu1,i2,3.5,200\nu2,i2,1,300\n"
FRAME = pl.DataFrame(
    {"user": ["u2", "u1", "u2"], "item": ["i1", "i2", "i2"], "value": [5.0, 3.5, 1.0], "timestamp": [100, 200, 300]}
)


@pytest.fixture
def csv(tmp_path: Path) -> Path:
    path = tmp_path / "log.csv"
    path.write_text(TABLE)
    return path


def refused(path: Path, text: str | bytes, **options: Any) -> str:
    """The one-line message with which a CSV file of this content is refused."""
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(DataError) as caught:
        Interactions.from_csv(path, **options)
    message = str(caught.value)
    assert "\n" not in message
    assert str(path) in message
    return message


def test_csv_and_parquet_give_the_same_log(csv: Path, tmp_path: Path) -> None:
    FRAME.write_parquet(tmp_path / "log.parquet")
    (tmp_path / "log.csv.gz").write_bytes(gzip.compress(TABLE.encode(), mtime=0))
    logs = [
        Interactions.from_csv(csv),
        Interactions.from_csv(tmp_path / "log.csv.gz"),
        Interactions.from_parquet(tmp_path / "log.parquet"),
        Interactions.from_arrays(*FRAME.to_dict(as_series=False).values()),
    ]
    assert len({log.fingerprint() for log in logs}) == 1
    assert logs[0].name == logs[1].name == logs[2].name == "log"
    assert logs[0].timestamps is not None


def test_columns_can_be_named_and_separated_otherwise(tmp_path: Path) -> None:
    path = tmp_path / "log.tsv"
    path.write_text("who\tnothing\twhat\thow\twhen\na\t-\tx\t2\t9\n")
    log = Interactions.from_csv(path, user="who", item="what", value="how", timestamp="when", separator="\t")
    assert (log.user_ids, log.item_ids, log.values.tolist()) == (("a",), ("x",), [2.0])
    assert log.timestamps is not None
    assert log.timestamps.tolist() == [9]


def test_a_byte_order_mark_and_windows_lines_are_no_trouble(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_bytes(b"\xef\xbb\xbf" + TABLE.replace("\n", "\r\n").encode())
    assert Interactions.from_csv(path).values.tolist() == [5, 3.5, 1]


def test_the_name_of_a_file_is_no_pattern(csv: Path, tmp_path: Path) -> None:
    path = csv.rename(tmp_path / "log[1].csv")
    (tmp_path / "log1.csv").write_text("user,item,value\nother,other,1\n")
    assert load_dataset(path).user_ids == ("u1", "u2")


def test_quoted_ids_may_hold_the_separator(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text('user,item,value\n"a, b",x,1\n')
    assert Interactions.from_csv(path).user_ids == ("a, b",)


@pytest.mark.parametrize(
    ("times", "expected"),
    [
        (["1970-01-01 00:00:10", "1970-01-02 00:00:00"], [10, 86_400]),
        (["1970-01-01T00:00:01.5", "1970-01-01T00:00:02.0"], [1_500_000, 2_000_000]),
        (["10.0", "20.0"], [10, 20]),
        (["1.5", "2"], [1_500_000, 2_000_000]),
    ],
)
def test_times_may_be_dates_or_fractions(tmp_path: Path, times: list[str], expected: list[int]) -> None:
    path = tmp_path / "log.csv"
    path.write_text("user,item,value,timestamp\n" + "".join(f"a,{n},1,{time}\n" for n, time in enumerate(times)))
    log = Interactions.from_csv(path)
    assert log.timestamps is not None
    assert log.timestamps.tolist() == expected


def test_a_column_of_times_without_any_is_no_time(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text("user,item,value,timestamp\na,x,1,\nb,x,2,\n")
    assert Interactions.from_csv(path).timestamps is None


def test_a_folder_of_parquet_files_is_one_log(tmp_path: Path) -> None:
    folder = tmp_path / "log"
    for day, part in enumerate((FRAME[:2], FRAME[2:])):
        (folder / f"day={day}").mkdir(parents=True)
        part.write_parquet(folder / f"day={day}" / "part.parquet")
    assert len(Interactions.from_parquet(folder)) == 3


def test_a_missing_column_is_named_beside_those_found(csv: Path, tmp_path: Path) -> None:
    message = refused(csv, TABLE.replace("value", "rating"), value="value")
    assert "no column 'value'; found 'user', 'item', 'rating', 'timestamp'" in message
    FRAME.rename({"item": "film"}).write_parquet(tmp_path / "log.parquet")
    with pytest.raises(DataError, match="no column 'item'; found 'user', 'film', 'value', 'timestamp'"):
        Interactions.from_parquet(tmp_path / "log.parquet", item="item")
    csv.write_text(TABLE)
    with pytest.raises(DataError, match="no column 'when'"):
        Interactions.from_csv(csv, timestamp="when")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (b"", "is empty"),
        (b"\n\n", "is empty"),
        (b"\xef\xbb\xbf", "is empty"),
        ("\u00a0\n", "is empty"),
        ("x" * 300_000 + "\n" + TABLE, "has no line that ends within 262,144 bytes"),
        (TABLE.replace("3.5", "x" * 500), f"first {'x' * 79!r}"[:-1] + "... in row 2"),
        ("user,item,value\n", "has no rows"),
        (TABLE.replace("3.5", "three"), "'value' is not a number in 1 row, first 'three' in row 2"),
        (TABLE.replace("3.5", "NaN"), "first 'NaN' in row 2"),
        (TABLE.replace("3.5", "-inf"), "first '-inf' in row 2"),
        (TABLE.replace("3.5", ""), "first None in row 2"),
        (TABLE.replace("u1", ""), "'user' is empty in 1 row, first in row 2"),
        (TABLE.replace("200", "soon"), "'timestamp' is neither a number nor a date in 1 row, first 'soon'"),
        (TABLE + "u3,i1,1,2,3,4\n", "cannot be read as CSV"),
        (bytes(range(256)) * 8, "is not a text file"),
        (TABLE.encode() + b"u3,i\x81\xfe,1,2\n", "line 5 is neither UTF-8 nor cp1252 text"),
        (gzip.compress(TABLE.encode(), mtime=0)[:-12], "cannot be read"),
        (gzip.compress(TABLE.encode(), mtime=0)[:12] + bytes(99), "cannot be read"),
    ],
)  # fmt: skip
def test_a_bad_file_is_refused_in_one_line(tmp_path: Path, text: str | bytes, expected: str) -> None:
    assert expected in refused(tmp_path / "log.csv", text)


def test_a_wrong_separator_is_told_with_the_one_that_fits(tmp_path: Path) -> None:
    assert "try separator=';'" in refused(tmp_path / "log.csv", TABLE.replace(",", ";"), separator=",")


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no file at"):
        Interactions.from_csv(tmp_path / "nothing.csv")
    for name in ("log.csv", "log.pq"):
        os.mkfifo(tmp_path / name)
        with pytest.raises(DataError, match="is a pipe or a device"):
            load_dataset(tmp_path / name)
    with pytest.raises(DataError, match=r"holds no \.parquet file"):
        Interactions.from_parquet(tmp_path)
    (tmp_path / "log.parquet").write_text(TABLE)
    with pytest.raises(DataError, match="cannot be read as Parquet"):
        Interactions.from_parquet(tmp_path / "log.parquet")


def test_arrays_with_duplicates_are_left_as_they_were() -> None:
    users, items = np.array([1, 1, 2, 1], dtype=np.int32), np.array([5, 5, 5, 6], dtype=np.int32)
    values, times = np.array([1, 2, 3, 4], dtype=np.float32), np.array([1, 2, 3, 4])
    copies = [each.copy() for each in (users, items, values, times)]
    assert Interactions.from_arrays(users, items, values, times).values.tolist() == [2, 3, 4]
    for before, after in zip(copies, (users, items, values, times), strict=True):
        np.testing.assert_array_equal(after, before)
