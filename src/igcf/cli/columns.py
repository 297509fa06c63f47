"""Options that name the columns of a log, for every command that reads one."""

from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any, NamedTuple

import click

if TYPE_CHECKING:
    from igcf.data.columns import Columns

OPTIONS: tuple[Callable[[Any], Any], ...] = (
    click.option("--user", default="user", show_default=True, help="Column of the user ids."),
    click.option("--item", default="item", show_default=True, help="Column of the item ids."),
    click.option("--value", default="value", show_default=True, help="Column of the values."),
    click.option("--timestamp", default=None, help="Column of the times; default: `timestamp` where it exists."),
    click.option("--separator", default=None, help="Between the columns; default: a tab for .tsv, otherwise a comma."),
)


class LogFormat(NamedTuple):
    """Names of the columns of a log and, for CSV files, the separator between them (None: by the file's ending)."""

    columns: "Columns"
    separator: str | None


def column_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the options --user --item --value --timestamp --separator, as its argument `log_format`."""

    @wraps(command)
    def with_format(
        *args: Any, user: str, item: str, value: str, timestamp: str | None, separator: str | None, **others: Any
    ) -> Any:
        from igcf.data.columns import Columns

        return command(*args, log_format=LogFormat(Columns(user, item, value, timestamp), separator), **others)

    return with_options(OPTIONS)(with_format)


def with_options(options: tuple[Callable[[Any], Any], ...]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return a decorator that gives a command several options, in this order."""

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate
