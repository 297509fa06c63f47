"""Rivals that use attributes, in a world where the attribute decides what is liked."""

from typing import Any

import numpy as np
import pytest

import igcf
from igcf.lab.baselines import Task, method_named
from igcf.online import ModelLearner, replay

N_ITEMS = 20
METHODS = ("attribute-ridge", "linucb-attributes", "attribute-sums")


def world() -> tuple[Task, np.ndarray[Any, Any], list[str]]:
    """People of two countries who like the first or the second half of the items, with exceptions."""
    rng = np.random.default_rng(0)
    countries = ["nz" if number % 2 else "de" for number in range(200)]
    halves = np.array([country == "nz" for country in countries])
    likes = (np.arange(N_ITEMS) < N_ITEMS // 2) == halves[:, None]
    values = np.where(likes ^ (rng.random(likes.shape) < 0.15), 5.0, 1.0).astype(np.float32)
    ids = [f"u{number:03}" for number in range(200)]
    n = 160
    log = igcf.Interactions.from_arrays(
        np.repeat(ids[:n], N_ITEMS).tolist(), [f"i{k:02}" for k in range(N_ITEMS)] * n, values[:n].ravel().tolist()
    )
    return Task(log.with_users({"user": ids, "country": countries}), satisfied=4.0), values[n:], countries[n:]


@pytest.mark.parametrize("name", METHODS)
def test_attributes_decide_the_first_items_and_reactions_the_rest(name: str) -> None:
    task, truth, countries = world()
    method = method_named(name)
    learner = method.build(task, method.settings({"dim": 3} if name != METHODS[0] else {}), np.random.default_rng(0))
    assert isinstance(learner, ModelLearner)
    known = learner

    def successes(*, is_known: bool) -> float:
        given = [{"country": country} if is_known else {} for country in countries]
        shown = replay(
            known,
            truth,
            rounds=5,
            rng=np.random.default_rng(0),
            begun=lambda users: known.set_attributes([given[user] for user in users.tolist()]),
        )
        return float((shown.values >= 4).sum(axis=(1, 2)).mean())

    assert successes(is_known=True) > 3.9
    assert successes(is_known=False) < successes(is_known=True) - 0.2


def test_shared_coefficients_solve_the_regression_of_all_pairs() -> None:
    """The closed form against plain ridge regression with a row per training user and item."""
    task, _, _ = world()
    method = method_named("linucb-attributes")
    settings = method.settings({"dim": 2, "penalty": 3.0, "shared_penalty": 7.0})
    model = method.fit(task, settings, np.random.default_rng(0))
    prior = model.attribute_prior
    assert prior is not None
    x = model.item_vectors[:, 1:].astype(float)
    mean = model.item_vectors[:, 0].astype(float)
    R = (task.train.dense() >= 4.0).astype(float)
    F = np.array([prior.encoder.encode(task.train.users.given(user)).numbers for user in task.train.user_ids])  # type: ignore[union-attr]
    M = np.eye(N_ITEMS) - x @ np.linalg.inv(x.T @ x + 3.0 * np.eye(2)) @ x.T
    precision, information = 7.0 * np.eye(4), np.zeros(4)
    for f, r in zip(F, R, strict=True):
        Z = np.einsum("nd,p->ndp", x, f).reshape(N_ITEMS, -1)
        precision += Z.T @ M @ Z
        information += Z.T @ M @ (r - mean)
    expected = np.linalg.solve(precision, information).reshape(2, 2)
    np.testing.assert_allclose(prior.weights[1:], expected, atol=1e-5)
