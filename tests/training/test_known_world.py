"""Attributes and contexts of a world whose effects are known, learned the way `igcf pretrain` learns them."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import polars as pl
import pytest

import igcf
from igcf.arrays import FloatArray, IntArray
from igcf.model import Model
from igcf.training.attribute_prior import fit_attributes, user_vectors
from igcf.training.context import with_context

pytestmark = pytest.mark.slow

DIM, ITEMS, USERS, LATER, EACH = 5, 120, 3_000, 4_000, 40
LEVELS = {"country": ["de", "fr", "nz"], "age": ["old", "young"]}
DEVICES = ["desk", "phone"]
WITHIN = 1.2816
"""Standard errors on both sides that hold 80 %."""


class World(NamedTuple):
    """People of countries and ages with a taste, who react at random moments to random items."""

    model: Model
    train: igcf.Interactions
    later: igcf.Interactions
    labels: Mapping[str, IntArray]
    """Level of each attribute, of all users; the later ones come last."""
    wishes: FloatArray
    """Chance of a success, (later users, items), at neither device."""
    moves: dict[str, FloatArray]
    """How attributes and devices move vectors, (levels, d)."""
    items: FloatArray
    bias: FloatArray


def chance(logits: FloatArray) -> FloatArray:
    return np.asarray(1.0 / (1.0 + np.exp(-logits)))


@pytest.fixture(scope="module", params=[1, 3])
def world(request: pytest.FixtureRequest) -> World:
    rng = np.random.default_rng(request.param)
    items, bias, n = rng.normal(size=(ITEMS, DIM)), rng.normal(size=ITEMS) * 0.5, USERS + LATER
    moves = {name: rng.normal(size=(len(own), DIM)) * 0.7 for name, own in {**LEVELS, "device": DEVICES}.items()}
    moves = {name: each - each.mean(axis=0) for name, each in moves.items()}
    labels = {name: rng.integers(0, len(own), n) for name, own in LEVELS.items()}
    users = sum(moves[name][labels[name]] for name in LEVELS) + rng.normal(size=(n, DIM))
    who, device = np.repeat(np.arange(n), EACH), rng.integers(0, 2, n * EACH)
    what = rng.random((n, ITEMS)).argsort(axis=1)[:, :EACH].ravel()
    z = ((users[who] + moves["device"][device]) * items[what]).sum(axis=1) + bias[what]
    columns: dict[str, Any] = {
        "user": [f"u{each:05}" for each in who],
        "item": [f"i{each:03}" for each in what],
        "value": np.where(rng.random(len(z)) < chance(z), 5.0, 1.0),
        "device": [DEVICES[each] for each in device],
    }
    people = {"user": [f"u{each:05}" for each in range(n)]}
    people |= {name: [LEVELS[name][each] for each in own] for name, own in labels.items()}
    frame = pl.DataFrame(columns)
    data = igcf.Interactions.from_frame(frame).with_users(people).with_context(["device"], frame)
    train, later = data.only_users(np.arange(USERS)), data.only_users(np.arange(USERS, n))
    model = igcf.pretrain(train, seed=0, progress=False)
    return World(model, train, later, labels, chance(users[USERS:] @ items.T + bias), moves, items, bias)


def covered(found: Any, true: Any) -> float:
    """How often the 80 % intervals of weights hold those of later users, which are nearly exact."""
    is_live = found.errors > 0
    error = np.sqrt(found.errors**2 + true.errors**2)
    return float((np.abs(found.weights - true.weights) < WITHIN * error)[is_live].mean())


def test_the_weights_of_a_trained_model_are_recovered_within_their_stated_uncertainty(world: World) -> None:
    prior = world.model.attribute_prior
    assert prior is not None
    assert prior.encoder.names == ("country", "age")
    vectors = user_vectors(world.model, world.later)
    assert world.later.users is not None
    true = fit_attributes(vectors, world.later.users, list(world.later.user_ids)).prior
    assert 0.75 <= covered(prior, true) <= 0.87  # worlds 0 to 5 together: 0.86


def test_the_effect_of_a_device_is_recovered_within_its_stated_uncertainty(world: World) -> None:
    effect = world.model.context_effect
    assert effect is not None
    assert effect.encoder.names == ("device",)
    true = with_context(world.model, world.later).context_effect
    assert true is not None
    assert 0.7 <= covered(effect, true) <= 0.9


def test_the_first_round_gains_most_of_what_the_true_prior_brings(world: World) -> None:
    draws, moves = np.random.default_rng(0).normal(size=(400, DIM)), world.moves
    recommender = igcf.Recommender(world.model, igcf.Greedy())
    plain = world.model.item_row(recommender.session().recommend()[0].item_id)
    popular = int(world.wishes.mean(axis=0).argmax())
    gain = best = 0.0
    own = {name: each[USERS:] for name, each in world.labels.items()}
    for country, age in np.ndindex(3, 2):
        wishes = world.wishes[(own["country"] == country) & (own["age"] == age)]
        given = {"country": LEVELS["country"][country], "age": LEVELS["age"][age]}
        pick = world.model.item_row(recommender.session(attributes=given).recommend()[0].item_id)
        users = moves["country"][country] + moves["age"][age] + draws
        right = int(chance(users @ world.items.T + world.bias).mean(axis=0).argmax())
        gain += float((wishes[:, pick] - wishes[:, plain]).sum())
        best += float((wishes[:, right] - wishes[:, popular]).sum())
    assert gain >= 0.8 * best > 0


def test_shuffled_attributes_change_no_answer(world: World) -> None:
    table = world.train.users
    assert table is not None
    order = np.random.default_rng(1).permutation(len(table.row_of)).tolist()
    shuffled = replace(table, row_of=dict(zip(table.row_of, order, strict=True)))
    vectors = user_vectors(world.model, world.train)
    assert fit_attributes(vectors, shuffled, list(world.train.user_ids)).prior.encoder.names == ()
