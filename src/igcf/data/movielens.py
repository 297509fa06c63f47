"""MovieLens 100K and 1M as GroupLens distributes them: the zip archive or the unpacked folder."""

import io
import zipfile
from pathlib import Path

import polars as pl

from igcf.data.frames import interactions_from_frame
from igcf.data.interactions import Interactions
from igcf.errors import DataError

COLUMNS = ("user", "item", "value", "timestamp")


def read_movielens_100k(path: Path) -> Interactions:
    """Read `ml-100k.zip` or the folder `ml-100k`; titles and genres from `u.item` and `u.genre`."""
    log = _read_ratings(_content(path, "u.data"), "\t", f"{path}: u.data", "ml-100k")
    genres = [line.split("|")[0] for line in _content(path, "u.genre").decode("latin-1").splitlines() if line]
    titles: dict[str, str] = {}
    categories: dict[str, tuple[str, ...]] = {}
    for line in _content(path, "u.item").decode("latin-1").splitlines():
        item_id, title, *rest = line.split("|")
        titles[item_id] = title
        flags = rest[-len(genres) :]
        categories[item_id] = tuple(genre for genre, flag in zip(genres, flags, strict=True) if flag == "1")
    return _with_movies(log, titles, categories)


def read_movielens_1m(path: Path) -> Interactions:
    """Read `ml-1m.zip` or the folder `ml-1m`; titles and genres from `movies.dat`."""
    ratings = _content(path, "ratings.dat").replace(b"::", b"\t")
    log = _read_ratings(ratings, "\t", f"{path}: ratings.dat", "ml-1m")
    titles: dict[str, str] = {}
    categories: dict[str, tuple[str, ...]] = {}
    for line in _content(path, "movies.dat").decode("latin-1").splitlines():
        item_id, title, genres = line.split("::")
        titles[item_id] = title
        categories[item_id] = tuple(genres.split("|"))
    return _with_movies(log, titles, categories)


def _read_ratings(content: bytes, separator: str, source: str, name: str) -> Interactions:
    try:
        frame = pl.read_csv(
            io.BytesIO(content), separator=separator, has_header=False, new_columns=COLUMNS, infer_schema=False
        )
    except pl.exceptions.PolarsError as error:
        raise DataError(f"{source} cannot be read: expected user, item, rating, timestamp in each row") from error
    return interactions_from_frame(frame, name=name, source=source)


def _with_movies(log: Interactions, titles: dict[str, str], categories: dict[str, tuple[str, ...]]) -> Interactions:
    return log.with_catalogue(
        tuple(titles.get(item_id, item_id) for item_id in log.item_ids),
        tuple(categories.get(item_id, ()) for item_id in log.item_ids),
    )


def _content(path: Path, file_name: str) -> bytes:
    """One file of the archive, wherever in the zip or the folder it lies."""
    try:
        if path.is_dir():
            return (path / file_name).read_bytes()
        with zipfile.ZipFile(path) as archive:
            inside = next((name for name in archive.namelist() if name.rsplit("/", 1)[-1] == file_name), None)
            if inside is None:
                raise DataError(f"{path} holds no {file_name}; expected the archive that GroupLens distributes")
            return archive.read(inside)
    except FileNotFoundError as error:
        raise DataError(f"{path} holds no {file_name}; expected the files that GroupLens distributes") from error
    except (zipfile.BadZipFile, OSError) as error:
        raise DataError(f"{path} cannot be read as a zip archive: {error}") from error
