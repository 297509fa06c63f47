"""Reactions without an opinion: met, not disliked."""

from dataclasses import replace

import numpy as np
import polars as pl
import pytest

import igcf
from igcf.config import ExpertsConfig
from igcf.data import Interactions
from igcf.data.success import success_in
from igcf.training.experts.shared_log import Part

QUICK = ExpertsConfig(iterations=3, logistic_dim=4, linear_dim=4, validate_rounds=5)


def log(unrated: float | None) -> Interactions:
    """300 users who met the even items with grades only, the odd ones half of the time with a 0; grades are alike."""
    rng = np.random.default_rng(0)
    users, items = (each.ravel() for each in np.meshgrid(np.arange(300), np.arange(20), indexing="ij"))
    met = rng.random(len(users)) < 0.5
    users, items = users[met], items[met]
    values = rng.choice([2, 4, 6, 8, 9], len(users))
    values[(items % 2 == 1) & (rng.random(len(users)) < 0.5)] = 0
    frame = pl.DataFrame({"user": users, "item": items, "value": values})
    return Interactions.from_frame(frame, unrated=unrated)


def test_a_part_of_a_log_knows_who_met_what_without_an_opinion() -> None:
    data = log(0)
    part = Part.of(data)
    everybody = np.arange(part.n_users)
    assert part.table(everybody, -np.inf).nnz == len(data)
    assert part.table(everybody, 2).nnz == int((~np.isnan(data.values)).sum()) < len(data)


def test_zeros_lower_the_chance_of_an_item_unless_they_mean_no_opinion() -> None:
    difference = {}
    for unrated in (None, 0):
        data = log(unrated)
        threshold = success_in(log(None), 6).threshold
        model = igcf.pretrain(data, replace(QUICK, satisfied=threshold), progress=False)
        picks = {pick.item_id: pick for pick in igcf.Recommender(model).session().recommend(20)}
        odd, even = (np.mean([picks[str(item)].chance for item in range(first, 20, 2)]) for first in (1, 0))
        difference[unrated] = even - odd
        assert model.reward.low == (0 if unrated is None else 2)
    assert difference[None] > 0.2  # the shares of successes in the log differ by 0.29
    assert abs(difference[0]) < 0.2 * difference[None]


def test_items_below_the_threshold_enter_through_their_content() -> None:
    data = igcf.data.synthetic_catalogue(n_users=150, n_items=60)
    counts = np.bincount(data.item_idx, minlength=data.n_items)
    least = int(np.sort(counts)[5]) + 1
    kept = data.at_least(least)
    model = igcf.pretrain(kept, QUICK, progress=False)
    assert model.n_items == data.n_items
    assert set(model.item_ids[kept.n_items :]) == {item.id for item in kept.rare_items}
    assert model.metadata["data"]["items"] == kept.n_items
    assert model.metadata["reading"]["notes"] == list(kept.notes)
    with pytest.raises(igcf.errors.DataError, match="choose smaller ones"):
        data.at_least(10**6)
