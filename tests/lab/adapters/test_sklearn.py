"""igcf as an estimator of scikit-learn, the real package."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.model_selection import KFold, cross_val_score
from sklearn.utils.estimator_checks import check_estimator

from igcf.data import synthetic_catalogue
from igcf.lab.adapters.sklearn import InteractiveRecommender

OTHER_SHAPES = dict.fromkeys(
    (
        "check_fit_score_takes_y",
        "check_dont_overwrite_parameters",
        "check_n_features_in_after_fitting",
        "check_positive_only_tag_during_fit",
        "check_estimators_dtypes",
        "check_dtype_object",
        "check_pipeline_consistency",
        "check_estimators_nan_inf",
        "check_estimators_pickle",
        "check_f_contiguous_array_estimator",
        "check_methods_sample_order_invariance",
        "check_methods_subset_invariance",
        "check_dict_unchanged",
        "check_fit2d_predict1d",
    ),
    "gives X another number of columns than the two that users and items are",
)


def reactions(n_users: int = 150, n_items: int = 40) -> tuple[pd.DataFrame, Any]:
    log = synthetic_catalogue(n_users=n_users, n_items=n_items)
    users = [f"u{user}" for user in log.user_idx]
    return pd.DataFrame({"user": users, "item": log.item_idx + 1}), log.values


@pytest.fixture(scope="module")
def fitted() -> InteractiveRecommender:
    return InteractiveRecommender(satisfied=4.0).fit(*reactions())


def test_what_applies_of_scikit_learn_s_own_checks_passes() -> None:
    results = check_estimator(InteractiveRecommender(), on_fail=None, on_skip=None, expected_failed_checks=OTHER_SHAPES)
    by_status: dict[str, set[str]] = {}
    for each in results:
        by_status.setdefault(each["status"], set()).add(each["check_name"])
    assert "failed" not in by_status
    assert by_status["xfail"] == set(OTHER_SHAPES), "a check that passes is not to be excused"
    assert len(by_status["passed"]) >= 24


def test_parameters_are_those_of_the_constructor() -> None:
    estimator = InteractiveRecommender(satisfied=4.0, random_state=3)
    assert estimator.get_params() == {"satisfied": 4.0, "random_state": 3}
    assert clone(estimator).get_params() == estimator.get_params()


def test_known_users_are_recommended_what_is_not_in_their_record(fitted: InteractiveRecommender) -> None:
    frame, _ = reactions()
    picks = fitted.recommend(["u1", "u2"], k=4)
    assert picks.shape == (2, 4)
    assert picks.dtype.kind == "i", "ids as they were given"
    for user, own in zip(("u1", "u2"), picks, strict=True):
        assert not set(own.tolist()) & set(frame["item"][frame["user"] == user])


def test_a_reaction_moves_the_user_and_nobody_else(fitted: InteractiveRecommender) -> None:
    ask = pd.DataFrame({"user": ["new"] * 3 + ["u5"] * 3, "item": [1, 2, 3] * 2})
    before = fitted.predict(ask)
    picks = fitted.recommend(["new"], k=6)[0].tolist()
    fitted.partial_fit(pd.DataFrame({"user": ["new"] * 2, "item": picks[:2]}), [1.0, 1.0])
    after = fitted.predict(ask)
    assert (after[:3] < before[:3]).any()
    np.testing.assert_array_equal(after[3:], before[3:])
    assert not set(picks[:2]) & set(fitted.recommend(["new"], k=6)[0].tolist())


def test_unknown_items_have_no_chance_and_cannot_be_reacted_to(fitted: InteractiveRecommender) -> None:
    ask = pd.DataFrame({"user": ["u1", "u1"], "item": [1, 999]})
    assert np.isnan(fitted.predict(ask)).tolist() == [False, True]
    with pytest.raises(ValueError, match="'999' is not in this model"):
        fitted.partial_fit(ask, [5.0, 5.0])


@pytest.mark.slow
def test_it_is_cross_validated_like_every_estimator() -> None:
    """The chances of held-out reactions rank successes before failures; the shares of likes of the items reach 0.59."""
    folds = KFold(2, shuffle=True, random_state=0)
    assert cross_val_score(InteractiveRecommender(satisfied=4.0), *reactions(400, 150), cv=folds).mean() > 0.62
