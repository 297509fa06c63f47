"""Options that several commands share, above all those that say how a log is read, and what they stand for."""

from collections.abc import Callable
from dataclasses import fields
from functools import wraps
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import click

from igcf.cli.output import note
from igcf.errors import ConfigError, DataError

if TYPE_CHECKING:
    from igcf.data import Interactions
    from igcf.data.columns import Columns
    from igcf.data.findings import Report
    from igcf.data.success import Success

SEPARATOR_NAMES = {"comma": ",", "tab": "\t", "\\t": "\t", "semicolon": ";", "pipe": "|"}
"""Words for separators that are awkward to write in a shell."""


class OutPath(click.Path):
    """A path that a command writes to; refused before the work begins where nothing can be written."""

    def __init__(self, *, is_new: bool = False, **settings: Any) -> None:
        super().__init__(path_type=Path, **settings)
        self.is_new = is_new

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the path; what is there already is refused if it would be overwritten."""
        path: Any = super().convert(value, param, ctx)
        if self.is_new and path.exists():
            raise ConfigError(f"{path} already exists and is never overwritten; choose another name")
        try:
            if not path.is_file():
                there = next(each for each in (path, *path.absolute().parents) if each.exists())
                with TemporaryDirectory(prefix=".igcf-", dir=there):
                    pass
        except OSError as error:
            raise ConfigError(f"cannot write to {path}: {error.strerror}; choose another place") from error
        return path


COUNT, SHARE = click.IntRange(min=1), click.FloatRange(0, 1, min_open=True, max_open=True)
PATH, EXISTING = click.Path(path_type=Path), click.Path(path_type=Path, exists=True)
OUT_FOLDER, NEW = OutPath(file_okay=False), OutPath(is_new=True)
OPTIONS: tuple[Callable[[Any], Any], ...] = (
    click.option("--user", help="Column of the user ids [default: detected by name or place, like all columns]."),
    click.option("--item", help="Column of the item ids."),
    click.option("--value", help="Column of the values; without one every reaction counts as 1."),
    click.option("--timestamp", help="Column of the times: numbers or dates."),
    click.option("--kind", help="Column of the kinds of feedback."),
    click.option("--kinds", help="Values of the kinds, as view=1,like=4,purchase=5, or a file of such lines."),
    click.option("--implicit", is_flag=True, help="Count every reaction as a success, whatever its value."),
    click.option("--unrated", type=float, help="Value for 'not rated', such as 0: seen, not disliked."),
    click.option("--separator", help="Separator: comma, tab, semicolon, pipe or :: [default: detected]."),
    click.option("--encoding", help="Encoding of a text file [default: detected: byte order mark, UTF-8, cp1252]."),
    click.option("--no-header", is_flag=True, help="The file has no header; the columns are named 1, 2, 3 ..."),
    click.option("--min-item-reactions", type=COUNT, help="Rarer items enter the model by their content only."),
    click.option("--min-user-reactions", type=COUNT, help="Leave out users with fewer reactions."),
)
DATASET = click.option("--dataset", help="A known name (igcf data list) or a CSV or Parquet file.")
DATA_DIR = click.option("--data-dir", help="Folder of the named data sets (or IGCF_DATA_DIR).")
ITEMS = click.option("--items", type=EXISTING, help="File with the ids, titles and categories of the items.")
USERS = click.option("--users", type=EXISTING, help="File with the ids of the users and a column per attribute.")
FROM_STORE = click.option("--from-store", help="Use the reactions in the store of a service: a SQLite file or a URL.")
SATISFIED = click.option("--satisfied", type=float, help="Least value of a success [default: chosen from the values].")
SEED = click.option("--seed", default=0, show_default=True, type=click.IntRange(min=0), help="Makes it repeatable.")


def names_in(text: str | None) -> list[str]:
    """Return the names that are joined by commas."""
    return [name.strip() for name in (text or "").split(",") if name.strip()]


def column_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the options of `OPTIONS`, as its argument `columns`."""

    @wraps(command)
    def with_columns(*args: Any, kinds: str | None, separator: str | None, no_header: bool, **others: Any) -> Any:
        from igcf.data.columns import Columns, parse_kinds

        taken = ("kinds", "separator", "has_header")
        given = {each.name: others.pop(each.name) for each in fields(Columns) if each.name not in taken}
        if table := parse_kinds(kinds):
            from igcf.model.checks import checked_kinds  # refuses a bad table before anything is read

            table = checked_kinds(table)
        given["kinds"] = table
        given["separator"] = SEPARATOR_NAMES.get(separator or "", separator)
        given["has_header"] = False if no_header else None
        return command(*args, columns=Columns.of(given), **others)

    return with_options(OPTIONS)(with_columns)


def with_options(options: tuple[Callable[[Any], Any], ...]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return a decorator that gives a command several options, in this order."""

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


log_options = with_options((DATASET, FROM_STORE, column_options, ITEMS))
"""Decorator with the options that name a log and say how it is read."""


def refuse_two_logs(dataset: str | None, from_store: str | None) -> None:
    """Refuse where the log is named twice, or not at all."""
    if (dataset is None) == (from_store is None):
        raise ConfigError("name the log with --dataset or --from-store, one of them")


def read_log(
    dataset: str | None, from_store: str | None, data_dir: str | None, columns: "Columns", items: Path | None = None
) -> "Interactions":
    """Read the log that the options name, with the titles and categories of a file."""
    refuse_two_logs(dataset, from_store)
    if from_store is not None:
        check_store_option(from_store)
        from igcf.service.store import read_store

        log, sentence = read_store(from_store)
        note(sentence)
        data = log.at_least(columns.min_item_reactions, columns.min_user_reactions)
        return data if items is None else data.with_items(items)
    from igcf.data import load_dataset

    assert dataset is not None  # noqa: S101
    try:
        return load_dataset(dataset, data_dir, columns=columns, items=items)
    except DataError as error:
        if not error.rows:
            raise
        advice = "`igcf data validate` with the same options lists every defect"
        raise DataError(f"{error}; {advice}", kind=error.kind, rows=error.rows) from error


def with_users(data: "Interactions", users: Path | None, without: str | None = None) -> "Interactions":
    """Give a log the table of users that the options name, or its own, without some columns."""
    left_out = names_in(without)
    if users is not None:
        return data.with_users(users, left_out)
    if not left_out:
        return data
    if data.users is None:
        raise ConfigError("--without leaves out columns of a table of users; name the table with --users")
    return data.with_users({"user": list(data.users.row_of), **data.users.columns}, left_out)


def check_store_option(from_store: str) -> None:
    """Refuse a password on the command line."""
    from igcf.service.sources import refuse_password

    refuse_password("--from-store", from_store)


def report(data: "Interactions", success: "Success | None", name: str) -> "Report":
    """Print on standard error how a log was read, as `igcf data validate` does; return the text."""
    from igcf.data.findings import report_of

    found = report_of(data, success, name)
    for line in found.lines():
        note(line)
    return found
