"""KuaiRec's small matrix: nearly every user watched nearly every video; the value is the watch ratio."""

import re
import zipfile
from pathlib import Path

from igcf.data.columns import Columns
from igcf.data.frames import interactions_from_frame
from igcf.data.interactions import Interactions
from igcf.data.layout import find_layout
from igcf.data.table_files import csv_frame, text_table
from igcf.errors import DataError
from igcf.tabular.columns import Table, as_text

COLUMNS = Columns(user="user_id", item="video_id", value="watch_ratio", timestamp="timestamp")
WANTED = ("user_id", "video_id", "watch_ratio", "timestamp")
MATRIX = ("small_matrix.csv", "small_matrix.csv.gz")
CATEGORIES = "item_categories.csv"


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
        matrix, _ = csv_frame(file, COLUMNS, separator=",")
        tags = _tags((folder / CATEGORIES).read_bytes()) if (folder / CATEGORIES).exists() else None
    layout = find_layout(matrix, COLUMNS, str(path))
    log = interactions_from_frame(matrix, layout, name="kuairec", source=str(path))
    return log if tags is None else log.with_catalogue(None, _categories(log, tags))


def _from_archive(path: Path) -> tuple[Table, Table | None]:
    try:
        with zipfile.ZipFile(path) as archive:
            inside = {name.rsplit("/", 1)[-1]: name for name in archive.namelist()}
            if MATRIX[0] not in inside:
                raise DataError(f"{path} holds no {MATRIX[0]}; expected the archive of KuaiRec")
            matrix = text_table(archive.read(inside[MATRIX[0]]), f"{path}: {MATRIX[0]}", wanted=WANTED)
            if CATEGORIES not in inside:
                return matrix, None
            return matrix, _tags(archive.read(inside[CATEGORIES]))
    except (zipfile.BadZipFile, OSError) as error:
        raise DataError(f"{path} cannot be read as the archive of KuaiRec: {error}") from error


def _tags(table: bytes) -> Table:
    return text_table(table, CATEGORIES, wanted=("video_id", "feat"))


def _categories(log: Interactions, tags: Table) -> tuple[tuple[str, ...], ...]:
    """Return the categories of each item: `[27, 9]` in the table becomes ("27", "9")."""
    numbers = [re.findall(r"\d+", each or "") for each in as_text(tags["feat"]).to_list()]
    of_video = dict(zip(as_text(tags["video_id"]).to_list(), numbers, strict=True))
    return tuple(tuple(of_video.get(item_id) or ()) for item_id in log.item_ids)
