"""Files become columns and columns become files; names and contents are data, never queries or patterns."""

from concurrent.futures import ThreadPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import duckdb
import numpy as np
import polars as pl
import pytest

from igcf.tabular import engine
from igcf.tabular.columns import column_of, joined
from igcf.tabular.engine import TableFileError, as_file, session
from igcf.tabular.parquet import ParquetFile, write_parquet
from igcf.tabular.records import read_lines
from igcf.tabular.text_files import TextForm, read_text
from igcf.tabular.text_values import moments_in, numbers_in
from igcf.threads import at_most_threads, reading_threads

STRANGE = [
    "a*b",
    "x[1]",
    "x[!a]",
    "q?",
    "it's",
    'say "hi"',
    "a{1,2}",
    "**",
    "back\\slash",
    "; DROP TABLE rows",
    "%20 é",
]


def two_columns(path: Path, **options: object) -> list[list[object]]:
    table = read_text(path, TextForm(["one", "two"], skipped=1), ["one", "two"], **options)  # type: ignore[arg-type]
    return [column.to_list() for column in table]


@pytest.mark.parametrize("name", STRANGE)
def test_a_strange_name_is_that_of_one_file(tmp_path: Path, name: str) -> None:
    """Beside each file there is one that its name, taken for a pattern, would find too."""
    for other in ("a-b", "x1", "xb", "qq", "a1", "anything"):
        (tmp_path / f"{other}.csv").write_text("one,two\nwrong,9\n")
        write_parquet(tmp_path / f"{other}.parquet", {"one": ("VARCHAR", ["wrong"])})
    (tmp_path / f"{name}.csv").write_text("one,two\nright,1\n")
    assert two_columns(tmp_path / f"{name}.csv") == [["right"], [1]]
    write_parquet(tmp_path / f"{name}.parquet", {"one": ("VARCHAR", ["right"])})
    assert ParquetFile(tmp_path / f"{name}.parquet").read()["one"].to_list() == ["right"]


@pytest.mark.parametrize("name", [*STRANGE, "c0", "file_row_number", "rows", "SELECT", "A", "é" * 70])
def test_a_strange_name_of_a_column_is_kept(tmp_path: Path, name: str) -> None:
    columns = {"a": ("BIGINT", [1, None]), name: ("VARCHAR", ["x", 'y"'])}
    write_parquet(tmp_path / "t.parquet", columns)
    file = ParquetFile(tmp_path / "t.parquet")
    assert list(file.types) == ["a", name]
    assert [column.to_list() for column in file.read()] == [[1, None], ["x", 'y"']]
    pl.DataFrame({"a": [1], name: ["x"]}).write_parquet(tmp_path / "other.parquet")
    assert ParquetFile(tmp_path / "other.parquet").read([name])[name].to_list() == ["x"]


def test_a_name_that_is_an_address_or_a_query_reaches_neither(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("http://127.0.0.1:9/x.parquet", "s3://bucket/x.parquet", "(SELECT 1)", "duckdb_settings()"):
        with pytest.raises(TableFileError, match=r"No files found|Cannot open"):
            ParquetFile(Path(name))


def test_the_database_loads_nothing_from_elsewhere() -> None:
    with session() as opened:
        told = dict(opened.rows("SELECT name, value FROM duckdb_settings()"))
        assert told["autoinstall_known_extensions"] == told["autoload_known_extensions"] == "false"
        assert told["python_enable_replacements"] == "false"
    secret = column_of("secret", ["x"])  # a variable of the program is no table
    with pytest.raises(TableFileError, match="secret"), session() as opened:
        opened.rows("SELECT * FROM secret")
    assert len(secret) == 1


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1,2024-01-02\n,03.01.2024\n", ([1, None], [1704153600000000, 1704240000000000])),
        ("007,5\n7,6.5\n", (["007", "7"], [5.0, 6.5])),
        ("1,5\r\n2,6\n3,7\r\n", ([1, 2, 3], [5, 6, 7])),
        ('"a\nb",5\n', (["a\nb"], [5])),
        ('"a ""b""",x\n,\n', (['a "b"', None], ["x", None])),
        ("a\n\nb,1_000\n", (["a", "b"], [None, "1_000"])),
        ("5,1e3\n6,+1\n", ([5, 6], [1000.0, 1.0])),
        ("9223372036854775807,1\n9223372036854775808,1\n", (["9223372036854775807", "9223372036854775808"], [1, 1])),
    ],
)
def test_a_column_of_text_is_as_narrow_as_all_of_its_entries_allow(
    tmp_path: Path, text: str, expected: tuple[list[object], list[object]]
) -> None:
    (tmp_path / "t.csv").write_bytes(b"one,two\n" + text.encode())
    assert two_columns(tmp_path / "t.csv", times=("two",)) == list(expected)


def test_an_entry_far_below_decides_too(tmp_path: Path) -> None:
    """The first thousand rows are looked at first."""
    rows = "".join(f"{row},{row}\n" for row in range(3000))
    (tmp_path / "t.csv").write_text(f"one,two\n{rows}007,x\n")
    one, two = two_columns(tmp_path / "t.csv", numbers=("two",))
    assert one == [*map(str, range(3000)), "007"]
    assert two == [*map(str, range(3000)), "x"]


@pytest.mark.parametrize(
    ("text", "told"),
    [("1,2,3\n", "line 2: Expected Number of Columns: 2"), ('"1,2\n3,4\n', "line 2: Value with unterminated quote")],
)
def test_a_bad_row_is_refused_in_one_line(tmp_path: Path, text: str, told: str) -> None:
    (tmp_path / "t.csv").write_text(f"one,two\n{text}")
    with pytest.raises(TableFileError, match=told) as caught:
        two_columns(tmp_path / "t.csv")
    assert "\n" not in str(caught.value)


def test_the_order_of_rows_is_that_of_the_file(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    words, numbers = [f"w{word}" for word in rng.integers(0, 5000, 300_000)], rng.normal(size=300_000)
    frame = pl.DataFrame({"one": words, "two": numbers})
    frame.write_csv(tmp_path / "t.csv")
    frame.write_parquet(tmp_path / "t.parquet", row_group_size=7_000)
    assert two_columns(tmp_path / "t.csv", numbers=("two",)) == [words, numbers.tolist()]
    file = ParquetFile(tmp_path / "t.parquet")
    assert [column.to_list() for column in file.read()] == [words, numbers.tolist()]
    assert file.read(["one"], 123_456, 20_000)["one"].to_list() == words[123_456:143_456]


def test_what_is_written_has_the_types_that_any_program_reads(tmp_path: Path) -> None:
    write_parquet(
        tmp_path / "t.parquet",
        {
            "whole": ("BIGINT", [2**62 + 1, None, -5]),
            "float": ("DOUBLE", [0.1, None, float("nan")]),
            "array": ("DOUBLE", np.array([1.0, np.nan, np.inf])),
            "single": ("FLOAT", np.array([0.1, 0.2, 0.3], dtype=np.float32)),
            "small": ("INTEGER", np.array([1, 2, 3], dtype=np.int32)),
            "truth": ("BOOLEAN", np.array([True, False, True])),
            "bytes": ("BLOB", [b"\0\xff", None, b""]),
            "list": ("VARCHAR[]", [["a", 'b"', ""], None, []]),
            "things": ("STRUCT(item VARCHAR, n BIGINT)[]", [[{"item": "x", "n": 1}], [], None]),
        },
    )
    frame = pl.read_parquet(tmp_path / "t.parquet")
    assert dict(frame.schema) == {
        "whole": pl.Int64, "float": pl.Float64, "array": pl.Float64, "single": pl.Float32, "small": pl.Int32,
        "truth": pl.Boolean, "bytes": pl.Binary, "list": pl.List(pl.String),
        "things": pl.List(pl.Struct({"item": pl.String, "n": pl.Int64})),
    }  # fmt: skip
    assert frame["whole"].to_list() == [2**62 + 1, None, -5]
    assert str(frame["float"].to_list()) == "[0.1, None, nan]"
    assert str(frame["array"].to_list()) == "[1.0, nan, inf]"
    assert frame["bytes"].to_list() == [b"\0\xff", None, b""]
    assert frame["list"].to_list() == [["a", 'b"', ""], None, []]
    assert frame["things"].to_list() == [[{"item": "x", "n": 1}], [], None]


def test_numbers_and_moments_in_words() -> None:
    values, is_none = numbers_in(["1", " 2.5 ", "1_000", "x", "nan"])
    assert is_none.tolist() == [False, False, True, True, False]
    assert values[:2].tolist() == [1.0, 2.5]
    moments, is_none = moments_in(["1970-01-01T02:00:00+02:00", "1970-01-01 00:00:01.5", "2.1.1970", "1-2-3", "soon"])
    assert moments[~is_none].tolist() == [0, 1_500_000, 86_400_000_000]


def test_columns_of_several_kinds_are_joined_as_what_holds_all() -> None:
    whole, floats, text = column_of("a", [1, None]), column_of("a", [0.5]), column_of("a", ["x"])
    assert joined("a", [whole, floats]).to_list() == [1.0, None, 0.5]
    assert joined("a", [whole, text]).to_list() == ["1", None, "x"]
    assert joined("a", [column_of("a", [None, None]), text]).to_list() == [None, None, "x"]


def test_bytes_are_a_file_and_leave_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    for descriptors in (engine.OWN_DESCRIPTORS, tmp_path / "none"):
        monkeypatch.setattr(engine, "OWN_DESCRIPTORS", descriptors)
        with as_file(b'{"a": 1}\n{"b": 2}\n') as path:
            assert path.read_bytes() == b'{"a": 1}\n{"b": 2}\n'
        assert list(tmp_path.iterdir()) == []
    assert read_lines(b'{"a": 1}\n{"b": 2}\n', {"a": "BIGINT"}) == [{"a": 1}, {"a": None}]


def test_what_cannot_be_written_is_an_error_of_the_file_system(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="no-folder"):
        write_parquet(tmp_path / "no-folder" / "t.parquet", {"a": ("BIGINT", [1])})


def _written_and_read(path: Path) -> int:
    write_parquet(path, {path.stem: ("BIGINT", np.full(1000, int(path.stem)))})
    return int(ParquetFile(path).read()[path.stem].entries.sum()) + len(numbers_in([path.stem] * 5)[0])


def test_threads_write_at_the_same_time(tmp_path: Path) -> None:
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(_written_and_read, (tmp_path / f"{number}.parquet" for number in range(40))))
    assert found == [1000 * number + 5 for number in range(40)]


def test_a_file_that_breaks_the_database_breaks_it_for_nobody_else() -> None:
    with session():
        before = engine._opened[0]
    with pytest.raises(TableFileError, match="broken"), session():
        raise duckdb.InternalException("INTERNAL Error: broken")
    with session() as opened:
        assert opened.rows("SELECT 1") == [(1,)]
    assert engine._opened[0] is not before


def _sum_of(path: Path) -> int:
    return int(ParquetFile(path).read()["n"].entries.sum())


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_threads_and_processes_read_at_the_same_time(tmp_path: Path, method: str) -> None:
    for number in range(4):
        write_parquet(tmp_path / f"{number}.parquet", {"n": ("BIGINT", np.full(1000, number))})
    files = sorted(tmp_path.glob("*.parquet"))
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(_sum_of, files * 5)) == [0, 1000, 2000, 3000] * 5
    with get_context(method).Pool(1) as processes:
        assert processes.map_async(_sum_of, files).get(timeout=120) == [0, 1000, 2000, 3000]


def test_no_more_threads_are_used_than_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        monkeypatch.delenv(name, raising=False)
    assert reading_threads() >= 1
    with at_most_threads(1):
        assert reading_threads() == 1
        with session() as opened:
            assert opened.rows("SELECT current_setting('threads')") == [(1,)]
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    assert reading_threads() == 1
