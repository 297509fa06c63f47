"""MovieLens 100K and 1M as GroupLens distributes them: the zip archive or the unpacked folder."""

import re
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeAlias

import numpy as np

from igcf.arrays import FloatArray
from igcf.attributes import Attributes
from igcf.data.frames import interactions_from_frame
from igcf.data.interactions import Interactions
from igcf.data.table_files import text_table
from igcf.errors import DataError

YEAR = re.compile(r"\((\d{4})\)\s*$")
COLUMNS = ("user", "item", "value", "timestamp")
Movie: TypeAlias = tuple[str, str, tuple[str, ...]]
"""Id, title and genres of a film."""


def read_movielens_100k(path: Path) -> Interactions:
    """Read `ml-100k.zip` or the folder `ml-100k`; titles and genres from `u.item` and `u.genre`."""
    log = _read_ratings(_content(path, "u.data"), f"{path}: u.data", "ml-100k")
    genres = [line.split("|")[0] for line in _lines(path, "u.genre")]

    def movie(line: str) -> Movie:
        item_id, title, *rest = line.split("|")
        flags = zip(genres, rest[-len(genres) :], strict=True)
        return item_id, title, tuple(genre for genre, flag in flags if flag == "1")

    return _with_movies(log, path, "u.item", movie)


def read_movielens_1m(path: Path) -> Interactions:
    """Read `ml-1m.zip` or the folder `ml-1m`; titles and genres from `movies.dat`."""
    ratings = _content(path, "ratings.dat").replace(b"::", b"\t")
    log = _read_ratings(ratings, f"{path}: ratings.dat", "ml-1m")

    def movie(line: str) -> Movie:
        item_id, title, genres = line.split("::")
        return item_id, title, tuple(genres.split("|"))

    return _with_movies(log, path, "movies.dat", movie)


def _read_ratings(content: bytes, source: str, name: str) -> Interactions:
    frame = text_table(content, source, separator="\t", names=COLUMNS)
    return interactions_from_frame(frame, name=name, source=source)


def _with_movies(log: Interactions, path: Path, file_name: str, parse: Callable[[str], Movie]) -> Interactions:
    titles: dict[str, str] = {}
    categories: dict[str, tuple[str, ...]] = {}
    for number, line in enumerate(_lines(path, file_name), start=1):
        try:
            item_id, titles[item_id], categories[item_id] = parse(line)
        except ValueError as error:
            raise DataError(
                f"{path}: {file_name}: row {number} is no film with its title and genres: {line!r}"
            ) from error
    return log.with_catalogue(
        tuple(titles.get(item_id, item_id) for item_id in log.item_ids),
        tuple(categories.get(item_id, ()) for item_id in log.item_ids),
        Attributes(log.n_items, numbers={"year": _years([titles.get(item_id, "") for item_id in log.item_ids])}),
    )


def _years(titles: Sequence[str]) -> FloatArray:
    """Return the year that ends each title in brackets; NaN where there is none."""
    found = [YEAR.search(title) for title in titles]
    return np.array([np.nan if year is None else float(year[1]) for year in found])


def _lines(path: Path, file_name: str) -> list[str]:
    lines = _content(path, file_name).decode("latin-1").split("\n")  # splitlines would also split at \x85
    return [line.rstrip("\r") for line in lines if line.strip()]


def _content(path: Path, file_name: str) -> bytes:
    """Return one file of the archive, wherever in the zip or the folder it lies."""
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
