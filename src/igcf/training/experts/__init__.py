"""The default model: the average of a linear and a logistic factor model, each fitted by exact or variational steps."""

from igcf.training.experts.ensemble import ensemble_model, fit_experts
from igcf.training.experts.linear import LinearExpert, fit_linear
from igcf.training.experts.logistic import LogisticExpert, fit_logistic

__all__ = ["LinearExpert", "LogisticExpert", "ensemble_model", "fit_experts", "fit_linear", "fit_logistic"]
