import numpy as np
import pytest
from scipy.stats import wilcoxon

from igcf.lab.evaluate.results import Comparison, compare, corrected, holm, rank_biserial


def test_the_test_is_that_of_scipy_on_the_differences() -> None:
    rng = np.random.default_rng(0)
    ours, theirs = rng.normal(0.3, 1, 60), rng.normal(0, 1, 60)
    found = compare("a", "b", "precision@10", ours, theirs)
    assert found.p_uncorrected == pytest.approx(wilcoxon(ours, theirs).pvalue)
    assert found.difference == pytest.approx((ours - theirs).mean())


def test_rank_biserial_by_hand() -> None:
    """Differences 1, -2, 3, 0: ranks 1, 2, 3; gains 1 + 3, losses 2, all 6: (4 - 2) / 6."""
    assert rank_biserial(np.array([1.0, -2.0, 3.0, 0.0])) == pytest.approx(1 / 3)
    assert rank_biserial(np.array([2.0, 1.0])) == 1.0
    assert rank_biserial(np.array([-2.0, -1.0])) == -1.0


def test_equal_scores_are_no_difference() -> None:
    found = compare("a", "b", "precision@10", np.ones(5), np.ones(5))
    assert (found.difference, found.p_uncorrected, found.effect) == (0.0, 1.0, 0.0)


def test_holm_by_hand() -> None:
    """Sorted 0.01, 0.02, 0.03 times 3, 2, 1: 0.03, 0.04, then no smaller than before: 0.04."""
    assert holm([0.03, 0.01, 0.02]) == pytest.approx([0.04, 0.03, 0.04])
    assert holm([0.9, 0.8]) == [1.0, 1.0]
    assert holm([]) == []


def test_all_comparisons_of_an_experiment_are_one_family() -> None:
    single = Comparison("a", "b", "precision@10", 1.0, 0.02, 0.5)
    assert [each.p_value for each in corrected([single, single])] == pytest.approx([0.04, 0.04])
