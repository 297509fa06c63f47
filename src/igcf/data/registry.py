"""The data sets that igcf knows by name, and where they lie."""

import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from igcf.data.interactions import Interactions
from igcf.errors import DataError

if TYPE_CHECKING:
    from igcf.data.columns import Columns


@dataclass(frozen=True)
class DatasetInfo:
    """Facts about a data set that are known before reading it."""

    name: str
    description: str
    url: str | None
    """Address of the owner's archive; None where there is nothing to download."""
    checksum: str | None
    """Checksum of the archive, as `md5:...` or `sha256:...`."""
    files: tuple[str, ...]
    """Names that the data set may have in the data folder, best first; `fetch` writes the first one."""
    satisfied: float
    """Smallest value of a reaction that counts as a success."""
    licence: str
    default_split: Literal["time", "users"]
    """Split of the cold-start experiment."""
    by_activity: bool = True
    """Whether its test users are the most active cold users; otherwise they are drawn at random."""
    withdrawn: bool = False
    """Whether its owner no longer distributes it."""


DATASETS: dict[str, DatasetInfo] = {
    info.name: info
    for info in (
        DatasetInfo(
            name="synthetic",
            description="invented films, 1,200 users with known tastes, 800 items, about 80,000 stars 1-5; built in",
            url=None,
            checksum=None,
            files=(),
            satisfied=4.0,
            licence="Apache-2.0 (part of igcf)",
            default_split="time",
        ),
        DatasetInfo(
            name="synthetic-drift",
            description="invented films that appear, are popular for some weeks and fade; 1,200 users; built in",
            url=None,
            checksum=None,
            files=(),
            satisfied=4.0,
            licence="Apache-2.0 (part of igcf)",
            default_split="time",
        ),
        DatasetInfo(
            name="ml-100k",
            description="MovieLens 100K: 100,000 stars 1-5 of 943 users on 1,682 films, times, genres",
            url="https://files.grouplens.org/datasets/movielens/ml-100k.zip",
            checksum="md5:0e33842e24a9c977be4e0107933c0723",
            files=("ml-100k.zip", "ml-100k"),
            satisfied=4.0,
            licence="research use with acknowledgement, no redistribution (GroupLens)",
            default_split="time",
        ),
        DatasetInfo(
            name="ml-1m",
            description="MovieLens 1M: 1,000,209 stars 1-5 of 6,040 users on 3,706 films, times, genres",
            url="https://files.grouplens.org/datasets/movielens/ml-1m.zip",
            checksum="md5:c4d9eecfca2ab87c1945afe126590906",
            files=("ml-1m.zip", "ml-1m"),
            satisfied=4.0,
            licence="research use with acknowledgement, no redistribution (GroupLens)",
            default_split="time",
        ),
        DatasetInfo(
            name="kuairec",
            description="KuaiRec small matrix: 4.7 million watch ratios of 1,411 users on 3,327 short videos, tags",
            url="https://zenodo.org/records/18164998/files/KuaiRec.zip",
            checksum="md5:261550d472c48eff4990fb13c0e5bcf7",
            files=("KuaiRec.zip", "kuairec", "KuaiRec", "KuaiRec 2.0/data"),
            satisfied=2.0,
            licence="CC BY-SA 4.0",
            default_split="users",
            by_activity=False,
        ),
        DatasetInfo(
            name="eachmovie",
            description="EachMovie: 2.8 million scores 0-5 of 61,265 users on 1,623 films",
            url=None,
            checksum=None,
            files=("eachmovie", "eachmovie_triple.gz", "eachmovie_triple", "Vote.txt"),
            satisfied=4.0,
            licence="research use; withdrawn by its owner in 2004",
            default_split="users",
            withdrawn=True,
        ),
    )
}


def dataset_info(name: str) -> DatasetInfo:
    """Return what is known about the data set called `name`."""
    if name not in DATASETS:
        raise DataError(f"unknown data set {name!r}; known are {', '.join(DATASETS)}")
    return DATASETS[name]


def known_dataset(data: Interactions) -> DatasetInfo | None:
    """Return what is known about a log that was read as one of `DATASETS`; None for any other."""
    return DATASETS.get(data.name) if data.layout is None else None


def default_data_dir() -> Path:
    """Return the folder in `IGCF_DATA_DIR` where it is set, otherwise the user's cache folder."""
    from platformdirs import user_cache_path

    configured = os.environ.get("IGCF_DATA_DIR")
    return Path(configured) if configured else user_cache_path("igcf")


def find_dataset(info: DatasetInfo, data_dir: str | Path | None = None) -> Path | None:
    """Return the file or folder of a data set; None where it is not there."""
    folder = Path(data_dir) if data_dir is not None else default_data_dir()
    return next((folder / name for name in info.files if (folder / name).exists()), None)


def load_dataset(
    name_or_path: str | Path,
    data_dir: str | Path | None = None,
    *,
    columns: "Columns | None" = None,
    items: str | Path | None = None,
) -> Interactions:
    """Load a data set by name, or a log by the path of a text or Parquet file or folder.

    Args:
        name_or_path: one of `DATASETS`, or a path; a name wins over a file of the same name (write `./ml-1m` for that).
        data_dir: where named data sets lie; see `default_data_dir`.
        columns: how a log is read; what is left out is found (docs/data.md).
        items: a file with the ids, titles and categories of the items.

    Example:
        >>> import igcf
        >>> igcf.load_dataset("synthetic")
        <Interactions synthetic: 79,508 reactions, 1,200 users, 800 items>
    """
    data = _load(name_or_path, data_dir, columns)
    if columns is not None and data.layout is None:  # a data set known by name
        if columns.unrated is not None:
            data = data.with_unrated(columns.unrated)
        data = replace(data.as_implicit() if columns.implicit else data, kinds=dict(columns.kinds))
        data = data.at_least(columns.min_item_reactions, columns.min_user_reactions)
    return data if items is None else data.with_items(items)


def _load(name_or_path: str | Path, data_dir: str | Path | None, columns: "Columns | None") -> Interactions:
    if str(name_or_path) in DATASETS:
        return _load_named(DATASETS[str(name_or_path)], data_dir)
    path = Path(name_or_path)
    named = next((info for info in DATASETS.values() if path.name in info.files and path.exists()), None)
    if named is not None:
        return _read(named, path)
    if not path.exists():
        raise DataError(f"{name_or_path!s} is neither a known data set ({', '.join(DATASETS)}) nor an existing file")
    from igcf.data.reading import read_files

    return read_files(path, columns)


def _load_named(info: DatasetInfo, data_dir: str | Path | None) -> Interactions:
    if info.name == "synthetic":
        from igcf.data.synthetic import synthetic_catalogue

        return synthetic_catalogue()
    if info.name == "synthetic-drift":
        from igcf.data.drifting import drifting_catalogue

        return drifting_catalogue()
    path = find_dataset(info, data_dir)
    if path is None:
        folder = data_dir if data_dir is not None else default_data_dir()
        what_next = "put it there" if info.withdrawn else f"run `igcf data fetch {info.name}` or put it there"
        raise DataError(f"{info.name} is not in {folder} (looked for {', '.join(info.files)}); {what_next}")
    return _read(info, path)


def _read(info: DatasetInfo, path: Path) -> Interactions:
    from igcf.data import owners

    read = {
        "kuairec": owners.read_kuairec,
        "eachmovie": owners.read_eachmovie,
        "ml-1m": owners.read_movielens_1m,
        "ml-100k": owners.read_movielens_100k,
    }
    return read[info.name](path)
