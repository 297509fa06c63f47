"""Logs as other programs export them: right counts, or a refusal with the row and the remedy."""

import codecs
import gzip
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from igcf.data import Interactions, load_dataset, quoting, reading, text_tables
from igcf.data.columns import Columns
from igcf.data.findings import validate
from igcf.data.items import read_items
from igcf.errors import DataError
from tools.repeated_log import block_of_rows, validated, write_repeated

N = 302
IDS = [f"{number:04d}" for number in range(60)]


def rows(separator: str = ",", *, quote: str = "", header: str = "user,item,value,date") -> list[str]:
    """Lines of a log of 302 reactions of 50 users, no pair twice."""
    lines = [quote + header.replace(",", f"{quote}{separator}{quote}") + quote]
    for number in range(N):
        cells = (f"u{number % 50}", IDS[(number // 50 * 7 + number) % 60], str(number % 10 + 1), "2024-05-01")
        lines.append(separator.join(f"{quote}{cell}{quote}" for cell in cells))
    return lines


def written(path: Path, lines: list[str], end: str = "\n", encoding: str = "utf-8") -> Path:
    path.write_bytes((end.join(lines) + end).encode(encoding))
    return path


def kinds(path: Path, **options: object) -> dict[str, tuple[int, tuple[int, ...]]]:
    report = validate(path, Columns.of(options))
    return {defect.kind: (defect.count, defect.rows) for defect in report.defects}


def backslashes(lines: list[str]) -> list[str]:
    for row in (100, 300):
        lines[row] = f'"u{row}";"\\"0210000010";"8";"2024-05-01"'
    return lines


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_tables.TextTable._blocks, "__defaults__", (1000,))


@pytest.mark.usefixtures("small_blocks")
def test_quotes_escaped_by_backslashes_lose_no_row(tmp_path: Path) -> None:
    path = written(tmp_path / "log.csv", backslashes(rows(";", quote='"')))
    report = validate(path)
    assert (report.n_rows, report.is_usable) == (N, True)
    assert kinds(path)["escaped-quotes"] == (2, (100, 300))
    log = load_dataset(path)
    assert len(log) == N
    assert '"0210000010' in log.item_ids


@pytest.mark.parametrize(
    "comment", ['"{}', '"no""te{}', '"no\\\\"te{}', '"he said "hi" {}', '7" disk {}', '"{}"x', '"C:\\\\{}\\\\"']
)
def test_an_odd_quote_in_every_row_loses_no_row_and_costs_no_search(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, comment: str
) -> None:
    read, n_read = quoting.Grammar.cells, [0]

    def counted(grammar: quoting.Grammar, text: str) -> tuple[list[str], str] | None:
        n_read[0] += len(text)
        return read(grammar, text)

    monkeypatch.setattr(quoting.Grammar, "cells", counted)
    lines = rows(header="user,item,value,date,comment")
    lines[1:] = [f"{line},{comment.format(number)}" for number, line in enumerate(lines[1:])]
    assert len(load_dataset(written(tmp_path / "log.csv", lines))) == N
    assert n_read[0] < 6 * sum(map(len, lines))


def test_the_time_to_read_an_odd_line_does_not_explode_with_its_columns() -> None:
    grammar = quoting.Grammar(",", 40)
    line = ",".join([' "a" '] * 39) + ', "b" c,d'
    assert grammar.cells(line) is None
    assert not grammar.may_go_on(line)


def test_an_opening_quote_that_nothing_closes_swallows_no_row(tmp_path: Path) -> None:
    lines = rows(";")
    lines[5] = 'u5;"0005;3;2024-05-01'
    lines[9] = 'u9;00"09;4;2024-05-01'
    path = written(tmp_path / "log.csv", lines)
    assert len(load_dataset(path)) == N
    assert '"0005' in load_dataset(path).item_ids
    assert kinds(path)["stray-quotes"] == (1, (5,))
    assert kinds(path)["escaped-quotes"] == (1, (9,))


@pytest.mark.usefixtures("small_blocks")
def test_a_comment_may_span_lines_and_an_id_may_not(tmp_path: Path) -> None:
    lines = [f'{line},"a note\nthat goes on, and\n{number} ""ends"""' for number, line in enumerate(rows())]
    lines[0] = rows()[0] + ",comment"
    path = written(tmp_path / "log.csv", lines)
    assert len(load_dataset(path)) == N
    assert kinds(path)["several-lines"][0] == N
    lines = rows()
    lines[7] = 'u7,"00\n07",3,2024-05-01'
    with pytest.raises(
        DataError, match=r"row 7 has a quoted field in column 'item' that spans 2 lines.*write it twice"
    ):
        load_dataset(written(path, lines))
    assert not validate(path).is_usable


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.usefixtures("small_blocks")
def test_lines_may_end_in_any_way(tmp_path: Path, end: str) -> None:
    for quote in ("", '"'):
        log = load_dataset(written(tmp_path / "log.csv", rows(quote=quote), end))
        assert len(log) == N
        assert log.item_ids[0] == "0000"


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "cp1252", "utf-32"])
@pytest.mark.usefixtures("small_blocks")
def test_the_encoding_is_found_and_said(tmp_path: Path, encoding: str) -> None:
    lines = [line.replace("u7,", "Zoë,") for line in rows()]
    log = load_dataset(written(tmp_path / "log.csv", lines, encoding=encoding))
    assert (len(log), "Zoë" in log.user_ids) == (N, True)
    assert log.layout is not None
    assert f"encoding: {encoding.removesuffix('-sig')}" in log.layout.sentence


def test_an_encoding_may_be_named_and_a_wrong_one_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path / "log.csv", [line.replace("u7", "ゾエ") for line in rows()], encoding="shift_jis")
    assert "ゾエ" in load_dataset(path, columns=Columns(encoding="shift_jis")).user_ids
    with pytest.raises(DataError, match="name its encoding with encoding="):
        load_dataset(path, columns=Columns(encoding="utf-8"))
    with pytest.raises(DataError, match="there is no text encoding 'klingon'"):
        load_dataset(path, columns=Columns(encoding="klingon"))
    cut = ("\n".join(line.replace("u7", "Zoë") for line in rows()) + "\nZo").encode() + "ë".encode()[:1]
    path.write_bytes(cut)
    with pytest.raises(DataError, match="line 304 is not UTF-8, the file ends in the middle of a character"):
        load_dataset(path)
    path.write_bytes(codecs.BOM_UTF16_LE + b"u\x00,\x00i")
    with pytest.raises(DataError, match="is not utf-16 text"):
        load_dataset(path)


@pytest.mark.parametrize(
    ("write", "expected", "said"),
    [
        (lambda value: f"{value / 2:.1f}".replace(".", ","), 0.5, "decimal comma"),
        (lambda value: f"{1234.5 * value:,.1f}", 1234.5, "thousands separator ','"),
        (lambda value: f"{1000 * value:,}".replace(",", "."), 1000, None),
        (lambda value: f"{1234567 * value:,}".replace(",", "."), 1234567, "decimal comma, thousands separator '.'"),
        (lambda value: f"{12345 * value:,}".replace(",", " "), 12345, "thousands separator ' '"),
        (lambda value: f"{12345 * value:,}".replace(",", "\u202f"), 12345, "thousands separator ' '"),
        (lambda value: f" {value} ", 1, None),
    ],
)
def test_numbers_may_have_decimal_commas_and_thousands_separators(
    tmp_path: Path, write: Callable[[int], str], expected: float, said: str | None
) -> None:
    lines = rows(";")
    for number in range(N):
        cells = lines[number + 1].split(";")
        lines[number + 1] = ";".join([*cells[:2], write(number % 10 + 1), cells[3]])
    log = load_dataset(written(tmp_path / "log.csv", lines))
    if said is None and expected == 1000:  # 1.000 is one, unless something else says otherwise
        expected = 1
    np.testing.assert_allclose(log.values, np.float32(expected) * (np.arange(N) % 10 + 1), rtol=1e-6)
    assert log.layout is not None
    assert (said or "columns") in log.layout.sentence


def test_numbers_that_contradict_those_before_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_tables.TextTable._blocks, "__defaults__", (1000,))
    lines = [line.replace(";1;", ";1.5;") for line in rows(";")]
    lines[N] = "u1;x;2,5;2024-05-01"
    with pytest.raises(DataError, match="'value' is not a number in 1 row, first '2,5' in row 302"):
        load_dataset(written(tmp_path / "log.csv", lines))


@pytest.mark.parametrize(
    "form",
    [
        "%Y-%m-%d",
        "%d.%m.%Y",
        "%m/%d/%Y",
        "%d/%m/%Y %H:%M",
        "%d %b %Y",
        "%Y%m%d",
        "%Y-%m-%dT%H:%M:%S+02:00",
        "%b %d, %Y",
    ],
)
def test_dates_in_many_formats_are_the_same_days(tmp_path: Path, form: str) -> None:
    days = pl.date_range(pl.date(2024, 1, 1), pl.date(2024, 12, 30), eager=True).to_list()
    lines = ["user,item,value,date", *(f'u,{number},1,"{day.strftime(form)}"' for number, day in enumerate(days))]
    log = load_dataset(written(tmp_path / "log.csv", lines))
    assert log.timestamps is not None
    assert set(np.diff(log.timestamps).tolist()) == {86_400}
    assert log.timestamps[log.item_row["0"]] - 1_704_067_200 in (0, -7200)
    assert "ambiguous-dates" not in kinds(tmp_path / "log.csv")


def test_dates_whose_day_and_month_could_be_exchanged_are_warned_about(tmp_path: Path) -> None:
    lines = ["user,item,value,date", *(f"u,{day},1,{day:02d}/0{day % 9 + 1}/2024" for day in range(1, 13))]
    assert kinds(written(tmp_path / "log.csv", lines))["ambiguous-dates"] == (1, ())


@pytest.mark.parametrize(
    "header",
    [
        "Kunde,Artikel,Bewertung,Datum",
        "usuario,película,puntuación,fecha",
        "用户,商品,评分,时间",
        "utilisateur,produit,note,date",
    ],
)
def test_headers_in_other_languages_are_known(tmp_path: Path, header: str) -> None:
    wide = [f"{line},x{number},y" for number, line in enumerate(rows(header=header))]
    log = load_dataset(written(tmp_path / "log.csv", wide))
    assert log.layout is not None
    assert (log.layout.user, log.layout.item, log.layout.value, log.layout.timestamp) == tuple(header.split(","))
    assert log.layout.guessed == ()


def test_a_second_column_of_ids_is_not_taken_for_values_or_times(tmp_path: Path) -> None:
    lines = ["user,user_id,item,value", *(f"name{n % 50},{n % 50},{n},{n % 5}" for n in range(N))]
    layout = load_dataset(written(tmp_path / "log.csv", lines)).layout
    assert layout is not None
    assert (layout.value, layout.timestamp, layout.unused) == ("value", None, ("user_id",))


def test_a_first_line_that_may_be_a_row_is_said(tmp_path: Path) -> None:
    path = written(tmp_path / "log.csv", ["ann,tea", "bob,milk", "eve,water"])
    assert kinds(path)["guessed-header"] == (1, ())
    assert len(load_dataset(path, columns=Columns(has_header=False))) == 3
    assert len(load_dataset(written(path, ["ann,tea", "bob,tea", "eve,water"]))) == 3  # `tea` stands below again


@pytest.mark.parametrize("ending", [".gz", ".zst"])
def test_compressed_files_are_read(tmp_path: Path, ending: str) -> None:
    plain, packed = written(tmp_path / "log.csv", rows(quote='"')), tmp_path / f"log.csv{ending}"
    if ending == ".gz":
        packed.write_bytes(gzip.compress(plain.read_bytes()))
    else:
        pl.read_csv(plain, infer_schema=False).write_csv(packed, compression="zstd", quote_style="always")
    assert packed.read_bytes()[:2] != b'"u'
    assert load_dataset(packed).fingerprint() == load_dataset(plain).fingerprint()


@pytest.mark.parametrize("line", ["ann,tea,5\n", "\n", "x"])
def test_a_compressed_file_that_expands_hugely_is_refused_before_it_is_read_to_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: str
) -> None:
    """A gzip bomb ended in an abort: the rows of 10 MB fill all memory."""
    monkeypatch.setattr(text_tables, "MOST_EXPANDED", 1_000_000)
    path = tmp_path / "log.csv.gz"
    path.write_bytes(gzip.compress(b"user,item,value\nbob,tea,4\n" + line.encode() * (12_000_000 // len(line))))
    with pytest.raises(DataError, match=r"expands to more than [\d,]+ bytes, 200 times|has no line that ends within"):
        load_dataset(path)
    assert not validate(path).is_usable


def test_a_last_line_that_was_cut_off_is_a_row_with_a_warning_or_refused(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text("\n".join([*rows(), "u1,0059,4"]))
    assert kinds(path)["short-row"] == (1, (303,))
    assert len(load_dataset(path)) == N + 1
    path.write_text("\n".join([*rows(), "u1,0059"]))
    with pytest.raises(DataError, match="'value' is empty in 1 row, first None in row 303"):
        load_dataset(path)
    path.write_text("\n".join([*rows(quote='"'), '"u1","00']))
    with pytest.raises(DataError, match="first row 303 with 2"):
        load_dataset(path)


def test_a_row_with_too_many_columns_is_refused_with_its_number_and_the_remedy(tmp_path: Path) -> None:
    lines = rows()
    lines[8] = "u1,0059,3,5,2024-05-01"
    with pytest.raises(DataError, match=r"number of columns than 4, first row 8 with 5.*quote fields that hold"):
        load_dataset(written(tmp_path / "log.csv", lines))


@pytest.mark.parametrize("separator", ["||", "§", "^", "]", "::", "\\"])
def test_any_separator_may_be_named(tmp_path: Path, separator: str) -> None:
    path = written(tmp_path / "log.txt", [line.replace(",", separator) for line in rows()])
    assert len(load_dataset(path, columns=Columns(separator=separator))) == N


def test_blank_lines_are_no_rows(tmp_path: Path) -> None:
    lines = rows(quote='"')
    lines[50:50] = ["", ""]
    assert len(load_dataset(written(tmp_path / "log.csv", [*lines, "", ""]))) == N


@pytest.mark.parametrize("bad", ["a\x07b", "a\x85b", "a\tb"])
def test_control_characters_in_ids_are_refused_with_the_row(tmp_path: Path, bad: str) -> None:
    lines = rows()
    lines[3] = f'u3,"{bad}",3,2024-05-01'
    with pytest.raises(
        DataError, match=r"'item' holds a control character in 1 row, first '.*' in row 3; an id is plain"
    ):
        load_dataset(written(tmp_path / "log.csv", lines))
    frame = {"user": ["ann", bad], "item": ["x", "y"], "value": [1, 2]}
    with pytest.raises(DataError, match=r"'user' holds a control character in 1 row, first .* in row 2"):
        Interactions.from_frame(frame)


def zeros(path: Path) -> Path:
    """A scale of 1 to 10, of which 8 is the most frequent, and twice as many zeros."""
    grades = [number for number in range(1, 11) for _ in range(10 - abs(8 - number))]
    values = (grades + [0] * 2 * len(grades)) * 3
    lines = ["user,item,value", *(f"u{n % 40},i{n // 40 + n % 7},{value}" for n, value in enumerate(values))]
    return written(path, lines)


def test_zeros_beside_a_scale_are_warned_about_and_can_mean_no_opinion(tmp_path: Path) -> None:
    path = zeros(tmp_path / "log.csv")
    report = validate(path)
    (spike,) = (defect for defect in report.defects if defect.kind == "unrated")
    assert "'value' is 0 in 66.7 % of the rows, beside a scale of 1 to 10" in spike.message
    assert "unrated= 0" in spike.message
    log = load_dataset(path, columns=Columns(unrated=0))
    assert "unrated" not in {defect.kind for defect in log.defects}
    assert np.isnan(log.values).mean() > 0.5
    told = validate(path, Columns(unrated=0)).success
    assert told is not None
    assert told.n_unrated == np.isnan(log.values).sum()
    assert told.sentence.endswith("more without an opinion")


def test_stars_plays_thumbs_and_a_scale_with_zero_are_not_warned_about(tmp_path: Path) -> None:
    scales: dict[str, Sequence[float]] = {
        "stars": [1] * 5 + [2] * 8 + [3] * 20 + [4] * 30 + [5] * 60,
        "halves": [0.5] * 3 + [1] * 4 + [2] * 5 + [3] * 9 + [5] * 9,
        "with zero": [0] * 10 + [1] * 8 + [2] * 12 + [3] * 30 + [4] * 30 + [5] * 10,
        "plays": [0] * 100 + [1] * 40 + [2] * 20 + [3] * 10 + [4] * 5,
        "thumbs": [0] * 80 + [1] * 20,
    }
    for name, values in scales.items():
        lines = ["user,item,value", *(f"u{n},i{n},{value}" for n, value in enumerate(values))]
        assert "unrated" not in kinds(written(tmp_path / f"{name}.csv", lines)), name
    for strange in (-1, 99):
        lines = ["user,item,value", *(f"u{n},i{n},{n % 5 + 1 if n % 3 else strange}" for n in range(90))]
        assert kinds(written(tmp_path / "log.csv", lines))["unrated"] == (30, ())


def test_many_zeros_below_a_scale_that_falls_slowly_are_warned_about(tmp_path: Path) -> None:
    values = [0] * 200 + [1] * 30 + [2] * 20 + [3] * 25 + [4] * 15 + [5] * 10
    lines = ["user,item,value", *(f"u{n % 30},i{n},{value}" for n, value in enumerate(values))]
    assert kinds(written(tmp_path / "log.csv", lines))["unrated"] == (200, ())


DAMAGED: dict[str, tuple[bytes, str]] = {
    "gz without its end": (gzip.compress("\n".join(rows()).encode())[:-40], "ended before the end-of-stream marker"),
    "gz with more behind it": (gzip.compress(b"user,item\na,b\n") + b"garbage", "cannot be read: Not a gzipped file"),
    "zero byte in an id": ("\n".join([*rows(), "u\0,0001,1,2024-05-01"]).encode(), "control character|zero bytes"),
    "utf-8, then latin-1": ("Zoë,x,1\n".encode() + "Zoë,y,1\n".encode("latin-1"), "line 2 is not UTF-8, lines before"),
    "utf-16 with half a character": ("a,b,1\n".encode("utf-16")[:-1], "is not utf-16 text"),
    "a comment in the middle": ("\n".join([*rows()[:9], "# note", *rows()[9:]]).encode(), "'item' is empty.*row 9"),
    "a total at the end": ("\n".join([*rows(), "TOTAL,,1666,"]).encode(), "'item' is empty in 1 row.*row 303"),
    "the header again": ("\n".join([*rows(), rows()[0]]).encode(), "first 'date' in row 303"),
    "another separator at the end": ("\n".join([*rows(), "u1;1;1;1"]).encode(), "'item' is empty.*row 303"),
    "more columns than in the header": (b"user,item\n" + b"a,b,\n" * 9, "9 rows with .* 2, first row 1 with 3"),
    "decimal commas between commas": (b"user,item,value\na,b,1,5\nc,d,2,5\n", "first row 1 with 4"),
    "decimal commas and points": (b"user;item;value\na;b;1,5\nc;d;2.5\n", "is not a number in 1 row"),
    "two columns of one name": (b"user,item,item\na,b,c\n", "two columns called 'item'"),
    "one column": (b"item\na\nb\n", "has 1 column .* none for the users"),
    "words for numbers": ("user,item,stars\na,b,★★\n".encode(), "'stars' is not a number in 1 row.*row 1"),
    "lines broken in an unquoted text": (b"user,item,value,text\na,b,1,x\ny\n", "'item' is empty in 1 row.*row 2"),
    "a day that does not exist": ("\n".join([*rows(), "u1,x,1,2024-02-31"]).encode(), "nor a date in 1 row.*row 303"),
}  # fmt: skip


@pytest.mark.parametrize("what", DAMAGED)
def test_a_damaged_file_is_refused_with_the_place(tmp_path: Path, what: str) -> None:
    content, message = DAMAGED[what]
    path = tmp_path / ("log.csv.gz" if what.startswith("gz") else "log.csv")
    path.write_bytes(content)
    with pytest.raises(DataError, match=message):
        load_dataset(path)
    assert not validate(path).is_usable


END = ("\n", "\r\n")
ODD: dict[str, bytes] = {
    "ids of 5,000 letters": "\n".join(["u" * 5000 + line[1:] for line in rows()]).encode(),
    "ids of 30 digits": "\n".join([line.replace("u", "9" * 30, 1) for line in rows()]).encode(),
    "separators at all ends": "".join(f"{line},\n" for line in rows()).encode(),
    "gz of two parts": gzip.compress("".join(f"{line}\n" for line in rows()[:99]).encode())
    + gzip.compress("\n".join(rows()[99:]).encode()),
    "line ends of two kinds": "".join(f"{line}{END[n % 2]}" for n, line in enumerate(rows())).encode(),
    "no header": "\n".join(rows()[1:]).encode(),
    "letters that end lines elsewhere": "\n".join(f"{line},a\u2028b\x85c\x0bd" for line in rows()).encode(),
    "a line of 300,000 letters": "\n".join(f"{line},{'x' * 300_000 * ('u7' in line)}" for line in rows()).encode(),
    "two byte order marks": codecs.BOM_UTF8 * 2 + "\n".join(rows()).encode(),
    "dates of four formats": "\n".join(
        line.replace("2024-05-01", ("2024-05-01", "01.05.2024", "2024/05/01 10:00", '"May 1, 2024"')[n % 4])
        for n, line in enumerate(rows())
    ).encode(),
}  # fmt: skip


@pytest.mark.parametrize("what", ODD)
def test_an_odd_file_is_read_whole(tmp_path: Path, what: str) -> None:
    path = tmp_path / "log.csv"
    path.write_bytes(ODD[what])
    report = validate(path)
    assert (report.n_rows, report.n_users, report.n_items, report.is_usable) == (N, 50, 60, True)


@pytest.mark.parametrize(
    ("before", "lines"),
    [
        (["sep=;"], rows(";")),
        (['"sep=;"', ""], rows(";", quote='"')),
        ([], [",".join(("", line, "")) for line in rows()]),  # columns without a name around the others
        ([], ["  ".join(line.split(",")) for line in rows()]),
    ],
)
def test_what_spreadsheets_add_costs_no_row(tmp_path: Path, before: list[str], lines: list[str]) -> None:
    log = load_dataset(written(tmp_path / "log.csv", [*before, *lines]))
    assert log.fingerprint() == load_dataset(written(tmp_path / "plain.csv", rows())).fingerprint()


@pytest.mark.parametrize(
    ("before", "message"),
    [
        ("# exported by hand", "the first line, '# exported by hand', has one column and lines below it 4; remove"),
        ('{"user": 1, "item": 2}', "holds JSON, HTML or XML"),
        ("<!DOCTYPE html>", "holds JSON, HTML or XML"),
    ],
)
def test_what_is_no_table_or_comes_before_one_is_refused(tmp_path: Path, before: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        load_dataset(written(tmp_path / "log.csv", [before, *rows()]))


def test_utf_16_without_a_mark_is_refused_with_the_remedy_and_read_when_named(tmp_path: Path) -> None:
    path = written(tmp_path / "log.csv", rows(), encoding="utf-16-le")
    with pytest.raises(DataError, match="needs encoding= "):
        load_dataset(path)
    assert len(load_dataset(path, columns=Columns(encoding="utf-16-le"))) == N


def test_true_and_false_are_values(tmp_path: Path) -> None:
    lines = ["user,item,liked", *(f"u{n % 9},i{n},{n % 3 == 0}" for n in range(60))]
    assert load_dataset(written(tmp_path / "log.csv", lines)).values.sum() == 20


@pytest.mark.parametrize("twin", ["e\u0301", "\u00e9\u200b", "\u00e9\u00a0", "\u00c9"])
def test_ids_that_look_alike_are_warned_about(tmp_path: Path, twin: str) -> None:
    lines = ["user,item,value", *(f"{user},i{n},{n % 5}" for n in range(9) for user in ("\u00e9", twin, "ann"))]
    assert kinds(written(tmp_path / "log.csv", lines))["similar-ids"] == (18, (1, 2, 4, 5, 7))


def test_thin_logs_can_be_cut_to_items_and_users_with_enough_reactions(tmp_path: Path) -> None:
    lines = ["user,item,value", *(f"u{n % 20},i{n % 7},{n % 5}" for n in range(140)), "u1,rare,5", "single,i1,3"]
    path = written(tmp_path / "log.csv", lines)
    log = load_dataset(path, columns=Columns(min_item_reactions=2, min_user_reactions=2))
    assert (log.n_items, log.n_users, [item.id for item in log.rare_items]) == (7, 20, ["rare"])
    assert "7 of 8 items with at least 2 reactions" in validate(path, Columns(min_item_reactions=2)).notes[0]
    table = pl.DataFrame({"id": ["i1", "rare"], "title": ["One", "Rare"], "genres": ["a|b", "c"]})
    (rare,) = log.with_items(table).rare_items
    assert (rare.title, rare.categories) == ("Rare", ("c",))
    with pytest.raises(DataError, match="no reaction of log is left with min_item_reactions= 999"):
        load_dataset(path, columns=Columns(min_item_reactions=999))


def test_titles_with_quotes_are_read_and_compared_with_the_log(tmp_path: Path) -> None:
    log = written(tmp_path / "log.csv", ["user,item,value", "a,1,5", "b,2,4", "a,3,1"])
    table = written(
        tmp_path / "items.csv", ["id;title;genres", '1;"Weird Al" Yankovic;Comedy', '2;"5"" Disk";A|B', "9;Nobody's;C"]
    )
    found = read_items(table)
    assert [item.title for item in found.items] == ['"Weird Al" Yankovic', '5" Disk', "Nobody's"]
    report = validate(log, items=table)
    told = {defect.kind: defect.message for defect in report.defects}
    assert told["items-without-title"].startswith("1 of 3 items of the log have no title")
    assert told["unknown-items"].startswith("1 of 3 items of the table are not in the log")
    written(table, ["id,title", "1,Café"], encoding="cp1252")
    assert read_items(table).by_id["1"].title == "Café"
    written(table, ["id,title", "1,Tea", ",Nothing", "1,Green tea"])
    assert {each.kind: each.rows for each in read_items(table).defects} == {
        "item-without-id": (2,), "duplicate-item": (3,)
    }  # fmt: skip
    assert load_dataset(log, items=table).titles == ("Green tea", "2", "3")
    written(table, ["id,title", '"1\n2",x'])
    with pytest.raises(DataError, match="'id' that spans 2 lines"):
        read_items(table)


def test_a_folder_of_text_files_is_one_log(tmp_path: Path) -> None:
    whole = load_dataset(written(tmp_path / "log.csv", rows()))
    (tmp_path / "log").mkdir()
    lines = rows()
    for number, part in enumerate((lines[1:100], lines[100:])):
        written(tmp_path / "log" / f"{number}.csv", [lines[0], *part])
    assert load_dataset(tmp_path / "log").fingerprint() == whole.fingerprint()


def test_files_of_a_folder_that_are_not_read_are_said(tmp_path: Path) -> None:
    lines = rows()
    written(tmp_path / "a.csv", lines[:100])
    written(tmp_path / "b.xlsx", lines)
    written(tmp_path / "_SUCCESS", [""])
    assert kinds(tmp_path)["unread-files"] == (1, ())
    pl.DataFrame({"user": ["a"], "item": ["b"], "value": [1]}).write_parquet(tmp_path / "c.parquet")
    report = validate(tmp_path)
    assert report.n_rows == 1
    assert "files of the folder are not read (a.csv, b.xlsx); is one of the log?" in "\n".join(report.lines())


def test_blank_lines_before_the_header_and_rows_of_nothing_are_not_lost(tmp_path: Path) -> None:
    lines = ["  ", "", "user\titem\tvalue", "a\tx\t1", "\t\t"]
    report = validate(written(tmp_path / "log.tsv", lines))
    assert (report.n_rows, report.is_usable) == (2, False)
    assert {defect.kind for defect in report.defects} >= {"null-id", "null-value"}


def test_duplicates_dropped_while_reading_are_those_dropped_at_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(text_tables.TextTable._blocks, "__defaults__", (1000,))
    lines = rows()
    path = written(tmp_path / "log.csv", [lines[0], *lines[1:] * 5])
    whole = load_dataset(path)
    monkeypatch.setattr(reading, "COMPACT_ROWS", 200)
    log = load_dataset(path)
    assert (log.fingerprint(), log.n_duplicates, log.source_size) == (whole.fingerprint(), 4 * N, whole.source_size)
    assert log.source_size is not None
    assert log.source_size[0] == 5 * N


SMALL = """
from igcf.data import reading, text_tables
reading.COMPACT_ROWS = 1 << 16
text_tables.TextTable._blocks.__defaults__ = (1 << 20,)
"""


@pytest.mark.slow
def test_memory_does_not_grow_with_a_file_that_repeats_itself(tmp_path: Path) -> None:
    """Growth is at most a third of the text that is added; the numbers of all rows would be four fifths of it."""
    used, sizes = [], []
    n_users = len({line.split(b",")[0] for line in block_of_rows(10_000).splitlines()})
    for megabytes in (5, 100):
        path = tmp_path / f"{megabytes}.csv"
        n_rows = write_repeated(path, megabytes * 10**6, 10_000)
        found = validated(path, SMALL)
        assert (found["report"]["rows"], found["report"]["users"]) == (n_rows, n_users)
        assert {each["kind"]: each["count"] for each in found["report"]["defects"]}["duplicate-pair"] == n_rows - 10_000
        used.append(found["peak_bytes"])
        sizes.append(path.stat().st_size)
    assert used[1] - used[0] < (sizes[1] - sizes[0]) / 3
