import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest

import igcf
from igcf.data import DATASETS, Interactions, dataset_info, default_data_dir, find_dataset, load_dataset
from igcf.data.columns import Columns
from igcf.errors import DataError

TABLE = "user,item,value\na,x,1\nb,y,2\n"


def test_the_synthetic_catalogue_is_always_there(tmp_path: Path) -> None:
    data = load_dataset("synthetic", tmp_path)
    assert data.name == "synthetic"
    assert igcf.load_dataset("synthetic").fingerprint() == data.fingerprint()


@pytest.mark.parametrize("name", ["log.csv", "log.tsv", "log.parquet", "folder"])
def test_a_log_is_loaded_by_its_path(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    if name.endswith("sv"):
        path.write_text(TABLE if name == "log.csv" else TABLE.replace(",", "\t"))
    else:
        file = path if path.suffix else path / "part-0.parquet"
        file.parent.mkdir(exist_ok=True)
        pl.DataFrame({"user": ["a", "b"], "item": ["x", "y"], "value": [1, 2]}).write_parquet(file)
    for place in (path, str(path)):
        log = load_dataset(place)
        assert (log.user_ids, log.values.tolist()) == (("a", "b"), [1, 2])


def test_the_columns_of_a_log_can_be_named(tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_text(TABLE.replace("value", "rating"))
    assert len(load_dataset(tmp_path / "log.csv", columns=Columns(value="rating"))) == 2


def test_an_archive_is_also_found_by_its_path(tmp_path: Path) -> None:
    (tmp_path / "eachmovie_triple").write_text("1 7 1\n")
    assert load_dataset(tmp_path / "eachmovie_triple").name == "eachmovie"


def test_an_unknown_name_says_what_is_known() -> None:
    with pytest.raises(DataError, match=r"ml-2m is neither a known data set \(synthetic, .*\) nor an existing file"):
        load_dataset("ml-2m")
    with pytest.raises(DataError, match="unknown data set 'ml-2m'; known are synthetic"):
        dataset_info("ml-2m")


def test_a_file_with_another_ending_is_refused(tmp_path: Path) -> None:
    (tmp_path / "log.xlsx").write_text("?")
    with pytest.raises(DataError, match=r"no known ending; expected one of \.csv"):
        load_dataset(tmp_path / "log.xlsx")


def test_a_data_set_that_is_not_there_says_where_it_was_looked_for_and_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(
        DataError, match=r"ml-1m is not in .* \(looked for ml-1m\.zip, ml-1m\); run `igcf data fetch ml-1m`"
    ):
        load_dataset("ml-1m", tmp_path)
    with pytest.raises(DataError, match="put it there") as caught:
        load_dataset("eachmovie", tmp_path)
    assert "fetch" not in str(caught.value)


def test_the_data_folder_is_the_environments_or_the_users_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("IGCF_DATA_DIR", str(tmp_path))
    assert default_data_dir() == tmp_path
    (tmp_path / "ml-1m").mkdir()
    assert find_dataset(DATASETS["ml-1m"]) == tmp_path / "ml-1m"
    monkeypatch.delenv("IGCF_DATA_DIR")
    assert default_data_dir().name == "igcf"


def test_every_data_set_that_can_be_fetched_has_a_checksum() -> None:
    for info in DATASETS.values():
        assert (info.url is None) == (info.checksum is None)
        assert info.satisfied > 0


def test_importing_the_data_layer_is_light() -> None:
    code = "import sys, igcf.data; sys.exit(any(name in sys.modules for name in ('polars', 'duckdb', 'torch', 'rich')))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
    assert igcf.Interactions is Interactions
