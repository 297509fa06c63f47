"""A pipe or a device in the place of a file is one clear error, at once."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from igcf.catalogue.rules import read_rules
from igcf.cli.items import read_batch
from igcf.errors import IgcfError
from igcf.service.http.authentication import Keys
from igcf.service.sources import load_settings


def _with_password(path: Path) -> Any:
    return load_settings({"store": "postgresql://igcf@db/igcf", "store_password_file": str(path)})


@pytest.mark.parametrize("read", [read_rules, read_batch, Keys.from_file, _with_password])
@pytest.mark.parametrize("kind", ["pipe", "device"])
def test_what_is_no_file_is_refused_at_once(read: Callable[[Path], Any], kind: str, tmp_path: Path) -> None:
    path = tmp_path / "given.json"
    if kind == "pipe":
        os.mkfifo(path)
    else:
        path.symlink_to("/dev/zero")
    with pytest.raises(IgcfError, match="it is no regular file"):
        read(path)
