"""Learning a model from a log: the default experts, or the paper's graph model."""

from igcf.training.graph.shard import StepStats
from igcf.training.graph.train import Progress
from igcf.training.pretraining import pretrain

__all__ = ["Progress", "StepStats", "pretrain"]
