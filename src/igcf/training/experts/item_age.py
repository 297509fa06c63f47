"""Correction for items that appeared late: who left before could not react to them (docs/maths.md, section Experts).

The share of all users who reacted to such an item says too little about the users to come.
"""

from dataclasses import replace

import numpy as np

from igcf.arrays import FloatArray
from igcf.training.experts.linear import LinearExpert
from igcf.training.experts.logistic import LogisticExpert
from igcf.training.experts.shared_log import SharedLog

PRIOR_USERS = 5.0
"""Number of users who count as if they had seen the item from the beginning: a few days are no proof."""
LARGEST_SHARE = 0.9
"""Share of users above which no item is corrected."""


def growth_since_appearance(log: SharedLog) -> FloatArray | None:
    """Return the factor by which each item's share of users grows when only the time since its first reaction counts.

    The shape is (items,); None where the times are not known. The first
    reaction itself is left out, or every rare item would seem to grow; nothing shrinks.
    """
    if not len(log.users) or log.first_times is None:
        return None
    times, places = log.first_times
    items = np.flatnonzero(log.item_counts)
    order = items[np.lexsort((places[items], times[items]))]
    counts = log.item_counts[order]
    n_users, n_reactions = len(log.users), int(log.item_counts.sum())
    users_after = n_users * (1.0 - log.n_before(times[order], places[order]) / n_reactions)
    share = counts / n_users
    since = (counts - 1.0 + PRIOR_USERS * share) / (users_after + PRIOR_USERS)
    growth = np.ones(log.n_items)
    growth[order] = np.maximum(np.minimum(since, LARGEST_SHARE) / share, 1.0)
    return growth


def age_corrected_linear(expert: LinearExpert, growth: FloatArray) -> LinearExpert:
    """Let all shares of an item grow alike, and with them the variance; the loadings stay."""
    means = expert.means * np.tile(growth, len(expert.means) // len(growth))
    means = np.minimum(means, np.maximum(expert.means, LARGEST_SHARE))
    grown_by = means * (1.0 - means) - expert.means * (1.0 - expert.means)
    residuals = np.maximum(expert.residuals + grown_by, 0.0)
    return replace(expert, means=means, residuals=residuals)


def age_corrected_logistic(expert: LogisticExpert, growth: FloatArray, shares: FloatArray) -> LogisticExpert:
    """Move the constant of being seen as the logit of the item's share of users moves; what is liked stays."""
    p = np.clip(shares, 1e-6, 1.0 - 1e-6)
    grown = np.clip(p * growth, 1e-6, 1.0 - 1e-6)
    vectors = expert.vectors.copy()
    vectors[0, :, -1] += np.log(grown / (1.0 - grown)) - np.log(p / (1.0 - p))
    return replace(expert, vectors=vectors)
