"""Against a real server on this machine."""

import hashlib
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest

from igcf.data.registry import BLOCK, DATASETS, DatasetInfo, fetch
from igcf.errors import DownloadError

CONTENT = np.random.default_rng(0).bytes(3 * BLOCK + 17)


class ArchiveServer(ThreadingHTTPServer):
    """Serves CONTENT; `cut_after` bytes it hangs up once."""

    cut_after: int | None = None
    status = 200

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), ArchiveHandler)
        self.n_requests = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/archive.zip"


class ArchiveHandler(BaseHTTPRequestHandler):
    server: ArchiveServer

    def do_GET(self) -> None:
        server = self.server
        server.n_requests += 1
        if server.status != 200:
            self.send_error(server.status)
            return
        self.send_response(200)
        self.send_header("Content-Length", str(len(CONTENT)))
        self.end_headers()
        cut, server.cut_after = server.cut_after, None
        self.wfile.write(CONTENT[:cut])

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def server() -> Iterator[ArchiveServer]:
    with ArchiveServer() as running:
        thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield running
        running.shutdown()
        thread.join()


def archive(url: str, checksum: str | None = None) -> DatasetInfo:
    checksum = checksum or f"sha256:{hashlib.sha256(CONTENT).hexdigest()}"
    return DatasetInfo("toy", "a toy", "free", url, checksum, ("toy.zip", "toy"))


def test_an_archive_is_downloaded_once(server: ArchiveServer, tmp_path: Path) -> None:
    seen: list[tuple[int, int | None]] = []
    path = fetch(archive(server.url), tmp_path / "new", lambda have, total: seen.append((have, total)))
    assert path == tmp_path / "new" / "toy.zip"
    assert path.read_bytes() == CONTENT
    assert [have for have, _ in seen] == sorted(have for have, _ in seen)
    assert seen[0] == (0, len(CONTENT))
    assert seen[-1] == (len(CONTENT), len(CONTENT))
    assert fetch(archive(server.url), tmp_path / "new") == path
    assert server.n_requests == 1
    assert [file.name for file in (tmp_path / "new").iterdir()] == ["toy.zip"]


def test_a_download_that_is_cut_leaves_nothing(server: ArchiveServer, tmp_path: Path) -> None:
    server.cut_after = BLOCK + 5
    with pytest.raises(DownloadError, match=r"no connection to .*\(it ended after|IncompleteRead"):
        fetch(archive(server.url), tmp_path)
    assert list(tmp_path.iterdir()) == []
    assert fetch(archive(server.url), tmp_path).read_bytes() == CONTENT


def test_a_wrong_checksum_leaves_nothing(server: ArchiveServer, tmp_path: Path) -> None:
    with pytest.raises(DownloadError, match="another checksum than md5:00 and was deleted"):
        fetch(archive(server.url, "md5:00"), tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_damaged_copy_is_reported_and_left_alone(server: ArchiveServer, tmp_path: Path) -> None:
    (tmp_path / "toy.zip").write_bytes(b"mine")
    with pytest.raises(DownloadError, match="is there, but its checksum"):
        fetch(archive(server.url), tmp_path)
    assert (tmp_path / "toy.zip").read_bytes() == b"mine"


def test_the_servers_refusal_is_passed_on(server: ArchiveServer, tmp_path: Path) -> None:
    server.status = 404
    with pytest.raises(DownloadError, match="answered 404 Not Found"):
        fetch(archive(server.url), tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_without_a_network_one_sentence_says_so(tmp_path: Path) -> None:
    with ArchiveServer() as stopped:
        url = stopped.url
    with pytest.raises(DownloadError, match=r"toy: no connection to http://127.* or put toy\.zip into") as caught:
        fetch(archive(url), tmp_path)
    assert "\n" not in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_written_is_named(server: ArchiveServer, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(DownloadError, match="cannot write"):
        fetch(archive(server.url), tmp_path / "file")


def test_withdrawn_and_built_in_data_sets_are_not_downloaded(tmp_path: Path) -> None:
    with pytest.raises(DownloadError, match="eachmovie was withdrawn by its owner"):
        fetch(DATASETS["eachmovie"], tmp_path)
    with pytest.raises(DownloadError, match="synthetic is built in"):
        fetch(DATASETS["synthetic"], tmp_path)
