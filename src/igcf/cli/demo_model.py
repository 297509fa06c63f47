"""The models of `igcf serve --demo`: learned once, kept in the user's cache."""

import hashlib
import subprocess
import sys
from pathlib import Path

import click

from igcf.cli.output import console, let_ctrl_c_end_input
from igcf.errors import ConfigError, ModelError

EMBEDDED = "synthetic"


def demo_model(name: str = EMBEDDED) -> Path:
    """Return the folder of a demonstration's model, which is learned, in another process, when it is first wanted.

    Args:
        name: the embedded catalogue, or a data set known by name, which is fetched only if the user agrees.
    """
    from platformdirs import user_cache_path

    home = user_cache_path("igcf") / f"demo-{_learned_by()}"
    if name != EMBEDDED:
        _require_dataset(name)
        home = home / name
    folder = home / "model"
    if not folder.exists():
        what = "the embedded catalogue" if name == EMBEDDED else name
        console.print(f"Learning {what}, once")
        if _igcf("pretrain", "--dataset", name, "--out", str(folder)):
            raise ModelError(f"{what} could not be learned; run `igcf pretrain --dataset {name} --out DIR` to see why")
    return folder


def _learned_by() -> str:
    """Return the version and a digest of what learns a model, so that an older igcf's model is not taken for it."""
    import igcf
    from igcf.version import __version__

    root, digest = Path(igcf.__file__).parent, hashlib.sha256()
    for part in ("data", "model", "training"):
        for file in sorted((root / part).rglob("*.py")):
            digest.update(file.read_bytes())
    return f"{__version__}-{digest.hexdigest()[:8]}"


def _require_dataset(name: str) -> None:
    """Find a data set by name, or fetch it if the user says so; refuse otherwise."""
    from igcf.data.registry import dataset_info, find_dataset

    info = dataset_info(name)
    if find_dataset(info) is not None:
        return
    advice = f"fetch it with `igcf data fetch {name}`, or say where it lies with IGCF_DATA_DIR"
    if not sys.stdin.isatty():
        raise ConfigError(f"the data set {name} is not on this machine; {advice}")
    let_ctrl_c_end_input()
    click.echo(f"{info.description}\nlicence: {info.licence}", err=True)
    if not click.confirm(f"{name} is not on this machine. Download it from its owner?", default=False, err=True):
        raise ConfigError(f"nothing was downloaded; {advice}")
    if _igcf("data", "fetch", name):
        raise ConfigError(f"the data set {name} could not be fetched; {advice}")


def _igcf(*arguments: str) -> int:
    """Run a command of igcf; what it says of its progress is seen."""
    command = [sys.executable, "-m", "igcf", *arguments]
    return subprocess.run(command, check=False, stdout=subprocess.DEVNULL).returncode  # noqa: S603
