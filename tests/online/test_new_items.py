"""The posterior of a new item against brute force, and that it is a function of a set of reactions."""

import numpy as np
import pytest

from igcf.item import Item
from igcf.model import Channel, Model, Reward
from igcf.model.content import ContentPrior, Features
from igcf.model.new_items import UserEvidence
from igcf.online import Belief, Exposure
from igcf.online.new_items.posterior import ItemLearning
from igcf.online.new_items.update import NewItems
from igcf.online.serving import LiveServing

SUCCESS = Reward("satisfied", threshold=4.0, low=1.0, high=5.0)
EXPOSED = Reward("exposed", threshold=4.0, low=1.0, high=5.0)


def prior_of(dim: int, n_classes: int, n_channels: int, rng: np.random.Generator) -> ContentPrior:
    """A content prior with one category as its only feature."""
    roots = rng.normal(size=(n_channels, n_classes, dim, dim)) / 3
    covs = tuple(each @ np.swapaxes(each, 1, 2) for each in roots)
    coefficients = tuple((rng.normal(size=(n_classes, 2, dim)) / 2).astype(np.float32) for _ in range(n_channels))
    return ContentPrior(
        Features(categories=("drama",)),
        np.vstack([np.full(n_classes, 1.0 / n_classes), np.zeros(n_classes)]),
        np.full(n_classes, 0.01),
        coefficients,
        covs,
        tuple(np.linspace(0.1, 0.3, n_classes) for _ in range(n_channels)),
    )


def linear_model(n_classes: int = 2, dim: int = 3) -> Model:
    rng = np.random.default_rng(0)
    return Model(
        item_vectors=rng.normal(size=(6, dim)),
        noise_var=0.2,
        item_ids=[f"i{n}" for n in range(6)],
        prior_mean=np.eye(1, dim)[0],
        prior_cov=np.diag(np.linspace(0.5, 1.0, dim)),
        reward=SUCCESS,
        content=prior_of(dim, n_classes, 1, rng),
    )


def two_block_model() -> Model:
    rng = np.random.default_rng(1)
    channels = [
        Channel(rng.normal(size=(6, 2)).astype(np.float32), np.full(6, 0.2), SUCCESS),
        Channel(rng.normal(size=(6, 2)).astype(np.float32), np.ones(6), EXPOSED, "logit", 2),
    ]
    return Model(
        channels=channels,
        item_ids=[f"i{n}" for n in range(6)],
        prior_mean=np.array([1.0, 0.0, 1.0, 0.0]),
        prior_cov=np.eye(4),
        reward=SUCCESS,
        content=prior_of(2, 3, 2, rng),
    )


def beliefs(dim: int, n: int, seed: int = 2) -> list[Belief]:
    rng = np.random.default_rng(seed)
    return [Belief(rng.normal(size=dim), np.diag(rng.uniform(0.05, 0.3, dim))) for _ in range(n)]


@pytest.mark.parametrize("n_reactions", [1, 2, 4])
def test_the_posterior_of_a_linear_item_equals_conditioning_the_joint_gaussian(n_reactions: int) -> None:
    """Brute force: vector and rewards are jointly Gaussian in each class, whose likelihood is the marginal density."""
    model = linear_model()
    assert model.content is not None
    priors = model.content.of([Item("new", categories=("drama",))])
    learning = ItemLearning(model)
    people, values = beliefs(3, n_reactions), [5.0, 5.0, 4.0, 5.0][:n_reactions]
    told = [learning.contribution(priors, 0, each, value) for each, value in zip(people, values, strict=True)]
    found = learning.posterior(priors, 0, told)
    X, r = np.stack([each.user for each in told]), np.ones(n_reactions)
    logs = []
    for k in range(2):
        y, Q = priors.means[0][0, k].astype(float), model.content.covs[0][k]
        spread = np.array([y @ each.cov @ y for each in people])
        of_rewards = X @ Q @ X.T + np.diag(model.content.noise[0][k] + spread)
        gain = Q @ X.T @ np.linalg.inv(of_rewards)
        np.testing.assert_allclose(found.means[0][k], y + gain @ (r - X @ y), atol=1e-10)
        surprise = r - X @ y
        fit = surprise @ np.linalg.solve(of_rewards, surprise)
        logs.append(-0.5 * (fit + np.linalg.slogdet(of_rewards)[1]) + np.log(priors.shares[0, k]))
    np.testing.assert_allclose(found.shares, np.exp(logs) / np.exp(logs).sum(), atol=1e-10)


def test_a_logit_channel_makes_one_newton_step_from_the_prior() -> None:
    model = two_block_model()
    assert model.content is not None
    priors, learning = model.content.of([Item("new")]), ItemLearning(model)
    told = [
        learning.contribution(priors, 0, each, value)
        for each, value in zip(beliefs(4, 3), [5.0, 4.0, 5.0], strict=True)
    ]
    found = learning.posterior(priors, 0, told)
    for k in range(3):
        y, Q = priors.means[1][0, k].astype(float), model.content.covs[1][k]
        X = np.stack([each.user[2:] / np.sqrt(1 + np.pi / 8 * each.spreads[1, k]) for each in told])
        p = 1 / (1 + np.exp(-X @ y))
        noise = model.content.noise[1][k]
        curvature = np.linalg.inv(Q) + (X.T * (p * (1 - p) / noise)) @ X
        gradient = X.T @ (np.ones(3) - p) / noise
        np.testing.assert_allclose(found.means[1][k], y + np.linalg.solve(curvature, gradient), atol=1e-8)


@pytest.fixture
def model_with_news() -> Model:
    return two_block_model().with_items([{"id": "a", "categories": ["drama"]}, {"id": "b"}])


def learned(model: Model, order: list[int], most: int = 200) -> LiveServing:
    live, people = LiveServing(model, Exposure(settled=most)), beliefs(4, 12)
    for each in order:
        row, value = 6 + each % 2, [5.0, 1.0, np.nan][each % 3]
        live.learn(each, model.item_ids[row], live.contribution(row, people[each], value, 10))
    return live


def items_of(live: LiveServing) -> NewItems:
    found = live.current().new_items
    assert found is not None
    return found


def state(live: LiveServing) -> list[np.ndarray]:
    channels = live.current().model.channels
    return [part for channel in channels for part in (channel.vectors, channel.noise_var)]


def assert_same(one: LiveServing, other: LiveServing) -> None:
    for a, b in zip(state(one), state(other), strict=True):
        np.testing.assert_array_equal(a, b)


def test_the_order_of_reactions_does_not_matter_at_all(model_with_news: Model) -> None:
    order = list(range(12))
    shuffled = np.random.default_rng(3).permutation(order).tolist()
    for most in (200, 3):
        assert_same(learned(model_with_news, order, most), learned(model_with_news, shuffled, most))


def test_a_reaction_taken_back_leaves_no_trace(model_with_news: Model) -> None:
    live = learned(model_with_news, list(range(12)))
    for each in (3, 8):
        live.learn(each, model_with_news.item_ids[6 + each % 2], None)
    live.learn("never seen", "a", None)
    assert_same(live, learned(model_with_news, [each for each in range(12) if each not in (3, 8)]))


def test_all_taken_back_is_the_content_prior(model_with_news: Model) -> None:
    live = learned(model_with_news, list(range(12)))
    for each in range(12):
        live.learn(each, model_with_news.item_ids[6 + each % 2], None)
    for one, other in zip(state(live), state(LiveServing(model_with_news)), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6)


def test_a_user_counts_once(model_with_news: Model) -> None:
    assert_same(learned(model_with_news, [0, 1]), learned(model_with_news, [0, 1, 0]))


def test_learning_new_items_leaves_the_model_that_was_given_alone(model_with_news: Model) -> None:
    before = [channel.vectors.copy() for channel in model_with_news.channels]
    live = learned(model_with_news, list(range(12)))
    for channel, own, moved in zip(model_with_news.channels, before, live.current().model.channels, strict=True):
        np.testing.assert_array_equal(channel.vectors, own)
        np.testing.assert_array_equal(moved.vectors[:6], own[:6])
        assert (moved.vectors[6:] != own[6:]).any()


def test_evidence_without_information_changes_nothing() -> None:
    model = linear_model()
    assert model.content is not None
    priors, learning = model.content.of([Item("new")]), ItemLearning(model)
    silent = UserEvidence(np.ones(3), np.zeros((1, 2)), np.array([np.nan]))
    np.testing.assert_allclose(learning.posterior(priors, 0, [silent]).shares, priors.shares[0])
