"""Where the command line prints: results on stdout, everything for people to watch on stderr."""

import json

import click
from rich.console import Console

console = Console(stderr=True)
"""Progress, notes and tables for people."""


def emit_json(document: object) -> None:
    """Print exactly one JSON document on stdout."""
    click.echo(json.dumps(document, indent=2, allow_nan=False))
