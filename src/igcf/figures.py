"""What all figures share: SVG that changes only when the numbers do, in a folder that can be written to."""

import os
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from igcf.errors import ConfigError

SVG: dict[Any, Any] = {"svg.hashsalt": "igcf", "svg.fonttype": "none"}
"""Fixed ids and no outlines of letters: small files."""


def prepare_folder(folder: Path) -> None:
    """Make the folder, or say why there will be no figures; ask before a long computation, not after."""
    if find_spec("matplotlib") is None:
        raise ConfigError("figures need matplotlib; install it with `pip install igcf[train]`")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"cannot make the folder {folder} ({error.strerror}); choose another --out") from error
    if not os.access(folder, os.W_OK):
        raise ConfigError(f"cannot write into the folder {folder}; choose another --out")
