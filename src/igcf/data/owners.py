"""Data sets as their owners distribute them: MovieLens 100K and 1M, KuaiRec's small matrix, EachMovie.

EachMovie's `Vote.txt` has scores 0.0, 0.2, ... 1.0 (person, movie, score, weight, date; tab-separated, no header),
`eachmovie_triple` the same scores as 1 ... 6 (movie, user, score; blanks between them); both are returned as 0 to 5, so
that four or more counts as satisfied. KuaiRec's value is the watch ratio.
"""

import re
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeAlias

import numpy as np
import polars as pl

from igcf.arrays import FloatArray
from igcf.attributes import Attributes
from igcf.data.columns import Columns, first_rows
from igcf.data.interactions import Interactions
from igcf.data.reading import read_table
from igcf.data.text_tables import UNREADABLE, TextTable, first_line, opened
from igcf.errors import DataError

YEAR = re.compile(r"\((\d{4})\)\s*$")
MATRIX = ("small_matrix.csv", "small_matrix.csv.gz")
VIDEO_TAGS = "item_categories.csv"
TRIPLE = ("eachmovie_triple", "eachmovie_triple.gz")
VOTES = ("Vote.txt", "vote.txt")
DATE_FORMATS = ("%m/%d/%y %H:%M:%S", "%m/%d/%y", "%m/%d/%Y %H:%M:%S", "%Y-%m-%d %H:%M:%S")
Movie: TypeAlias = tuple[str, str, tuple[str, ...]]
"""Id, title and genres of a film."""


def _table(path: Path, content: bytes | None, names: Sequence[str] = ()) -> pl.DataFrame:
    """Read a table; with `names` it has no header, and its rows may have fewer columns, but at least three."""
    table = TextTable(
        path, Columns(separator="\t", has_header=False) if names else Columns(separator=","), content=content
    )
    frame = pl.concat(table.frames())
    if not names:
        return frame
    if frame.width < 3:
        raise DataError(f"{path} has {frame.width} columns; expected {', '.join(names)}")
    return frame.rename(dict(zip(frame.columns, names, strict=False)))


def read_movielens_100k(path: Path) -> Interactions:
    """Read `ml-100k.zip` or the folder `ml-100k`; titles and genres from `u.item` and `u.genre`."""
    log = _read_ratings(_member(path, "u.data"), f"{path}: u.data", "ml-100k")
    genres = [line.split("|")[0] for line in _lines(path, "u.genre")]

    def movie(line: str) -> Movie:
        item_id, title, *rest = line.split("|")
        flags = zip(genres, rest[-len(genres) :], strict=True)
        return item_id, title, tuple(genre for genre, flag in flags if flag == "1")

    return _with_movies(log, path, "u.item", movie)


def read_movielens_1m(path: Path) -> Interactions:
    """Read `ml-1m.zip` or the folder `ml-1m`; titles and genres from `movies.dat`."""
    ratings = _member(path, "ratings.dat").replace(b"::", b"\t")
    log = _read_ratings(ratings, f"{path}: ratings.dat", "ml-1m")

    def movie(line: str) -> Movie:
        item_id, title, genres = line.split("::")
        return item_id, title, tuple(genres.split("|"))

    return _with_movies(log, path, "movies.dat", movie)


def _read_ratings(content: bytes, source: str, name: str) -> Interactions:
    frame = _table(Path(source), content, ("user", "item", "value", "timestamp"))
    return read_table(frame, name=name, source=source)


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
    lines = _member(path, file_name).decode("latin-1").split("\n")  # splitlines would also split at \x85
    return [line.rstrip("\r") for line in lines if line.strip()]


def _member(path: Path, file_name: str) -> bytes:
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


def read_kuairec(path: Path) -> Interactions:
    """Read the folder with `small_matrix.csv[.gz]` and `item_categories.csv`, the matrix itself, or `KuaiRec.zip`.

    Rows without a timestamp keep `MISSING_TIME`; a video's categories are the numbers of its tags.
    """
    if path.suffix == ".zip":
        matrix, tags = _from_archive(path)
    else:
        folder = path if path.is_dir() else path.parent
        file = path if path.is_file() else next((folder / name for name in MATRIX if (folder / name).exists()), None)
        if file is None:
            raise DataError(f"{path} holds no small_matrix.csv or small_matrix.csv.gz; expected the files of KuaiRec")
        matrix, tags = _watched(file, None), None
        if (folder / VIDEO_TAGS).exists():
            tags = _table(folder / VIDEO_TAGS, None)
    log = read_table(matrix, name="kuairec", source=str(path))
    return log if tags is None else log.with_catalogue(None, _categories(log, tags))


def _from_archive(path: Path) -> tuple[pl.DataFrame, pl.DataFrame | None]:
    try:
        with zipfile.ZipFile(path) as archive:
            inside = {name.rsplit("/", 1)[-1]: name for name in archive.namelist()}
            if MATRIX[0] not in inside:
                raise DataError(f"{path} holds no {MATRIX[0]}; expected the archive of KuaiRec")
            matrix = _watched(path / MATRIX[0], archive.read(inside[MATRIX[0]]))
            if VIDEO_TAGS not in inside:
                return matrix, None
            return matrix, _table(path / VIDEO_TAGS, archive.read(inside[VIDEO_TAGS]))
    except (zipfile.BadZipFile, OSError) as error:
        raise DataError(f"{path} cannot be read as the archive of KuaiRec: {error}") from error


def _watched(path: Path, content: bytes | None) -> pl.DataFrame:
    names = {"user_id": "user", "video_id": "item", "watch_ratio": "value", "timestamp": "timestamp"}
    table = TextTable(path, Columns(separator=","), content=content)
    missing = [name for name in names if name not in table.names and name != "timestamp"]
    if missing:
        raise DataError(f"{path} has no column {', '.join(map(repr, missing))}; expected the files of KuaiRec")
    wanted = [name for name in names if name in table.names]
    return pl.concat(table.frames(wanted)).rename({name: names[name] for name in wanted})


def _categories(log: Interactions, tags: pl.DataFrame) -> tuple[tuple[str, ...], ...]:
    """Return the categories of each item: `[27, 9]` in the table becomes ("27", "9")."""
    numbers = tags["feat"].str.extract_all(r"\d+")
    of_video = dict(zip(tags["video_id"].to_list(), numbers.to_list(), strict=True))
    return tuple(tuple(of_video.get(item_id) or ()) for item_id in log.item_ids)


def read_eachmovie(path: Path) -> Interactions:
    """Read `eachmovie_triple[.gz]` or `Vote.txt`, or the folder that holds one of them."""
    file = path
    if path.is_dir():
        found = next((path / name for name in (*VOTES, *TRIPLE) if (path / name).exists()), None)
        if found is None:
            raise DataError(f"{path} holds no eachmovie_triple, eachmovie_triple.gz or Vote.txt")
        file = found
    frame = _votes(file) if file.name in VOTES else _triples(file)
    return read_table(frame, name="eachmovie", source=str(file))


def _triples(path: Path) -> pl.DataFrame:
    frame = _table(path, re.sub(rb"[ \t]+", b"\t", _whole(path)), ("item", "user", "score"))
    return _with_values(path, frame, pl.col("score") - 1.0, lowest=1.0, highest=6.0)


def _votes(path: Path) -> pl.DataFrame:
    frame = _table(path, _whole(path), ("user", "item", "score", "weight", "date"))
    frame = _with_values(path, frame, pl.col("score") * 5.0, lowest=0.0, highest=1.0)
    if "date" not in frame.columns:
        return frame
    dates = (frame["date"].str.to_datetime(form, strict=False, time_unit="us") for form in DATE_FORMATS)
    known = next((date for date in dates if date.null_count() == frame["date"].null_count()), None)
    return frame if known is None else frame.with_columns(timestamp=known)


def _with_values(path: Path, frame: pl.DataFrame, value: pl.Expr, *, lowest: float, highest: float) -> pl.DataFrame:
    scores = frame["score"].cast(pl.Float64, strict=False)
    bad = ~scores.is_between(lowest, highest).fill_null(False)
    if bad.any():
        row = first_rows(bad)[0]
        raise DataError(
            f"{path}: {bad.sum()} scores are not between {lowest} and {highest}, "
            f"first {frame['score'][row - 1]!r} in row {row}"
        )
    return frame.with_columns(score=scores).with_columns(value=value)


def _whole(path: Path) -> bytes:
    try:
        with opened(path) as file:
            return file.read()
    except UNREADABLE as error:
        raise DataError(f"{path} cannot be read: {first_line(error)}") from error
