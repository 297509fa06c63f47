"""The data sets that igcf knows by name: what they are, where they are stored, how they are loaded and downloaded."""

import hashlib
import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np

from igcf.data.interactions import Interactions
from igcf.errors import DataError, DownloadError
from igcf.version import __version__

if TYPE_CHECKING:
    from igcf.data.columns import Columns

Progress = Callable[[int, int | None], None]
"""Called with the bytes that are there and, where the server says so, the bytes there will be."""

BLOCK = 1 << 18
NAMED = ("user", "item", "value", "timestamp", "kind", "separator", "encoding", "has_header")
"""What says where the columns of a file are: nothing that a data set known by name leaves open."""
TIMEOUT_S = 30.0


@dataclass(frozen=True)
class DatasetInfo:
    """Facts about a data set that are known before reading it."""

    name: str
    description: str
    licence: str
    url: str | None = None
    """Address of the owner's archive; None where there is nothing to download."""
    checksum: str | None = None
    """Checksum of the archive, as `md5:...` or `sha256:...`."""
    files: tuple[str, ...] = ()
    """Names that the data set may have in the data folder, best first; `fetch` writes the first one."""
    satisfied: float = 4.0
    """Smallest value of a reaction that counts as a success."""
    default_split: Literal["time", "users"] = "time"
    """Split of the cold-start experiment."""
    by_activity: bool = True
    """Whether its test users are the most active cold users; otherwise they are drawn at random."""

    @property
    def withdrawn(self) -> bool:
        """Whether its owner no longer distributes it."""
        return bool(self.files) and self.url is None


GROUPLENS = "research use with acknowledgement, no redistribution (GroupLens)"
OURS = "Apache-2.0 (part of igcf)"
INVENTED = "invented films, 1,200 users with known tastes, 800 items, about 80,000 stars 1-5; built in"
FADING = "invented films that appear, are popular for some weeks and fade; 1,200 users; built in"
DATASETS: dict[str, DatasetInfo] = {
    info.name: info
    for info in (
        DatasetInfo("synthetic", INVENTED, OURS),
        DatasetInfo("synthetic-drift", FADING, OURS),
        DatasetInfo(
            "ml-100k",
            "MovieLens 100K: 100,000 stars 1-5 of 943 users on 1,682 films, times, genres",
            GROUPLENS,
            url="https://files.grouplens.org/datasets/movielens/ml-100k.zip",
            checksum="md5:0e33842e24a9c977be4e0107933c0723",
            files=("ml-100k.zip", "ml-100k"),
        ),
        DatasetInfo(
            "ml-1m",
            "MovieLens 1M: 1,000,209 stars 1-5 of 6,040 users on 3,706 films, times, genres",
            GROUPLENS,
            url="https://files.grouplens.org/datasets/movielens/ml-1m.zip",
            checksum="md5:c4d9eecfca2ab87c1945afe126590906",
            files=("ml-1m.zip", "ml-1m"),
        ),
        DatasetInfo(
            "kuairec",
            "KuaiRec small matrix: 4.7 million watch ratios of 1,411 users on 3,327 short videos, tags",
            "CC BY-SA 4.0",
            url="https://zenodo.org/records/18164998/files/KuaiRec.zip",
            checksum="md5:261550d472c48eff4990fb13c0e5bcf7",
            files=("KuaiRec.zip", "kuairec", "KuaiRec", "KuaiRec 2.0/data"),
            satisfied=2.0,
            default_split="users",
            by_activity=False,
        ),
        DatasetInfo(
            "eachmovie",
            "EachMovie: 2.8 million scores 0-5 of 61,265 users on 1,623 films",
            "research use; withdrawn by its owner in 2004",
            files=("eachmovie", "eachmovie_triple.gz", "eachmovie_triple", "Vote.txt"),
            default_split="users",
        ),
    )
}


def dataset_info(name: str) -> DatasetInfo:
    """Return the facts about the data set called `name`."""
    if name not in DATASETS:
        raise DataError(f"unknown data set {name!r}; known are {', '.join(DATASETS)}")
    return DATASETS[name]


def known_dataset(data: Interactions) -> DatasetInfo | None:
    """Return what is known about a log that was read as one of `DATASETS`; None for any other."""
    return DATASETS.get(data.name) if data.layout is None else None


def default_data_dir() -> Path:
    """Return the folder in `IGCF_DATA_DIR` if it is set, otherwise the user's cache folder."""
    from platformdirs import user_cache_path

    configured = os.environ.get("IGCF_DATA_DIR")
    return Path(configured) if configured else user_cache_path("igcf")


def find_dataset(info: DatasetInfo, data_dir: str | Path | None = None) -> Path | None:
    """Return the file or folder of a data set; None if it is missing."""
    folder = Path(data_dir or default_data_dir())
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
        data_dir: folder of the named data sets; see `default_data_dir`.
        columns: how a log is read; the rest is detected (docs/data.md).
        items: a file with the ids, titles and categories of the items.

    Example:
        >>> import igcf
        >>> igcf.load_dataset("synthetic")
        <Interactions synthetic: 79,508 reactions, 1,200 users, 800 items>
    """
    data = _load(name_or_path, data_dir, columns)
    if columns is not None and data.layout is None:  # a data set known by name
        if named := [each for each in NAMED if getattr(columns, each) is not None]:
            raise DataError(f"{data.name} has columns of its own; leave out {named[0]}=, or name another file")
        values = np.ones_like(data.values) if columns.implicit else data.values
        if columns.unrated is not None:
            values = np.where(values == np.float32(columns.unrated), np.float32(np.nan), values)
        data = replace(data, values=values, kinds=dict(columns.kinds))
        data = data.at_least(columns.min_item_reactions, columns.min_user_reactions)
    return data if items is None else data.with_items(items)


def _load(name_or_path: str | Path, data_dir: str | Path | None, columns: "Columns | None") -> Interactions:
    from igcf.data import owners, reading, synthetic

    name, path = str(name_or_path), Path(name_or_path)
    if name in ("synthetic", "synthetic-drift"):
        return synthetic.synthetic_catalogue() if name == "synthetic" else synthetic.drifting_catalogue()
    info = DATASETS.get(name)
    if info is not None:
        if (found := find_dataset(info, data_dir)) is None:
            what_next = "put it there" if info.withdrawn else f"run `igcf data fetch {name}` or put it there"
            folder = data_dir or default_data_dir()
            raise DataError(f"{name} is not in {folder} (looked for {', '.join(info.files)}); {what_next}")
        path = found
    elif not path.exists():
        raise DataError(f"{name} is neither a known data set ({', '.join(DATASETS)}) nor an existing file")
    else:
        info = next((info for info in DATASETS.values() if path.name in info.files), None)
    return reading.read_files(path, columns) if info is None else owners.READERS[info.name](path)


def fetch(info: DatasetInfo, data_dir: str | Path | None = None, progress: Progress | None = None) -> Path:
    """Download a data set into the data folder and return its path; does nothing where a good copy is there.

    What arrives goes to a `.part` file, which gets its name only when the checksum is right.

    Raises:
        DownloadError: there is nothing to download, the network or the disk fails, or the checksum is wrong.
    """
    import http.client
    import urllib.error

    if info.url is None:
        raise DownloadError(
            f"{info.name} was withdrawn by its owner and cannot be downloaded; "
            f"if you have a copy, put {info.files[1]} into the data folder"
            if info.withdrawn
            else f"{info.name} is built in; there is nothing to download"
        )
    target = Path(data_dir or default_data_dir()) / info.files[0]
    if target.exists():
        if not _matches(info, target):
            raise DownloadError(
                f"{info.name}: {target} is there, but its checksum is not {info.checksum}: damaged or another version; "
                "move it away to fetch it again"
            )
        return target
    part = target.with_name(f"{target.name}.part")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        _receive(info.url, part, progress or (lambda _have, _total: None))
        if not _matches(info, part):
            raise DownloadError(
                f"{info.name}: the file from {info.url} has another checksum than {info.checksum} and was deleted; "
                "run it again, and if that does not help, the owner has changed the file"
            )
        os.replace(part, target)
    except urllib.error.HTTPError as error:
        error.close()
        raise DownloadError(f"{info.name}: {info.url} answered {error.code} {error.reason}; try again later") from error
    except (urllib.error.URLError, TimeoutError, ConnectionError, http.client.HTTPException) as error:
        raise DownloadError(
            f"{info.name}: no connection to {info.url} ({getattr(error, 'reason', error)}); check the network and run "
            f"it again, or put {info.files[0]} into {target.parent} yourself"
        ) from error
    except OSError as error:
        raise DownloadError(f"{info.name}: cannot write {part}: {error.strerror or error}") from error
    finally:
        if part.is_file():
            part.unlink()
    return target


def _receive(url: str, part: Path, progress: Progress) -> None:
    from urllib.request import Request, urlopen

    request, have = Request(url, headers={"User-Agent": f"igcf/{__version__}"}), 0  # noqa: S310
    with urlopen(request, timeout=TIMEOUT_S) as response, part.open("wb") as file:  # noqa: S310
        length = response.headers.get("Content-Length")
        total = int(length) if length else None
        progress(have, total)
        while block := response.read(BLOCK):
            have += file.write(block)
            progress(have, total)
    if total is not None and have < total:
        raise ConnectionError(f"it ended after {have:,} of {total:,} bytes")


def _matches(info: DatasetInfo, path: Path) -> bool:
    if info.checksum is None:
        return True
    algorithm, expected = info.checksum.split(":")
    with path.open("rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.new(algorithm, usedforsecurity=False)).hexdigest() == expected
