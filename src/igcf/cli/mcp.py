"""`igcf mcp`: tools of a running service for assistants."""

from pathlib import Path

import click

from igcf.cli.options import PATH
from igcf.errors import ConfigError


@click.command()
@click.option("--url", default="http://127.0.0.1:8000", show_default=True, help="Address of a running `igcf serve`.")
@click.option("--api-key-file", type=PATH, help="File with a key of the role `server`.")
@click.option("--user", help="The only user that the tools may act for [default: any user, named in each call].")
def mcp(url: str, api_key_file: Path | None, user: str | None) -> None:
    """Offer recommend, react, explain, similar and search to an assistant, by MCP over standard input and output.

    The tools call the service over HTTP, so its keys, limits and audit apply.

    \b
    Examples:
      igcf mcp --user ann
      igcf mcp --url https://recommend.example --api-key-file key.txt
    """
    from igcf.service.mcp_server import create_server

    try:
        keys = api_key_file.read_text().split() if api_key_file else [None]
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"cannot read the key file {api_key_file}: {error}; name a readable text file") from error
    if len(keys) != 1:
        raise ConfigError(f"{api_key_file} holds {len(keys)} keys; expected one key")
    create_server(url, api_key=keys[0], user=user).run()
