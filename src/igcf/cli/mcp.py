"""`igcf mcp`: tools of a running service for assistants."""

from pathlib import Path

import click

from igcf.cli.options import PATH
from igcf.errors import ConfigError


@click.command()
@click.option("--url", default="http://127.0.0.1:8000", show_default=True, help="Address of a running `igcf serve`.")
@click.option("--api-key-file", type=PATH, help="File with a key of the role `server`.")
@click.option("--user", help="The only user whom the tools may act for [default: any user, named in each call].")
def mcp(url: str, api_key_file: Path | None, user: str | None) -> None:
    """Offer recommend, react, explain, similar and search to an assistant, by MCP over standard input and output.

    The tools call the service over HTTP, so its keys, limits and audit apply.

    \b
    Examples:
      igcf mcp --user ann
      igcf mcp --url https://recommend.example --api-key-file key.txt
    """
    try:
        from igcf.service.mcp_server import create_server
    except ImportError as error:
        raise ConfigError(f"this needs the MCP packages ({error}); pip install 'igcf[mcp]'") from error
    create_server(url, api_key=None if api_key_file is None else _read_key(api_key_file), user=user).run()


def _read_key(path: Path) -> str:
    try:
        keys = path.read_text().split()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"cannot read the key file {path}: {error}; name a readable text file") from error
    if len(keys) != 1:
        raise ConfigError(f"{path} holds {len(keys)} keys; expected one key")
    return keys[0]
