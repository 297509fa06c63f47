from dataclasses import replace

import numpy as np
import pytest

from igcf.errors import ConfigError, ModelError
from igcf.model import Channel, Model, Reward
from tests.toys import ensemble_model, random_model, two_channel_model

PARTS = {
    "item_vectors": np.eye(2),
    "item_ids": ["a", "b"],
    "prior_mean": [0, 0],
    "prior_cov": np.eye(2),
    "noise_var": 1,
}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"item_vectors": np.zeros((0, 2))}, "both at least 1"),
        ({"item_ids": ["a"]}, r"item_ids has shape \(1,\), expected \(2,\)"),
        ({"item_ids": ["a", "a"]}, "1 duplicates"),
        ({"prior_mean": [0]}, "prior_mean has shape"),
        ({"prior_cov": np.eye(3)}, "prior_cov has shape"),
        ({"prior_cov": [[1, 0.5], [0, 1]]}, "not symmetric"),
        ({"prior_cov": [[1, 2], [2, 1]]}, "negative eigenvalues"),
        ({"noise_var": 0.0}, "noise_var must be positive"),
        ({"noise_var": [1.0, 1.0, 1.0]}, "noise_var has shape"),
        ({"item_vectors": [[np.nan, 0], [0, 1]]}, "NaN or infinite"),
        ({"item_variances": -np.eye(2)}, "must not be negative"),
        ({"titles": ["only one"]}, "titles has shape"),
    ],
)
def test_parts_that_do_not_fit_are_refused(change: dict[str, object], message: str) -> None:
    with pytest.raises(ModelError, match=message):
        Model(**{**PARTS, **change})  # type: ignore[arg-type]


def test_a_channel_without_dimensions_is_refused() -> None:
    channels = [
        Channel(
            np.ones((2, width), np.float32), np.ones(2), Reward("raw", threshold=0.5, low=0.0, high=1.0), start=start
        )
        for width, start in ((2, 0), (0, 2))
    ]
    with pytest.raises(ModelError, match=r"item_vectors of channel 1 has shape \(2, 0\)"):
        Model(item_ids=["a", "b"], prior_mean=[0, 0], prior_cov=np.eye(2), channels=channels)


def test_liking_is_unknown_without_a_reaction() -> None:
    reward = Reward("liked", threshold=4.0, low=1.0, high=5.0)
    np.testing.assert_array_equal(reward.of([1.0, 4.0, np.nan]), [0.0, 1.0, np.nan])


def test_the_expected_reward_is_put_together_from_the_terms() -> None:
    model = ensemble_model()
    user = np.random.default_rng(0).normal(size=8)
    a, b = user[:4], user[4:]
    z = [channel.vectors @ block for channel, block in zip(model.channels, (a, a, b, b), strict=True)]
    expected = 0.5 * z[0] + 0.5 / (1 + np.exp(-z[2])) / (1 + np.exp(-z[3]))
    np.testing.assert_allclose(model.expected(user), expected, rtol=1e-6)
    assert model.expected_of(user, 7) == pytest.approx(expected[7])


def test_item_vectors_of_an_ensemble_are_its_slope_at_the_population() -> None:
    model = ensemble_model()
    step = 1e-5 * np.eye(8)
    slope = (model.expected(model.prior_mean + step) - model.expected(model.prior_mean - step)) / 2e-5
    np.testing.assert_allclose(model.item_vectors.T, slope, atol=1e-5)


def test_channels_and_item_vectors_exclude_each_other() -> None:
    model = ensemble_model()
    with pytest.raises(ModelError, match="either item_vectors and noise_var, or channels"):
        Model(**{**PARTS, "channels": model.channels})  # type: ignore[arg-type]


def test_titles_fall_back_to_ids() -> None:
    assert random_model().title("item-3") == "item-3"
    assert two_channel_model().title("item-3") == "Title 3"


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("raw", [1.0, 4.0, 5.0, 0.0]),
        ("scaled", [0.2, 0.8, 1.0, 0.0]),
        ("satisfied", [0.0, 1.0, 1.0, 0.0]),
        ("exposed", [1.0, 1.0, 1.0, 0.0]),
    ],
)
def test_a_value_becomes_a_reward_and_no_reaction_becomes_zero(kind: str, expected: list[float]) -> None:
    reward = Reward(kind, threshold=4.0, low=1.0, high=5.0)  # type: ignore[arg-type]
    np.testing.assert_allclose(reward.of([1.0, 4.0, 5.0, np.nan]), expected)
    assert reward.is_satisfied([1.0, 4.0, np.nan]).tolist() == [False, True, False]


@pytest.mark.parametrize(
    ("kind", "expected"),
    [("satisfied", [1, 0, 0]), ("exposed", [1, 0, 0]), ("liked", [1, np.nan, np.nan]), ("raw", [1, 0, 0])],
)
def test_where_every_reaction_is_a_success_a_value_below_all_of_them_counts_as_none(
    kind: str, expected: list[float]
) -> None:
    reward = Reward(kind, threshold=1.0, low=1.0, high=1.0)  # type: ignore[arg-type]
    assert reward.is_implicit
    np.testing.assert_array_equal(reward.of([1.0, 0.0, np.nan]), expected)
    np.testing.assert_array_equal([reward.of_one(value) for value in (1.0, 0.0, np.nan)], expected)
    assert reward.is_satisfied([1.0, 0.0, np.nan]).tolist() == [True, False, False]


def test_a_scale_with_negative_values_keeps_its_signs_and_is_not_refused() -> None:
    reward = Reward("scaled", threshold=-1.0, low=-10.0, high=-0.5)
    np.testing.assert_allclose(reward.of([-10.0, -0.5, np.nan]), [-1.0, -0.05, 0.0])
    assert reward.checked(-10.0) == -10.0


def test_an_unknown_reward_is_refused() -> None:
    with pytest.raises(ConfigError, match="reward must be one of raw, scaled, satisfied, exposed, liked, got 'cosy'"):
        Reward("cosy", 0.0, 0.0, 1.0)  # type: ignore[arg-type]


def test_blocks_that_are_learned_apart_must_be_uncorrelated() -> None:
    model = ensemble_model(20, 4)
    cov = model.prior_cov.copy()
    cov[0, -1] = cov[-1, 0] = 0.1
    with pytest.raises(ModelError, match="correlates dimensions of different channels"):
        model.with_prior(model.prior_mean, cov)


def test_channels_share_all_of_their_dimensions_or_none() -> None:
    model = ensemble_model(20, 4)
    channels = [*model.channels[:-1], replace(model.channels[-1], start=model.channels[-1].start - 1)]
    with pytest.raises(ModelError, match="only a part of them"):
        Model(
            channels=channels,
            terms=model.terms,
            item_ids=model.item_ids,
            prior_mean=model.prior_mean,
            prior_cov=model.prior_cov,
        )
