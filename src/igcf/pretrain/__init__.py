"""Learning a model from a log; the only place that needs torch.

The module can be called, `igcf.pretrain(data, dim=64)`: the folder and the function share their name.
"""

import sys
from types import ModuleType
from typing import Any

from igcf.model import Model
from igcf.pretrain.pretrain import pretrain
from igcf.pretrain.shard import StepStats
from igcf.pretrain.train import Progress

__all__ = ["Progress", "StepStats", "pretrain"]


class _CallableModule(ModuleType):
    def __call__(self, *args: Any, **settings: Any) -> Model:
        return pretrain(*args, **settings)


sys.modules[__name__].__class__ = _CallableModule
