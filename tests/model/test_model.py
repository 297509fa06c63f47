import numpy as np
import pytest

from igcf.errors import ConfigError, ModelError
from igcf.model import Model, Reward
from tests.toys import random_model, two_channel_model

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


def test_reactions_reveal_every_channel() -> None:
    model = two_channel_model()
    X, rewards, noise = model.observations(np.array([3, 4]), [5.0, np.nan])
    assert X.shape == (2, 2, 5)
    assert rewards.tolist() == [[1.0, 1.0], [0.0, 0.0]]  # satisfied and exposed; shown without a reaction
    np.testing.assert_array_equal(noise[:, 1], model.evidence[0].noise_var[[3, 4]])
    assert model.observations(np.array([3]), [2.0])[1].tolist() == [[0.0, 1.0]]


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


def test_without_a_threshold_the_upper_quarter_of_the_range_satisfies() -> None:
    assert Reward.from_log(np.array([1.0, 5.0, 3.0]), "raw").threshold == 4.0
    assert Reward.from_log(np.array([0.0, 1.0]), "raw").threshold == 0.75


def test_an_unknown_reward_is_refused() -> None:
    with pytest.raises(ConfigError, match="reward must be one of raw, scaled, satisfied, exposed, got 'cosy'"):
        Reward("cosy", 0.0, 0.0, 1.0)  # type: ignore[arg-type]
