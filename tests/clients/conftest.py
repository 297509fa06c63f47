"""A real server on a small model, and the shop's site on another origin."""

import shutil
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tests.service.processes import Server
from tests.web.conftest import film_model

ROOT = Path(__file__).parents[2]


class Quiet(SimpleHTTPRequestHandler):
    """Files without a line per request."""

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Lay out the shop's site with the client beside it, as its README says."""
    folder = tmp_path_factory.mktemp("shop") / "site"
    shutil.copytree(ROOT / "examples" / "shop" / "site", folder)
    shutil.copytree(ROOT / "clients" / "js" / "src", folder / "igcf")
    return folder


@pytest.fixture(scope="session")
def shop(site: Path) -> Iterator[str]:
    """Serve the shop's site; yields the address."""
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(site))) as files:
        threading.Thread(target=files.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{files.server_port}"
        files.shutdown()


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory, shop: str) -> Iterator[Server]:
    """Serve a small model to pages of the shop."""
    folder = tmp_path_factory.mktemp("clients")
    film_model().save(folder / "model")
    running = Server(folder / "model", str(folder / "store.db"), "--cors-origin", shop)
    yield running.wait_until_ready()
    running.stop()
