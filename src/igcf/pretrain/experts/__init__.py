"""The default model: the average of a linear and a logistic factor model, each fitted by exact or variational steps."""

from igcf.pretrain.experts.ensemble import ensemble_model, fit_experts
from igcf.pretrain.experts.linear import LinearExpert, fit_linear
from igcf.pretrain.experts.logistic import LogisticExpert, fit_logistic

__all__ = ["LinearExpert", "LogisticExpert", "ensemble_model", "fit_experts", "fit_linear", "fit_logistic"]
