"""Comparison of two methods on the same users: paired test, effect size, correction."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from scipy.stats import rankdata, wilcoxon

from igcf.arrays import FloatArray

SIGNIFICANT = 0.05
"""A difference whose p value is not below this is a tie."""


@dataclass(frozen=True)
class Comparison:
    """Comparison of a method with a reference over the same users."""

    method: str
    reference: str
    metric: str
    difference: float
    """Mean over users of method minus reference."""
    p_uncorrected: float
    """P value of the two-sided Wilcoxon signed-rank test, before correction."""
    effect: float
    """Matched-pairs rank-biserial correlation: 1 if every user is better off with the method, -1 if none is."""
    p_value: float = 1.0
    """P value after Holm's correction over all comparisons of the experiment: the one that is reported everywhere."""

    @property
    def is_tie(self) -> bool:
        """Whether the difference is within chance."""
        return self.p_value >= SIGNIFICANT

    def as_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {**asdict(self), "tie": self.is_tie}


def compare(method: str, reference: str, metric: str, ours: FloatArray, theirs: FloatArray) -> Comparison:
    """Compare one number per user."""
    difference = ours - theirs
    moved = difference[difference != 0]
    if not len(moved):
        return Comparison(method, reference, metric, 0.0, 1.0, 0.0)
    p_value = float(wilcoxon(moved, method="auto").pvalue)
    return Comparison(method, reference, metric, float(difference.mean()), p_value, rank_biserial(moved))


def rank_biserial(difference: FloatArray) -> float:
    """Return (ranks of gains - ranks of losses) / sum of all ranks, both summed; zeros are left out."""
    moved = difference[difference != 0]
    ranks = rankdata(np.abs(moved))
    return float((ranks * np.sign(moved)).sum() / ranks.sum()) if len(moved) else 0.0


def holm(p_values: Sequence[float]) -> list[float]:
    """Apply Holm's step-down correction, which controls the chance of any false discovery; the order is kept."""
    order = np.argsort(p_values, kind="stable")
    stepped = np.asarray(p_values, dtype=np.float64)[order] * (len(p_values) - np.arange(len(p_values)))
    corrected = np.empty(len(p_values))
    corrected[order] = np.minimum(np.maximum.accumulate(stepped), 1.0)
    return corrected.tolist()


def corrected(comparisons: Sequence[Comparison]) -> list[Comparison]:
    """Correct the p values of the comparisons of one experiment as one family."""
    values = holm([each.p_uncorrected for each in comparisons])
    return [replace(each, p_value=value) for each, value in zip(comparisons, values, strict=True)]


def per_user(scores: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Return one score per user id: the mean over the runs (seeds) that met the user."""
    found: dict[str, list[float]] = {}
    for run in scores:
        for user_id, score in run.items():
            found.setdefault(user_id, []).append(score)
    return {user_id: float(np.mean(values)) for user_id, values in found.items()}
