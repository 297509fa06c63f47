"""igcf: an interactive recommender that learns a new user's taste from each reaction.

Names and modules are loaded on first use, so that `import igcf` stays light; only the graph model needs torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from igcf.version import __version__

if TYPE_CHECKING:
    from igcf import data as data
    from igcf import errors as errors
    from igcf import lab as lab
    from igcf import model as model
    from igcf import online as online
    from igcf.config import ExpertsConfig, GraphConfig
    from igcf.data import Interactions, load_dataset
    from igcf.item import Item
    from igcf.model import Model
    from igcf.online import Exposure, Greedy, InfoUcb, Recommender, Rules, Session, Thompson, Ucb
    from igcf.training import pretrain

_MODULES = ("data", "errors", "lab", "model", "online")
"""Modules with public names of their own."""
_HOME = {"Item": "igcf.item", "Model": "igcf.model", "pretrain": "igcf.training"}
_HOME |= dict.fromkeys(("ExpertsConfig", "GraphConfig"), "igcf.config")
_HOME |= dict.fromkeys(("Interactions", "load_dataset"), "igcf.data")

__all__ = [
    "ExpertsConfig", "Exposure", "GraphConfig", "Greedy", "InfoUcb", "Interactions", "Item", "Model", "Recommender",
    "Rules", "Session", "Thompson", "Ucb", "__version__", "load_dataset", "pretrain",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(f"igcf.{name}")
    if name in __all__:
        return getattr(import_module(_HOME.get(name, "igcf.online")), name)
    raise AttributeError(f"module 'igcf' has no attribute {name!r}")


def __dir__() -> list[str]:
    """List the public names, also those that are loaded when they are first used."""
    return sorted({*__all__, *_MODULES, "__all__", "__doc__", "__file__", "__name__", "__path__"})
