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
    from igcf.config import ExpertsConfig as ExpertsConfig
    from igcf.config import GraphConfig as GraphConfig
    from igcf.data import Interactions as Interactions
    from igcf.data import load_dataset as load_dataset
    from igcf.item import Item as Item
    from igcf.model import Model as Model
    from igcf.online import Exposure as Exposure
    from igcf.online import Greedy as Greedy
    from igcf.online import InfoUcb as InfoUcb
    from igcf.online import Recommender as Recommender
    from igcf.online import Rules as Rules
    from igcf.online import Session as Session
    from igcf.online import Thompson as Thompson
    from igcf.online import Ucb as Ucb
    from igcf.training import pretrain as pretrain

_HOME = {
    "ExpertsConfig": "igcf.config",
    "Greedy": "igcf.online",
    "InfoUcb": "igcf.online",
    "Interactions": "igcf.data",
    "Item": "igcf.item",
    "Model": "igcf.model",
    "GraphConfig": "igcf.config",
    "Exposure": "igcf.online",
    "Recommender": "igcf.online",
    "Rules": "igcf.online",
    "Session": "igcf.online",
    "Thompson": "igcf.online",
    "Ucb": "igcf.online",
    "load_dataset": "igcf.data",
    "pretrain": "igcf.training",
}

_MODULES = ("data", "errors", "lab", "model", "online")
"""Modules with public names of their own."""

__all__ = ["__version__", *_HOME]


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(import_module(_HOME[name]), name)
    if name in _MODULES:
        return import_module(f"igcf.{name}")
    raise AttributeError(f"module 'igcf' has no attribute {name!r}")


def __dir__() -> list[str]:
    """List the public names, also those that are loaded when they are first used."""
    return sorted({*__all__, *_MODULES, "__all__", "__doc__", "__file__", "__name__", "__path__", "__version__"})
