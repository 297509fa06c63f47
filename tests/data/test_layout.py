import gzip
import os
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from igcf.data import Interactions, load_dataset
from igcf.data.columns import Columns
from igcf.data.findings import validate
from igcf.data.items import read_items
from igcf.errors import DataError


def read(tmp_path: Path, text: str, name: str = "log.csv", **options: Any) -> Interactions:
    (tmp_path / name).write_text(text)
    return Interactions.from_csv(tmp_path / name, **options)


def sentence(log: Interactions) -> str:
    assert log.layout is not None
    return log.layout.sentence


@pytest.mark.parametrize(
    ("header", "told"),
    [
        ("userId,movieId,rating,timestamp", "user = userId, item = movieId, value = rating, time = timestamp"),
        ("stars,business_id,user_id,date", "user = user_id, item = business_id, value = stars, time = date"),
        ("reviewerID,asin,overall,unixReviewTime", "user = reviewerID, item = asin, value = overall, time ="),
        ("USERID,ArtistID,Weight,x", "user = USERID, item = ArtistID, value = Weight"),
        ("uid,video_id,watch_ratio,time", "user = uid, item = video_id, value = watch_ratio, time = time"),
        ("User-ID,ISBN,Book-Rating,z", "user = User-ID, item = ISBN, value = Book-Rating"),
        ("who,what,how,when", "user = who, item = what, value = how, time = when"),
        ("who,what,stars,when", "user = who, item = what, value = stars, time = when"),
    ],
)
def test_columns_are_found_by_their_names_and_otherwise_by_their_place(tmp_path: Path, header: str, told: str) -> None:
    log = read(tmp_path, f"{header}\n1,2,3,1500000000\n4,5,1,1500000001\n")
    assert told in sentence(log)
    assert len(log) == 2


@pytest.mark.parametrize(
    ("sign", "name"), [(",", "comma"), ("\t", "tab"), (";", "semicolon"), ("|", "pipe"), ("::", "::")]
)
def test_the_separator_is_found(tmp_path: Path, sign: str, name: str) -> None:
    text = "user,item,value\na,x|y;z,1\nb,w,2\n".replace(",", sign) if sign in ("\t", "::") else (
        "user,item,value\na,x,1\nb,w,2\n".replace(",", sign)
    )  # fmt: skip
    log = read(tmp_path, text, "log.dat")
    assert sentence(log).endswith(f"separator: {name}")
    assert log.values.tolist() == [1.0, 2.0]
    packed = tmp_path / "log.dat.gz"
    packed.write_bytes(gzip.compress(text.encode(), mtime=0))
    assert load_dataset(packed).fingerprint() == log.fingerprint()


def test_a_file_without_header_is_read_in_the_order_user_item_value_time(tmp_path: Path) -> None:
    log = read(tmp_path, "1::1193::5::978300760\n1::661::3::978302109\n2::661::4::978302110\n", "ratings.dat")
    assert sentence(log) == "columns: user = 1, item = 2, value = 3, time = 4; separator: ::; no header"
    assert (len(log), log.n_users, log.values.tolist()) == (3, 2, [5, 3, 4])
    swapped = Interactions.from_csv(tmp_path / "ratings.dat", user="2", item="1")
    assert swapped.item_ids == ("1", "2")


def test_dates_are_times(tmp_path: Path) -> None:
    log = read(tmp_path, "user_id,item_id,stars,date\na,x,1,2024-05-01\na,y,2,2024-05-02\n")
    assert log.timestamps is not None
    assert np.diff(log.timestamps).tolist() == [86_400]
    log = read(tmp_path, "user_id,item_id,stars,date\na,x,1,2024-05-01T10:00:00Z\na,y,2,2024-05-01T10:00:05Z\n")
    assert log.timestamps is not None
    assert np.diff(log.timestamps).tolist() == [5]


def test_without_a_value_every_reaction_counts_as_one_and_this_is_said(tmp_path: Path) -> None:
    log = read(tmp_path, "user,item,comment\na,x,good\nb,y,fine\n")
    assert log.values.tolist() == [1.0, 1.0]
    assert log.is_implicit
    assert "no value (every reaction counts as 1); not used: comment" in sentence(log)
    stars = read(tmp_path, "user,item,stars\na,x,1\nb,y,5\n", implicit=True)
    assert stars.values.tolist() == [1.0, 1.0]
    assert Interactions.from_arrays(["a", "b"], ["x", "y"]).is_implicit


def test_dates_are_nobodys_ids(tmp_path: Path) -> None:
    log = read(tmp_path, "Datum;Kunde;Artikel;Sterne\n2024-05-01;a;x;4\n2024-05-02T10:00:00;b;y;5\n")
    assert sentence(log) == "columns: user = Kunde, item = Artikel, value = Sterne, time = Datum; separator: semicolon"


def test_in_a_wide_table_a_column_taken_by_its_place_is_warned_about(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text("Tag;Wer;Region;Was;Wie\n2024-05-01;a;DE;x;4\n2024-05-02;b;AT;y;5\n")
    guesses = [defect.message for defect in validate(path).defects if defect.kind == "guessed-column"]
    assert len(guesses) == 2
    assert "'Region' was taken for the items by its place alone; if that is wrong, say which with item=" in guesses
    named = validate(path, Columns(user="Wer", item="Was", value="Wie", timestamp="Tag"))
    assert "guessed-column" not in {defect.kind for defect in named.defects}


def test_in_a_wide_table_columns_that_look_like_values_and_times_are_pointed_out_and_not_taken(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text("Kunde;Artikel;Filiale;Wie;Gekauft am\na;x;N;4;24.12.2024\nb;y;S;9;31.12.2024\n")
    report = validate(path)
    assert report.layout is not None
    assert (report.layout.value, report.layout.timestamp) == (None, None)
    pointed = [defect.message for defect in report.defects if defect.kind == "perhaps-column"]
    assert pointed == [
        "'Wie' is not used and looks like values; if it holds them, say value= Wie",
        "'Gekauft am' is not used and looks like timestamps; if it holds them, say timestamp= 'Gekauft am'",
    ]
    named = validate(path, Columns(user="Kunde", item="Artikel", value="Wie", timestamp="Gekauft am"))
    assert "perhaps-column" not in {defect.kind for defect in named.defects}
    counted = validate(path, Columns(implicit=True))
    assert [defect.message for defect in counted.defects if defect.kind == "perhaps-column"] == pointed[1:]


def test_kinds_of_feedback_become_values(tmp_path: Path) -> None:
    text = "user,item,event\na,x,view\na,y,purchase\nb,x,hide\n"
    kinds = {"view": 1, "purchase": 5, "hide": 0}
    log = read(tmp_path, text, kinds=kinds)
    assert log.values.tolist() == [1.0, 5.0, 0.0]
    assert log.kinds == kinds
    with pytest.raises(DataError, match=r"'hide' in row 3; known are view, purchase, add it to kinds="):
        read(tmp_path, text, kinds={"view": 1, "purchase": 5})
    with pytest.raises(DataError, match=r"kinds of feedback \(column 'event': 'view', 'purchase', 'hide'\)"):
        read(tmp_path, text)
    pl.read_csv(tmp_path / "log.csv").write_parquet(tmp_path / "log.parquet")
    assert Interactions.from_parquet(tmp_path / "log.parquet", kinds=kinds).values.tolist() == [1.0, 5.0, 0.0]


def test_a_polars_frame_becomes_a_log_with_titles() -> None:
    frame = pl.DataFrame({"user_id": [1, 2], "film": ["x", "y"], "stars": [3, 4], "when": [5.0, None]})
    log = Interactions.from_frame(frame, timestamp="when").with_items({"id": ["x"], "title": ["The X"]})
    assert (log.item_ids, log.values.tolist(), log.titles) == (("x", "y"), [3.0, 4.0], ("The X", "y"))
    assert Interactions.from_frame(frame.lazy(), timestamp="when").fingerprint() == log.fingerprint()


class PandasColumn:
    """What `from_frame` uses of a pandas column; pandas itself is not installed here."""

    def __init__(self, entries: list[object]) -> None:
        self.entries = entries

    def to_numpy(self) -> Any:
        return np.array(self.entries, dtype=object)

    def isna(self) -> "PandasColumn":
        return PandasColumn([entry is None or entry != entry for entry in self.entries])


class PandasFrame(dict[str, PandasColumn]):
    @property
    def columns(self) -> list[str]:
        return list(self)


def test_a_pandas_frame_becomes_a_log() -> None:
    columns = {"userId": ["a", "b", "a"], "itemId": ["x", "x", "y"], "rating": [1.0, 2.5, 4.0]}
    log = Interactions.from_frame(PandasFrame({name: PandasColumn(each) for name, each in columns.items()}))  # type: ignore[arg-type]
    assert (log.user_ids, log.values.tolist()) == (("a", "b"), [1.0, 2.5, 4.0])
    broken = PandasFrame({name: PandasColumn(each) for name, each in columns.items()})  # type: ignore[arg-type]
    broken["userId"] = PandasColumn(["a", None, float("nan")])
    with pytest.raises(DataError, match="the frame: 'userId' is empty in 2 rows"):
        Interactions.from_frame(broken)
    with pytest.raises(DataError, match="expected a pandas or polars frame, got a list"):
        Interactions.from_frame([1, 2])


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("movieId,title,genres\n1,Toy Story,Comedy|Animation\n2,Heat,Crime\n", "categories = genres; separator: comma"),
        ("1::Toy Story::Comedy|Animation\n2::Heat::Crime\n", "id = 1, title = 2, categories = 3; separator: ::; no"),
        ("id;name;year;tags\n1;Toy Story;1995;Comedy, Animation\n2;Heat;1995;Crime\n", "numbers: year; separator"),
    ],
)
def test_titles_and_categories_come_from_a_table_of_items(tmp_path: Path, text: str, told: str) -> None:
    path = tmp_path / "items.txt"
    path.write_text(text)
    assert told in read_items(path).sentence
    log = Interactions.from_arrays(["a", "a", "b"], [1, 2, 3], [1.0, 2.0, 3.0]).with_items(path)
    assert log.titles == ("Toy Story", "Heat", "3")
    assert log.categories == (("Comedy", "Animation"), ("Crime",), ())


def test_columns_of_a_table_of_items_that_cannot_be_read_are_not_used(tmp_path: Path) -> None:
    path = tmp_path / "items[1].parquet"
    table = {"id": ["1", "2"], "title": ["Tea", "Coffee"], "categories": [["hot"], ["hot", "strong"]]}
    pl.DataFrame({**table, "description": [["a", "b"], []], "image": [[{"url": "x"}], []]}).write_parquet(path)
    found = read_items(path)
    assert found.sentence == "items: id = id, title = title, categories = categories; not used: description, image"
    assert found.by_id["2"].categories == ("hot", "strong")
    pl.DataFrame({**table, "hidden": [datetime(2026, 1, 1), None]}).write_parquet(path)
    with pytest.raises(DataError, match="hidden is '2026-01-01 00:00:00'; expected true or false"):
        read_items(path)


def test_a_pipe_is_no_table_of_items(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "items.parquet")
    with pytest.raises(DataError, match="is a pipe or a device"):
        read_items(tmp_path / "items.parquet")


def test_a_table_of_other_items_is_refused(tmp_path: Path) -> None:
    (tmp_path / "items.csv").write_text("id,title\nx,The X\n")
    with pytest.raises(DataError, match="no item of the log is in the table of items; the log has '1', the table 'x'"):
        Interactions.from_arrays(["a"], [1], [1.0]).with_items(tmp_path / "items.csv")


def test_what_cannot_be_a_log_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"has 1 column \('user'\) and none for the items"):
        read(tmp_path, "user\na\n")
    with pytest.raises(DataError, match="two columns called 'user'"):
        read(tmp_path, "user,user,value\na,b,1\n")
