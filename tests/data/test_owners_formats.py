"""MovieLens, KuaiRec and EachMovie in the owners' layouts, each with a handful of invented rows."""

import gzip
import zipfile
from pathlib import Path

import pytest

from igcf.data import MISSING_TIME, load_dataset
from igcf.errors import DataError

ML_1M = {
    "ratings.dat": "1::20::5::978300760\n2::3::3::978302109\n1::3::4::978301968\n",
    "movies.dat": "3::Les Misérables (1995)::Drama|Musical\n20::Money Train (1995)::Action\n99::Unrated::Drama\n",
}
ML_100K = {
    "u.data": "1\t20\t5\t978300760\n2\t3\t3\t978302109\n1\t3\t4\t978301968\n",
    "u.genre": "unknown|0\nAction|1\nDrama|2\n\n",
    "u.item": "3|Les Misérables (1995)|01-Jan-1995||http://x|0|0|1\n20|Money Train (1995)|01-Jan-1995||http://y|0|1|1\n",
}
KUAIREC = {
    "small_matrix.csv": "user_id,video_id,play_duration,video_duration,time,date,timestamp,watch_ratio\n"
    "14,103,1,2,2020-07-05 05:27:48.378,20200705.0,1593898068.378,0.5\n14,7,1,2,,,,2.25\n3,103,1,2,,,,0.0\n",
    "item_categories.csv": 'video_id,feat\n7,[8]\n103,"[27, 9]"\n500,[1]\n',
}


def write_folder(folder: Path, files: dict[str, str]) -> Path:
    folder.mkdir(parents=True)
    for name, text in files.items():
        (folder / name).write_text(text, encoding="latin-1")
    return folder


def write_zip(path: Path, files: dict[str, str], inner: str) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in files.items():
            archive.writestr(f"{inner}/{name}", text.encode("latin-1"))
    return path


@pytest.mark.parametrize(
    ("name", "files", "genres"),
    [
        ("ml-1m", ML_1M, (("Drama", "Musical"), ("Action",))),
        ("ml-100k", ML_100K, (("Drama",), ("Action", "Drama"))),
    ],
)
def test_movielens_zip_and_folder_are_the_same(
    tmp_path: Path, name: str, files: dict[str, str], genres: tuple[tuple[str, ...], ...]
) -> None:
    write_folder(tmp_path / "folders" / name, files)
    (tmp_path / "zips").mkdir()
    write_zip(tmp_path / "zips" / f"{name}.zip", files, name)
    from_folder, from_zip = (load_dataset(name, tmp_path / place) for place in ("folders", "zips"))
    assert from_folder.fingerprint() == from_zip.fingerprint()
    assert from_zip.name == name
    assert from_zip.item_ids == ("3", "20")
    assert from_zip.titles == ("Les Misérables (1995)", "Money Train (1995)")
    assert from_zip.categories == genres
    assert from_zip.values.tolist() == [5, 3, 4]
    assert from_zip.timestamps is not None
    assert from_zip.timestamps.tolist() == [978300760, 978302109, 978301968]


def test_a_damaged_movielens_archive_is_refused(tmp_path: Path) -> None:
    archive = write_zip(tmp_path / "ml-1m.zip", ML_1M, "ml-1m")
    archive.write_bytes(archive.read_bytes()[:200])
    with pytest.raises(DataError, match="cannot be read as a zip archive"):
        load_dataset("ml-1m", tmp_path)
    write_zip(archive, {"README": "nothing else"}, "ml-1m")
    with pytest.raises(DataError, match=r"holds no ratings\.dat"):
        load_dataset("ml-1m", tmp_path)
    write_zip(archive, {**ML_1M, "ratings.dat": "1::20::five::1\n"}, "ml-1m")
    with pytest.raises(DataError, match=r"ratings\.dat: 'value' .* first 'five' in row 1"):
        load_dataset("ml-1m", tmp_path)
    write_zip(archive, {**ML_1M, "movies.dat": "3::no genres\n"}, "ml-1m")
    with pytest.raises(DataError, match=r"movies\.dat has 2 columns; expected id, title, categories"):
        load_dataset("ml-1m", tmp_path)
    write_zip(archive, {**ML_1M, "movies.dat": "3::Money Train (1995)::Action\n4::no genres\n"}, "ml-1m")
    with pytest.raises(DataError, match=r"movies\.dat: row 2 ends early; expected id, title, categories in every row"):
        load_dataset("ml-1m", tmp_path)


def test_kuairec_reads_watch_ratios_tags_and_missing_times(tmp_path: Path) -> None:
    write_folder(tmp_path / "plain" / "kuairec", KUAIREC)
    packed = write_folder(tmp_path / "packed" / "kuairec", {"item_categories.csv": KUAIREC["item_categories.csv"]})
    (packed / "small_matrix.csv.gz").write_bytes(gzip.compress(KUAIREC["small_matrix.csv"].encode()))
    (tmp_path / "zip").mkdir()
    write_zip(tmp_path / "zip" / "KuaiRec.zip", KUAIREC, "KuaiRec 2.0/data")
    logs = [load_dataset("kuairec", tmp_path / place) for place in ("plain", "packed", "zip")]
    assert len({log.fingerprint() for log in logs}) == 1
    for log in logs:
        assert (log.user_ids, log.item_ids) == (("3", "14"), ("7", "103"))
        assert log.values.tolist() == [0.5, 2.25, 0.0]
        assert log.categories == (("8",), ("27", "9"))
        assert log.timestamps is not None
        assert log.timestamps.tolist() == [1593898068378000, MISSING_TIME, MISSING_TIME]


def test_kuairec_without_tags_is_still_a_log(tmp_path: Path) -> None:
    write_folder(tmp_path / "kuairec", {"small_matrix.csv": KUAIREC["small_matrix.csv"]})
    assert load_dataset("kuairec", tmp_path).categories is None


def test_a_kuairec_folder_without_the_matrix_is_refused(tmp_path: Path) -> None:
    write_folder(tmp_path / "kuairec", {"item_categories.csv": KUAIREC["item_categories.csv"]})
    with pytest.raises(DataError, match=r"holds no small_matrix\.csv"):
        load_dataset("kuairec", tmp_path)


def test_eachmovie_triples_become_0_to_5(tmp_path: Path) -> None:
    folder = tmp_path / "eachmovie"
    folder.mkdir()
    (folder / "eachmovie_triple.gz").write_bytes(gzip.compress(b"1   7   1\n1   23   6\n2   7   5\n"))
    log = load_dataset("eachmovie", tmp_path)
    assert (log.user_ids, log.item_ids) == (("7", "23"), ("1", "2"))
    assert log.values.tolist() == [0, 5, 4]
    assert log.timestamps is None


def test_eachmovie_votes_become_0_to_5_with_times(tmp_path: Path) -> None:
    write_folder(
        tmp_path / "eachmovie",
        {"Vote.txt": "7\t1\t0\t1\t1/2/96 00:00:00\n23\t1\t1\t1\t1/3/96 00:00:00\n7\t2\t.8\t1\t\n"},
    )
    log = load_dataset("eachmovie", tmp_path)
    assert (log.user_ids, log.item_ids) == (("7", "23"), ("1", "2"))
    assert log.values.tolist() == [0, 5, 4]
    assert log.timestamps is not None
    assert log.timestamps.tolist() == [820540800, 820627200, MISSING_TIME]


def test_eachmovie_scores_outside_their_scale_are_refused(tmp_path: Path) -> None:
    write_folder(tmp_path / "eachmovie", {"eachmovie_triple": "1 7 1\n1 8 0\n1 9 7\n"})
    with pytest.raises(DataError, match=r"2 scores are not between 1\.0 and 6\.0, first '0' in row 2"):
        load_dataset("eachmovie", tmp_path)
    (tmp_path / "eachmovie" / "eachmovie_triple").write_text("1 7\n")
    with pytest.raises(DataError, match="has 2 columns; expected item, user, score"):
        load_dataset("eachmovie", tmp_path)
