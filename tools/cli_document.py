"""`docs/reference/cli.md` from `--help`: `python -m tools.cli_document > docs/reference/cli.md`."""

import os
import sys
from collections.abc import Iterator

import click

HEAD = """# Command line

After this page you will know every command and option. It is written by `python -m tools.cli_document` from the
commands' own `--help`, and a test compares the two.

A user's mistake ends in one line on standard error and exit code 2. `--json` prints one document for programs. An
environment variable `IGCF_DATA_DIR` says where data sets lie.
"""
WIDTH = 80
"""That of a terminal; wider lines would have to be scrolled on the site."""


def cli_markdown() -> str:
    """Write the help of every command, in the order in which one meets them."""
    return "\n".join([HEAD, *(_section(context) for context in commands())])


def commands() -> list[click.Context]:
    """List all commands, each in a context of its own."""
    from igcf.cli.main import cli

    return list(_contexts(cli, "igcf", None))


def _contexts(command: click.Command, name: str, parent: click.Context | None) -> Iterator[click.Context]:
    settings = {**command.context_settings, "terminal_width": WIDTH, "max_content_width": WIDTH}
    context = click.Context(command, info_name=name, parent=parent, **settings)
    yield context
    if isinstance(command, click.Group):
        for each in command.list_commands(context):
            inner = command.get_command(context, each)
            if inner is not None:
                yield from _contexts(inner, each, context)


def _section(context: click.Context) -> str:
    lines = [line.rstrip() for line in context.get_help().splitlines()]
    return f"## {context.command_path}\n\n```text\n" + "\n".join(lines) + "\n```\n"


if __name__ == "__main__":
    os.environ.pop("COLUMNS", None)
    sys.stdout.write(cli_markdown())
