"""The default model: the average of a linear and a logistic factor model; NumPy and SciPy only, never torch."""

from igcf.training.experts.assembling import Experts, ensemble_model
from igcf.training.experts.linear import LinearExpert, fit_linear
from igcf.training.experts.logistic import LogisticExpert, fit_logistic
from igcf.training.experts.train import fit_experts

__all__ = ["Experts", "LinearExpert", "LogisticExpert", "ensemble_model", "fit_experts", "fit_linear", "fit_logistic"]
