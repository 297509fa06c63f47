"""Types of the JavaScript client: `python -m tools.client_types > clients/js/src/api.d.ts`."""

import sys
from typing import Any

from tools.http_document import openapi
from tools.page_types import HEAD, page_types

CLIENT_HEAD = """// Bodies and answers of the HTTP API, written by `python -m tools.client_types`.

"""


def client_types(document: dict[str, Any]) -> str:
    """Write one exported interface per schema."""
    body = page_types(document).removeprefix(HEAD).removesuffix("}\n")
    lines = [line.removeprefix("  ") for line in body.splitlines()]
    return CLIENT_HEAD + "\n".join(f"export {line}" if line.startswith("interface ") else line for line in lines) + "\n"


if __name__ == "__main__":
    sys.stdout.write(client_types(openapi()))
