"""The one place where commands print: results on stdout, everything for people to watch on stderr.

What a terminal would obey, such as an escape sequence in a title, is printed as a sign for it.
"""

import json
import os
import re
import signal
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.segment import Segment

from igcf.errors import ConfigError

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


def emit_json(document: object) -> None:
    """Print exactly one JSON document on stdout."""
    echo(json.dumps(document, indent=2, allow_nan=False))


@contextmanager
def parts_display(names: Sequence[str]) -> Iterator[Callable[[str], None]]:
    """Show on stderr which part of a long command runs; gives a function that is called when a part begins."""
    from igcf.progress import show_progress

    with show_progress(alike=False) as report:
        yield lambda name: report(name.replace("_", " "), list(names).index(name), len(names))


def emit_measured(document: object, text: str, *, file: Path | None, as_json: bool) -> None:
    """Write a measured document to `file` if there is one, and print it as JSON or as the text for people."""
    if file is not None:
        file.write_text(json.dumps(document, indent=1, allow_nan=False) + "\n", encoding="utf-8")
    if as_json:
        emit_json(document)
    else:
        echo(text)


def prepare_folder(folder: Path) -> None:
    """Make the folder, or say why nothing can be written there; ask before a long computation, not after."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"cannot make the folder {folder} ({error.strerror}); choose another --out") from error
    if not os.access(folder, os.W_OK):
        raise ConfigError(f"cannot write into the folder {folder}; choose another --out")
