"""A real server on a small model, shared by the tests of the clients."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.service.processes import Server
from tests.web.conftest import film_model


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder: Path = tmp_path_factory.mktemp("clients")
    film_model().save(folder / "model")
    running = Server(folder / "model", str(folder / "store.db"), "--cors-origin", "http://shop.test")
    yield running.wait_until_ready()
    running.stop()
