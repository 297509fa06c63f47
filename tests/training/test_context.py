"""The effect of contexts against a world in which it is known."""

from typing import Any

import numpy as np
import polars as pl
import pytest

import igcf
from igcf.arrays import FloatArray
from igcf.errors import DataError
from igcf.model import Model, Reward
from igcf.training.context import with_context

DIM, ITEMS = 4, 50
DEVICES = ("desk", "phone")


def world(n_users: int, seed: int, strength: float = 0.4) -> tuple[Model, FloatArray, pl.DataFrame]:
    """Return a model, the true weights of the devices (d, 2), and a log whose column moon says nothing."""
    rng = np.random.default_rng(seed)
    weights = rng.normal(size=(DIM, 2)) * strength
    weights -= weights.mean(axis=1, keepdims=True)
    model = Model(
        item_ids=[f"i{n:02}" for n in range(ITEMS)],
        item_vectors=rng.normal(size=(ITEMS, DIM)),
        prior_mean=rng.normal(size=DIM) * 0.3,
        prior_cov=np.diag(rng.uniform(0.5, 1.5, DIM)),
        noise_var=0.5,
        reward=Reward("raw", threshold=0.5, low=-50.0, high=50.0),
    )
    users = model.prior_mean + rng.normal(size=(n_users, DIM)) * np.sqrt(np.diagonal(model.prior_cov))
    who = np.repeat(np.arange(n_users), 12)
    what = np.concatenate([rng.choice(ITEMS, 12, replace=False) for _ in range(n_users)])
    device = rng.integers(0, 2, len(who))
    moved = users[who] + weights.T[device] - weights.mean(axis=1)
    values = (moved * model.item_vectors[what]).sum(axis=1) + rng.normal(size=len(who)) * np.sqrt(0.5)
    columns: dict[str, Any] = {
        "user": [f"u{n:04}" for n in who],
        "item": [f"i{n:02}" for n in what],
        "value": values,
        "device": [DEVICES[each] for each in device],
        "moon": [("full", "new")[each] for each in rng.integers(0, 2, len(who))],
    }
    return model, weights, pl.DataFrame(columns)


def test_the_effect_of_a_known_world_is_recovered_and_a_useless_context_has_none() -> None:
    model, weights, frame = world(400, 0)
    data = igcf.Interactions.from_frame(frame).with_context(["device", "moon"], frame)
    assert data.notes[-1] == "context: device (category), moon (category)"
    effect = with_context(model, data).context_effect
    assert effect is not None
    assert effect.encoder.names == ("device",)
    assert effect.encoder.unused == ("moon",)
    assert np.corrcoef(effect.weights.ravel(), weights.ravel())[0, 1] > 0.97
    shuffled = frame.with_columns(frame["device"].shuffle(seed=1))
    nothing = with_context(model, data.with_context(["device"], shuffled)).context_effect
    assert nothing is not None
    assert nothing.encoder.names == ()


@pytest.mark.slow
@pytest.mark.parametrize("strength", [0.4, 1.0])
def test_intervals_of_the_effect_cover_as_often_as_they_say(strength: float) -> None:
    hits: list[bool] = []
    for seed in range(60):
        model, weights, frame = world(120, seed, strength)
        data = igcf.Interactions.from_frame(frame).with_context(["device"], frame)
        effect = with_context(model, data).context_effect
        assert effect is not None
        if effect.encoder.names:
            hits += (np.abs(effect.weights - weights) < 1.2816 * effect.errors)[:, 0].tolist()
    assert len(hits) > 200
    assert 0.75 <= np.mean(hits) <= 0.85


def test_the_context_of_a_log_follows_its_rows_and_the_hour_comes_from_the_times() -> None:
    data = igcf.Interactions.from_arrays(["a", "b", "a"], ["x", "x", "y"], [1.0, 2.0, 3.0], [0, 3600, 7200])
    frame = pl.DataFrame({"user": ["a", "b", "a", "a"], "item": ["x", "x", "x", "y"], "device": ["p", "q", "r", "s"]})
    found = data.with_context(["device", "hour"], frame).context
    assert found is not None
    assert found.columns["device"] == [("r",), ("q",), ("s",)]
    assert [each.hour for each in found.columns["hour"]] == [0, 1, 2]
    part = data.with_context(["device"], frame).only_users(np.array([1])).context
    assert part is not None
    assert part.columns["device"] == [("q",)]
    with pytest.raises(DataError, match="no column 'season' for a context"):
        data.with_context(["season"], frame)
