"""Learning a model from a log; the only place that needs torch."""

from igcf.pretrain.pretrain import pretrain
from igcf.pretrain.train import Progress, StepStats

__all__ = ["Progress", "StepStats", "pretrain"]
