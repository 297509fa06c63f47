"""The one place where commands print: results on stdout, everything for people to watch on stderr.

What a terminal would obey, such as an escape sequence in a title, is printed as a sign for it.
"""

import json
import re
import signal
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import Any, NamedTuple

import click
from rich.console import Console, RenderableType
from rich.segment import Segment

from igcf.tables import Table, print_fitted

OBEYED = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")
"""Signs that a terminal obeys: control characters but tabs and line ends, and marks that turn the direction of text."""


def plain(text: str) -> str:
    """Return text in which a terminal finds nothing to obey."""
    return OBEYED.sub("\N{REPLACEMENT CHARACTER}", text)


class Terminal(Console):
    """Console that obeys nothing that stands in what it prints."""

    def render(self, *args: Any, **options: Any) -> Iterable[Segment]:
        """Render with the texts in plain signs; colours are added later, by the console itself."""
        for text, style, control in super().render(*args, **options):
            yield Segment(text if control else plain(text), style, control)


console = Terminal(stderr=True)
"""Console for progress, notes and tables for people."""
results = Terminal()
"""Console for results as tables."""
AS_JSON = click.option("--json", "as_json", is_flag=True, help="Print one JSON document on stdout.")
ARGUMENTS = (
    "user", "item", "value", "timestamp", "kind", "kinds", "implicit", "separator", "satisfied", "items", "rounds",
    "slate", "users", "n_users", "min_reactions", "split", "unrated",
    "encoding", "min_item_reactions", "min_user_reactions",
)  # fmt: skip
"""Arguments of the library that are options of the commands."""
_ARGUMENT = re.compile(rf"\b({'|'.join(ARGUMENTS)})=(?=(['\"])?)(?![\w])")


def in_options(message: str) -> str:
    """Say a message of the library in the language of the command line: `satisfied=` becomes `--satisfied`."""

    def option(found: re.Match[str]) -> str:
        name = "users" if found[1] == "n_users" else found[1].replace("_", "-")
        return f"--{name} " if found[2] else f"--{name}"

    return _ARGUMENT.sub(option, message)


def echo(text: str, *, err: bool = False) -> None:
    """Print text uncoloured, never wrapped."""
    click.echo(plain(text), err=err)


def note(message: str) -> None:
    """Print one line for people on stderr."""
    echo(in_options(message), err=True)


def let_ctrl_c_end_input() -> None:
    """Let Ctrl-C end a wait for input: once Polars is imported, the system would keep waiting until Enter."""
    if hasattr(signal, "siginterrupt"):
        signal.siginterrupt(signal.SIGINT, True)


class Answer(NamedTuple):
    """What a command has found: a document for programs, and the same in words."""

    document: object
    lines: Iterable[RenderableType | Table] = ()
    """What people read on stdout."""
    note: str = ""
    """What people read on stderr."""
    exit_code: int = 0


def answers(command: Callable[..., Answer | None]) -> Callable[..., None]:
    """Give a command `--json`, and print the answer that it returns: the document, or the words for people."""

    @AS_JSON
    @wraps(command)
    def printed(*args: Any, as_json: bool, **others: Any) -> None:
        answer = command(*args, **others)
        if answer is None:
            return
        if as_json:
            emit_json(answer.document)
        else:
            show(answer.lines)
            if answer.note:
                note(answer.note)
        if answer.exit_code:
            sys.exit(answer.exit_code)

    return printed


def show(lines: Iterable[RenderableType | Table]) -> None:
    """Print lines and tables for people on stdout."""
    for each in lines:
        if isinstance(each, str):
            echo(each)
        elif isinstance(each, Table):
            print_fitted(each, results)
        else:
            results.print(each)


def emit_json(document: object) -> None:
    """Print exactly one JSON document on stdout."""
    echo(json.dumps(document, indent=2, allow_nan=False))


@contextmanager
def parts_display(names: Sequence[str]) -> Iterator[Callable[[str], None]]:
    """Show on stderr which part of a long command runs; gives a function that is called when a part begins."""
    from igcf.progress import show_progress

    with show_progress(alike=False) as report:
        yield lambda name: report(name.replace("_", " "), list(names).index(name), len(names))


def measured(document: object, text: str, file: Path | None) -> Answer:
    """Write a measured document to `file`, if there is one; return it with its text for people."""
    if file is not None:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(document, indent=1, allow_nan=False) + "\n", encoding="utf-8")
    return Answer(document, [text])
