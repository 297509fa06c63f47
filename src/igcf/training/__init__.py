"""Learning a model from a log: the default experts, or the paper's graph model."""

from igcf.training.pretraining import pretrain
from igcf.training.progress import Progress, StepStats

__all__ = ["Progress", "StepStats", "pretrain"]
