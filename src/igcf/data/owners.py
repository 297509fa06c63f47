"""Data sets as their owners distribute them: MovieLens 100K and 1M, KuaiRec's small matrix, EachMovie.

EachMovie's `Vote.txt` has scores 0.0, 0.2, ... 1.0 (person, movie, score, weight, date; tab-separated, no header),
`eachmovie_triple` the same scores as 1 ... 6 (movie, user, score; blanks between them); both are returned as 0 to 5, so
that four or more counts as satisfied. KuaiRec's value is the watch ratio.
"""

import re
import zipfile
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from io import BytesIO
from pathlib import Path

import polars as pl

from igcf.data.columns import Columns
from igcf.data.interactions import Interactions
from igcf.data.reading import read_table
from igcf.data.text_tables import UNREADABLE, Opener, TextTable, first_line, opened
from igcf.errors import DataError
from igcf.item import Item

YEAR = r"\((\d{4})\)\s*$"
RATINGS = ("user", "item", "value", "timestamp")
MATRIX = ("small_matrix.csv", "small_matrix.csv.gz")
LATIN = "latin-1"
VIDEO_TAGS = "item_categories.csv"
VOTE_DATE = "%m/%d/%y %H:%M:%S"
VOTES, TRIPLE = ("Vote.txt", "vote.txt"), ("eachmovie_triple", "eachmovie_triple.gz")
AGE_GROUPS = {
    "1": "under 18", "18": "18-24", "25": "25-34", "35": "35-44", "45": "45-49", "50": "50-55", "56": "56 and over",
}  # fmt: skip
"""Age groups of ML-1M by their codes."""
OCCUPATIONS = (
    "other", "educator", "artist", "clerical", "college student", "customer service", "health care", "executive",
    "farmer", "homemaker", "K-12 student", "lawyer", "programmer", "retired", "sales", "scientist", "self-employed",
    "engineer", "craftsman", "unemployed", "writer",
)  # fmt: skip
"""Occupations of ML-1M by their codes."""


def _member(path: Path, *names: str) -> Opener | None:
    """Return what opens the first of these files that a folder or a zip archive holds; None where it has none."""
    if path.is_dir():
        found = next((path / name for name in names if (path / name).is_file()), None)
        return None if found is None else partial(opened, found)
    try:
        archive = zipfile.ZipFile(path)
    except (zipfile.BadZipFile, OSError) as error:
        raise DataError(f"{path} cannot be read as a zip archive: {error}") from error
    inside = {name.rsplit("/", 1)[-1]: name for name in archive.namelist()}
    member = next((inside[name] for name in names if name in inside), None)
    return None if member is None else partial(archive.open, member)


def _required(path: Path, *names: str) -> Opener:
    if (found := _member(path, *names)) is None:
        raise DataError(f"{path} holds no {' or '.join(names)}; expected the files as their owner distributes them")
    return found


def _table(
    path: Path, file: str | Opener, names: Sequence[str], separator: str = "\t", encoding: str | None = None
) -> pl.DataFrame:
    """Read a table without header, a member of `path` or what opens it; the columns after those with `names` too."""
    opener = _required(path, file) if isinstance(file, str) else file
    source = f"{path}: {file}" if isinstance(file, str) else path
    table = TextTable(path, Columns(separator=separator, has_header=False, encoding=encoding), opener=opener)
    if len(table.names) < min(len(names), 3):
        raise DataError(f"{source} has {len(table.names)} columns; expected {', '.join(names)}")
    return pl.concat(table.frames()).rename(dict(zip(table.names, names, strict=False)))


def _described(path: Path, file: str, names: Sequence[str], separator: str) -> pl.DataFrame:
    """Read a table of films or people, every row of which must reach the last of the columns `names`."""
    table, expected = _table(path, file, names, separator, LATIN), f"expected {', '.join(names)} in every row"
    if set(names) - set(table.columns):
        raise DataError(f"{path}: {file} has {len(table.columns)} columns; {expected}")
    if (is_short := table[names[-1]].is_null()).any():
        raise DataError(f"{path}: {file}: row {is_short.arg_true()[0] + 1} ends early; {expected}")
    return table


def read_movielens_100k(path: Path) -> Interactions:
    """Read `ml-100k.zip` or the folder `ml-100k`; titles and genres from `u.item` and `u.genre`."""
    log = read_table(_table(path, "u.data", RATINGS), name="ml-100k", source=f"{path}: u.data")
    genres = _described(path, "u.genre", ("genre", "number"), "|")["genre"].to_list()
    names = ("id", "title", "released", "shown", "address", *genres)
    films = _described(path, "u.item", names, "|")
    flags = [pl.when(pl.col(genre) == "1").then(pl.lit(genre)) for genre in genres]
    log = _with_films(log, films.select("id", "title", categories=pl.concat_list(flags).list.drop_nulls()))
    return _with_people(log, path, "u.user", "|", ("user", "age", "gender", "occupation"))


def read_movielens_1m(path: Path) -> Interactions:
    """Read `ml-1m.zip` or the folder `ml-1m`; titles and genres from `movies.dat`."""
    log = read_table(_table(path, "ratings.dat", RATINGS, "::"), name="ml-1m", source=f"{path}: ratings.dat")
    films = _described(path, "movies.dat", ("id", "title", "categories"), "::")
    log = _with_films(log, films.with_columns(pl.col("categories").str.split("|")))
    return _with_people(log, path, "users.dat", "::", ("user", "gender", "age", "occupation"))


def _with_films(log: Interactions, films: pl.DataFrame) -> Interactions:
    """Add the title, genres and year of each film; a film that the table does not have keeps its id as title."""
    years = pl.col("title").str.extract(YEAR).cast(pl.Float64)
    return replace(log.with_items(films.with_columns(year=years)), defects=(), notes=())


def _with_people(log: Interactions, path: Path, file: str, separator: str, names: Sequence[str]) -> Interactions:
    """Add the attributes of the users, where the archive has them."""
    if _member(path, file) is None:
        return log
    people = _described(path, file, names, separator)
    if separator == "::":
        occupations = {str(code): name for code, name in enumerate(OCCUPATIONS)}
        people = people.with_columns(pl.col("age").replace(AGE_GROUPS), pl.col("occupation").replace(occupations))
    log = log.with_users(people.select(names))
    return log if log.users is None else replace(log, users=replace(log.users, is_of_dataset=True))


def read_kuairec(path: Path) -> Interactions:
    """Read the folder with `small_matrix.csv[.gz]` and `item_categories.csv`, the matrix itself, or `KuaiRec.zip`.

    Rows without a timestamp keep `MISSING_TIME`; a video's categories are the numbers of its tags.
    """
    place = path.parent if path.name in MATRIX else path
    table = TextTable(path, Columns(separator=","), opener=_required(place, *MATRIX))
    names = dict(zip(("user_id", "video_id", "watch_ratio", "timestamp"), RATINGS, strict=True))
    if missing := [name for name in list(names)[:3] if name not in table.names]:
        raise DataError(f"{path} has no column {', '.join(map(repr, missing))}; expected the files of KuaiRec")
    wanted = [name for name in names if name in table.names]
    frame = pl.concat(table.frames(wanted)).rename({name: names[name] for name in wanted})
    log = read_table(frame, name="kuairec", source=str(path))
    if (opener := _member(place, VIDEO_TAGS)) is None:
        return log
    tags = pl.concat(TextTable(path, Columns(separator=","), opener=opener).frames())
    pairs = zip(tags["video_id"].to_list(), tags["feat"].str.extract_all(r"\d+").to_list(), strict=True)
    return log.described({video: Item(video, categories=tuple(own or ())) for video, own in pairs})


def read_eachmovie(path: Path) -> Interactions:
    """Read `eachmovie_triple[.gz]` or `Vote.txt`, or the folder that holds one of them."""
    files = [path] if path.is_file() else [path / name for name in (*VOTES, *TRIPLE) if (path / name).exists()]
    if not files:
        raise DataError(f"{path} holds no eachmovie_triple, eachmovie_triple.gz or Vote.txt")
    file = files[0]
    if file.name in VOTES:
        frame = _table(file, partial(opened, file), ("user", "item", "score", "weight", "timestamp"))
        if "timestamp" in frame.columns:
            frame = frame.with_columns(pl.col("timestamp").str.to_datetime(VOTE_DATE, time_unit="us"))
        lowest, highest, value = 0.0, 1.0, pl.col("score") * 5.0
    else:
        try:
            with opened(file) as content:
                tabs = re.sub(rb"[ \t]+", b"\t", content.read())
        except UNREADABLE as error:
            raise DataError(f"{file} cannot be read: {first_line(error)}") from error
        frame = _table(file, partial(BytesIO, tabs), ("item", "user", "score"))
        lowest, highest, value = 1.0, 6.0, pl.col("score") - 1.0
    scores = frame["score"].cast(pl.Float64, strict=False)
    bad = ~scores.is_between(lowest, highest).fill_null(False)
    if bad.any():
        row = int(bad.arg_max() or 0)
        raise DataError(
            f"{file}: {bad.sum()} scores are not between {lowest} and {highest}, "
            f"first {frame['score'][row]!r} in row {row + 1}"
        )
    return read_table(frame.with_columns(score=scores).with_columns(value=value), name="eachmovie", source=str(file))


READERS = {
    "kuairec": read_kuairec,
    "eachmovie": read_eachmovie,
    "ml-1m": read_movielens_1m,
    "ml-100k": read_movielens_100k,
}
