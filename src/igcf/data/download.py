"""Download an owner's archive: resumed after a cut, checked, whole or absent."""

import hashlib
import http.client
import os
import ssl
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path

from igcf.data.registry import DatasetInfo, default_data_dir
from igcf.errors import DownloadError
from igcf.version import __version__

Progress = Callable[[int, int | None], None]
"""Called with the bytes that are there and, where the server says so, the bytes there will be."""

BLOCK = 1 << 18
TIMEOUT_S = 30.0
NETWORK_ERRORS = (urllib.error.URLError, TimeoutError, ConnectionError, ssl.SSLError, http.client.HTTPException)


def fetch(info: DatasetInfo, data_dir: str | Path | None = None, progress: Progress | None = None) -> Path:
    """Download a data set into the data folder and return its path; does nothing where a good copy is there.

    What arrives goes to a `.part` file. After a cut the next call continues it, and it gets its name only when the
    checksum is right.

    Raises:
        DownloadError: there is nothing to download, the network or the disk fails, or the checksum is wrong.
    """
    url = _url(info)
    target = (Path(data_dir) if data_dir is not None else default_data_dir()) / info.files[0]
    if target.exists():
        if not _matches(info, target):
            raise DownloadError(
                f"{info.name}: {target} is there, but its checksum is not {info.checksum}: damaged or another version; "
                "move it away to fetch it again"
            )
        return target
    part = target.with_name(f"{target.name}.part")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        _receive(info, url, part, progress or _silent)
    except urllib.error.HTTPError as error:
        raise DownloadError(f"{info.name}: {url} answered {error.code} {error.reason}; try again later") from error
    except NETWORK_ERRORS as error:
        reason = getattr(error, "reason", error)
        have = f"; {part.stat().st_size:,} bytes are kept and will be continued" if part.exists() else ""
        raise DownloadError(
            f"{info.name}: no connection to {url} ({reason}){have}; "
            f"check the network and run it again, or put {info.files[0]} into {target.parent} yourself"
        ) from error
    except OSError as error:
        raise DownloadError(f"{info.name}: cannot write {part}: {error.strerror or error}") from error
    if not _matches(info, part):
        part.unlink()
        raise DownloadError(
            f"{info.name}: what came from {url} has another checksum than {info.checksum} and was thrown away; "
            "run it again, and if that does not help, the owner has changed the file"
        )
    os.replace(part, target)
    return target


def _url(info: DatasetInfo) -> str:
    if info.withdrawn:
        raise DownloadError(
            f"{info.name} was withdrawn by its owner and cannot be downloaded; "
            f"if you have a copy, put {info.files[1]} into the data folder"
        )
    if info.url is None:
        raise DownloadError(f"{info.name} is built in; there is nothing to download")
    return info.url


def _receive(info: DatasetInfo, url: str, part: Path, progress: Progress) -> None:
    """Append to `part` until it is whole."""
    have = part.stat().st_size if part.exists() else 0
    headers = {"User-Agent": f"igcf/{__version__}"} | ({"Range": f"bytes={have}-"} if have else {})
    try:
        response = urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=TIMEOUT_S)  # noqa: S310
    except urllib.error.HTTPError as error:
        error.close()
        if error.code != http.client.REQUESTED_RANGE_NOT_SATISFIABLE or not have:
            raise
        if _matches(info, part):  # it was whole already; only the rename was missing
            return
        part.unlink()
        return _receive(info, url, part, progress)
    with response:
        if response.status != http.client.PARTIAL_CONTENT:
            have = 0  # the server sends all of it again
        length = response.headers.get("Content-Length")
        total = have + int(length) if length else None
        with part.open("ab" if have else "wb") as file:
            progress(have, total)
            while block := response.read(BLOCK):
                file.write(block)
                have += len(block)
                progress(have, total)
    if total is not None and have < total:
        raise ConnectionError(f"it ended after {have:,} of {total:,} bytes")


def _matches(info: DatasetInfo, path: Path) -> bool:
    if info.checksum is None:
        return True
    algorithm, expected = info.checksum.split(":")
    with path.open("rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.new(algorithm, usedforsecurity=False)).hexdigest() == expected


def _silent(_have: int, _total: int | None) -> None:
    pass
