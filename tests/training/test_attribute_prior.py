"""The attribute prior against a world whose weights are known."""

from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pytest

import igcf
from igcf.arrays import FloatArray
from igcf.data.users import read_users
from igcf.model import Model, Reward
from igcf.model.attribute_prior import AttributePrior
from igcf.training.attribute_prior import UserVectors, fit_attributes, user_vectors, with_attributes, worth_lines
from igcf.training.attribute_share import SHARES, smooth_best, with_best_share

DIM, ITEMS = 6, 60
LEVELS = {"country": ["de", "fr", "nz"], "age": ["old", "young"], "shoe": ["a", "b"]}


class World(NamedTuple):
    """A population whose vectors depend on country and age, and not on shoe."""

    model: Model
    weights: dict[str, FloatArray]
    table: dict[str, list[str]]
    users: FloatArray
    data: igcf.Interactions


def world(n_users: int = 1500, seed: int = 0, *, is_full: bool = False, strength: float = 0.5) -> World:
    rng = np.random.default_rng(seed)
    items = rng.normal(size=(ITEMS, DIM))
    turn = np.linalg.qr(rng.normal(size=(DIM, DIM)))[0] if is_full else np.eye(DIM)
    weights = {name: turn @ rng.normal(size=(DIM, len(own))) * strength for name, own in LEVELS.items()}
    weights["shoe"][:] = 0.0
    table = {name: [levels[n] for n in rng.integers(0, len(levels), n_users)] for name, levels in LEVELS.items()}
    one_hot = {name: np.eye(len(own))[[own.index(each) for each in table[name]]] for name, own in LEVELS.items()}
    moves = sum((one_hot[name] - 1 / len(LEVELS[name])) @ weights[name].T for name in LEVELS)
    users = np.asarray(moves) + rng.normal(size=(n_users, DIM)) @ turn.T
    total = np.cov(users.T) if is_full else np.diag(users.var(axis=0))
    model = Model(
        item_ids=[f"i{n}" for n in range(ITEMS)],
        item_vectors=items,
        prior_mean=users.mean(axis=0),
        prior_cov=total,
        noise_var=0.5,
        reward=Reward("raw", threshold=0.5, low=-50.0, high=50.0),
        metadata={"settings": {"missing": "ignore"}},
    )
    counts = rng.integers(2, 15, n_users)
    who = np.repeat(np.arange(n_users), counts)
    what = np.concatenate([rng.choice(ITEMS, count, replace=False) for count in counts])
    vectors = model.item_vectors.astype(float)
    values = (users[who] * vectors[what]).sum(axis=1) + rng.normal(size=len(who)) * np.sqrt(0.5)
    data = igcf.Interactions.from_arrays([f"u{n:05}" for n in who], [f"i{n}" for n in what], values.tolist())
    ids = {"user": [f"u{n:05}" for n in range(n_users)]}
    order = [data.item_ids.index(each) for each in model.item_ids]
    items_as_model = igcf.Interactions(
        data.user_ids, model.item_ids, data.user_idx, np.argsort(order)[data.item_idx], data.values
    )
    return World(model, weights, table, users, items_as_model.with_users(ids | table))


def prior_of(own: World) -> AttributePrior:
    found = with_attributes(own.model, own.data).attribute_prior
    assert found is not None
    return found


def contrasts(prior: AttributePrior, own: World) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Fitted weights, true ones and errors; what all levels of an attribute have in common is in the prior mean."""
    names, spans = prior.encoder.names, prior.encoder.spans
    found, true, errors = [], [], []
    for name, span in zip(names, spans, strict=True):
        found.append(prior.weights[:, span])
        true.append(own.weights[name] - own.weights[name].mean(axis=1, keepdims=True))
        errors.append(prior.errors[:, span])
    return np.hstack(found), np.hstack(true), np.hstack(errors)


@pytest.mark.parametrize("is_full", [False, True])
def test_the_weights_of_a_known_world_are_recovered_and_a_useless_attribute_has_none(is_full: bool) -> None:
    own = world(is_full=is_full)
    prior = prior_of(own)
    assert prior.encoder.names == ("country", "age")
    assert prior.worth["shoe"].penalty is None
    assert prior.encoder.encode({"shoe": "a"}).ignored == ("shoe: not used, it predicted nothing in training",)
    assert prior.worth["country"].gain > 5 * prior.worth["country"].error
    found, true, _ = contrasts(prior, own)
    assert np.corrcoef(found.ravel(), true.ravel())[0, 1] > 0.97
    lines = worth_lines(prior)
    assert len(lines) == 4
    assert lines[-2].startswith("attribute shoe")
    assert "not used" in lines[-2]


def test_shuffled_attributes_get_no_weight() -> None:
    own = world()
    vectors = user_vectors(own.model, own.data)
    assert own.data.users is not None
    shuffled = [own.data.user_ids[n] for n in np.random.default_rng(1).permutation(own.data.n_users)]
    prior = fit_attributes(vectors, own.data.users, shuffled).prior
    assert prior.encoder.names == ()
    session = igcf.Recommender(own.model.changed(attribute_prior=prior)).session()
    np.testing.assert_array_equal(session.belief.mean, own.model.prior_mean)


@pytest.mark.slow
def test_intervals_of_the_weights_cover_as_often_as_they_say() -> None:
    hits: list[bool] = []
    for seed in range(40):
        own = world(400, seed, strength=0.4)
        prior = prior_of(own)
        found, true, errors = contrasts(prior, own)
        hits += (np.abs(found - true) < 1.2816 * errors).ravel().tolist()
    assert 0.75 <= np.mean(hits) <= 0.85


def test_the_first_round_gains_most_of_what_the_true_prior_would() -> None:
    own, later = world(1500), world(3000, seed=0)
    model = own.model.changed(attribute_prior=prior_of(own))
    recommender = igcf.Recommender(model, igcf.Greedy())
    vectors = model.item_vectors.astype(float)
    gains = []
    for n in range(1500, 3000):
        given = {name: later.table[name][n] for name in ("country", "age")}
        true = model.prior_mean + sum(
            later.weights[name] @ (np.eye(len(LEVELS[name]))[LEVELS[name].index(value)] - 1 / len(LEVELS[name]))
            for name, value in given.items()
        )
        picks = [int(np.argmax(vectors @ mean)) for mean in (model.prior_mean, true)]
        picks.append(model.item_row(recommender.session(attributes=given).recommend()[0].item_id))
        gains.append(vectors[picks] @ later.users[n])
    plain, best, found = np.mean(gains, axis=0)
    assert found - plain >= 0.8 * (best - plain) > 0


def test_the_closed_form_is_the_mode_of_the_joint_gaussian() -> None:
    """One direction, one attribute: the weights from the density of what users' records say, by brute force."""
    rng = np.random.default_rng(0)
    n, variance, noise = 200, 1.3, rng.uniform(0.1, 5.0, 200)
    sex = np.array(["f", "m"])[rng.integers(0, 2, n)]
    truth = np.where(sex == "f", 0.7, -0.7) + rng.normal(size=n) * np.sqrt(variance)
    seen = truth + rng.normal(size=n) * np.sqrt(noise)
    resolved = variance / (variance + noise)
    vectors = UserVectors(np.arange(n), (resolved * seen)[:, None], resolved[:, None], np.array([variance]), np.eye(1))
    ids = [f"u{k}" for k in range(n)]
    prior = fit_attributes(vectors, read_users({"user": ids, "sex": sex.tolist()}), ids).prior
    penalty = prior.worth["sex"].penalty
    assert penalty is not None
    f = np.stack([(sex == "f") - (sex == "f").mean(), (sex == "m") - (sex == "m").mean()], axis=1)
    precision = (f.T / (variance + noise)) @ f + penalty / variance * np.eye(2)
    expected = np.linalg.solve(precision, (f.T / (variance + noise)) @ seen)
    np.testing.assert_allclose(prior.weights[0], expected, atol=1e-9)
    centred = np.eye(2) - 0.5
    cov = centred @ np.linalg.inv(precision) @ centred
    left = (resolved**2 * (seen - f @ expected) ** 2).sum() / resolved.sum()  # about the variance
    assert left == pytest.approx(variance, rel=0.3)
    np.testing.assert_allclose(prior.errors[0] ** 2, np.diagonal(cov) * left / variance, atol=1e-9)


@pytest.mark.parametrize(("true_share", "expected"), [(0.0, 0.0), (0.5, 0.5), (1.0, 1.0)])
def test_the_share_of_the_weights_follows_what_played_users_gain_from(true_share: float, expected: float) -> None:
    """Weights that are twice too large, right, or of the wrong sign."""
    own = world(1200)
    vectors = user_vectors(own.model, own.data)
    assert own.data.users is not None
    fit = fit_attributes(vectors, own.data.users, list(own.data.user_ids))
    factor = 1.0 / true_share if true_share else -1.0
    spoilt = [replace(each, weights=factor * each.weights) for each in fit.held_out]
    found = with_best_share(own.model, own.data, vectors.rows, fit._replace(held_out=tuple(spoilt)))
    assert abs(found.share - expected) <= 0.25
    assert found.played is not None
    if not true_share:
        assert found.encoder.names == ()
        assert worth_lines(found)[-1].endswith("no attribute is used")
        session = igcf.Recommender(own.model.changed(attribute_prior=found)).session(attributes={"country": "nz"})
        np.testing.assert_array_equal(session.belief.mean, own.model.prior_mean)
    else:
        assert found.played.gain > 2 * found.played.error


def test_neighbouring_shares_are_not_told_apart_by_chance() -> None:
    assert SHARES[smooth_best(np.array([1.0, 1.1, 1.17, 1.175, 1.12]))] in (0.5, 0.75)
    assert SHARES[smooth_best(np.array([1.0, 0.98, 0.99, 0.9, 0.8]))] == 0.0


def test_a_log_without_a_table_gives_a_model_without_attributes() -> None:
    own = world(60)
    bare = igcf.Interactions(
        *(getattr(own.data, name) for name in ("user_ids", "item_ids", "user_idx", "item_idx", "values"))
    )
    assert with_attributes(own.model, bare) is own.model
