"""The Python client needs none of the server's dependencies."""

import subprocess
import sys

CODE = """
import sys
for name in "fastapi starlette uvicorn sqlalchemy psycopg prometheus_client duckdb polars scipy torch".split():
    sys.modules[name] = None
from igcf.service.client import AsyncClient, Client
Client("http://127.0.0.1:9").close()
"""


def test_the_client_is_imported_without_the_dependencies_of_the_server() -> None:
    result = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
