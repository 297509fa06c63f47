"""What all figures share: one look, SVG that changes only when the numbers do, in a folder that can be written to."""

import io
import os
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from igcf.errors import ConfigError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BLUE, RED, GREY = "#4878a8", "#c44e52", "#999999"
"""Colours of a fact, of a warning, and of what is only there for comparison."""
STYLE: dict[Any, Any] = {
    "svg.hashsalt": "igcf",  # the same drawing gets the same ids
    "svg.fonttype": "none",  # no outlines of letters: small files
    "font.size": 9,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#e2dcd0",
    "legend.frameon": False,
    **dict.fromkeys(("text.color", "axes.edgecolor", "axes.labelcolor", "xtick.color", "ytick.color"), "#211c30"),
}
IN_THE_DARK = {"#211c30": "#f3effc", "#000000": "#f3effc", "#e2dcd0": "#37324b"}
"""Colours that change where the reader prefers dark pages: letters and axes, lines in black, the grid."""


def svg(draw: "Callable[[Figure], None]", width: float, height: float) -> str:
    """Return the SVG text of a figure of this size in inches, filled by `draw`; matplotlib is imported here only."""
    import matplotlib
    from matplotlib.figure import Figure

    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(width, height), layout="constrained")
        draw(figure)
        text = io.StringIO()
        figure.savefig(text, format="svg", metadata={"Date": None}, transparent=True)
    rules = "".join(
        f'[style*="{kind}: {light}"] {{ {kind}: {dark} !important }} '
        for light, dark in IN_THE_DARK.items()
        for kind in ("stroke", "fill")
    )
    style = f"<style>@media screen and (prefers-color-scheme: dark) {{ {rules}}}</style>"
    return text.getvalue().replace("<defs>", f"{style}<defs>", 1)


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
