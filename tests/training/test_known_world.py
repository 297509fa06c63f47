"""Attributes and contexts of worlds whose effects are known, learned the way `igcf pretrain` learns them."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import polars as pl
import pytest

import igcf
from igcf.arrays import FloatArray, IntArray
from igcf.model import Model
from igcf.model.attribute_prior import AttributePrior
from igcf.training import attribute_prior
from igcf.training.attribute_prior import fit_attributes, user_vectors
from igcf.training.context import with_context

pytestmark = pytest.mark.slow

WORLDS, DIM, ITEMS, USERS, LATER, EACH = 8, 5, 120, 2_000, 4_000, 40
LEVELS = {"country": ["de", "fr", "nz"], "age": ["old", "young"]}
DEVICES = ["desk", "phone"]
WITHIN = 1.2816
"""Standard errors on both sides that hold 80 %."""
NO_PENALTY = 1e-3


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


class Outcome(NamedTuple):
    """What the model of one world got right."""

    attributes: list[bool]
    """Whether each interval of an attribute's weight holds the weight of later users."""
    device: list[bool]
    gain: float
    """Successes per user that attributes add to the first round."""
    best: float
    """Those that the true prior would add."""
    shuffled: tuple[str, ...]
    """Attributes with a weight after they were shuffled among users."""


def chance(logits: FloatArray) -> FloatArray:
    return np.asarray(1.0 / (1.0 + np.exp(-logits)))


def world(seed: int) -> World:
    rng = np.random.default_rng(seed)
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


def effects_on_later_users(own: World) -> tuple[AttributePrior, AttributePrior]:
    """Weights of attributes and device from the later users alone.

    They are fitted without a penalty: under that of training, both sides would err towards zero together, and the
    intervals would hold them too often.
    """
    assert own.later.users is not None
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(attribute_prior, "PENALTIES", (NO_PENALTY,))
        prior = fit_attributes(user_vectors(own.model, own.later), own.later.users, list(own.later.user_ids)).prior
        effect = with_context(own.model, own.later).context_effect
    assert effect is not None
    return prior, effect


def covered(found: AttributePrior | None, later: AttributePrior) -> list[bool]:
    """Whether the 80 % interval of each weight, widened by the error of the later users', holds theirs."""
    assert found is not None
    assert found.encoder.names == later.encoder.names
    is_live = found.errors > 0
    error = np.sqrt(found.errors**2 + later.errors**2)
    result: list[bool] = (np.abs(found.weights - later.weights) < WITHIN * error)[is_live].tolist()
    return result


def first_round(own: World) -> tuple[float, float]:
    """Successes per later user that attributes add to the first round, and those that the true prior would add."""
    draws, moves = np.random.default_rng(0).normal(size=(400, DIM)), own.moves
    recommender = igcf.Recommender(own.model, igcf.Greedy())
    plain = own.model.item_row(recommender.session().recommend()[0].item_id)
    popular = int(own.wishes.mean(axis=0).argmax())
    gain = best = 0.0
    labels = {name: each[USERS:] for name, each in own.labels.items()}
    for country, age in np.ndindex(3, 2):
        wishes = own.wishes[(labels["country"] == country) & (labels["age"] == age)]
        given = {"country": LEVELS["country"][country], "age": LEVELS["age"][age]}
        pick = own.model.item_row(recommender.session(attributes=given).recommend()[0].item_id)
        users = moves["country"][country] + moves["age"][age] + draws
        right = int(chance(users @ own.items.T + own.bias).mean(axis=0).argmax())
        gain += float((wishes[:, pick] - wishes[:, plain]).sum())
        best += float((wishes[:, right] - wishes[:, popular]).sum())
    return gain / LATER, best / LATER


def shuffled_attributes(own: World) -> tuple[str, ...]:
    table = own.train.users
    assert table is not None
    order = np.random.default_rng(1).permutation(len(table.row_of)).tolist()
    shuffled = replace(table, row_of=dict(zip(table.row_of, order, strict=True)))
    return fit_attributes(user_vectors(own.model, own.train), shuffled, list(own.train.user_ids)).prior.encoder.names


@pytest.fixture(scope="module")
def outcomes() -> list[Outcome]:
    found = []
    for seed in range(WORLDS):
        own = world(seed)
        prior, effect = effects_on_later_users(own)
        attributes, device = covered(own.model.attribute_prior, prior), covered(own.model.context_effect, effect)
        found.append(Outcome(attributes, device, *first_round(own), shuffled_attributes(own)))
    return found


def report(what: str, of_worlds: list[float]) -> None:
    """Print a figure of each world: pytest shows it with -rP, and when a test fails."""
    print(what, *(f"{seed}: {each:.3f}" for seed, each in enumerate(of_worlds)), sep="  ")


@pytest.mark.parametrize("what", ["attributes", "device"])
def test_weights_are_recovered_within_their_stated_uncertainty(outcomes: list[Outcome], what: str) -> None:
    hits = [getattr(each, what) for each in outcomes]
    share = float(np.mean(np.concatenate(hits)))
    report(f"{what}: 80 % intervals cover {share:.3f}", [float(np.mean(each)) for each in hits])
    assert 0.75 <= share <= 0.85


def test_the_first_round_gains_most_of_what_the_true_prior_brings(outcomes: list[Outcome]) -> None:
    gain, best = sum(each.gain for each in outcomes), sum(each.best for each in outcomes)
    report(f"gain: {gain / best:.3f} of the true prior's", [each.gain / each.best for each in outcomes])
    assert gain >= 0.8 * best > 0


def test_shuffled_attributes_change_no_answer(outcomes: list[Outcome]) -> None:
    assert all(each.shuffled == () for each in outcomes)
