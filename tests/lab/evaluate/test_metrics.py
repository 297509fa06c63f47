import numpy as np

from igcf.lab.evaluate import metrics

ONE_SLOT = np.array([[[1], [0], [1]], [[0], [0], [0]]], dtype=np.bool_)
TWO_SLOTS = np.array([[[1, 0], [0, 1], [1, 1]]], dtype=np.bool_)


def test_precision_counts_satisfied_items_up_to_each_round() -> None:
    np.testing.assert_array_equal(metrics.cumulative_precision(ONE_SLOT), [[1, 1, 2], [0, 0, 0]])
    np.testing.assert_array_equal(metrics.cumulative_precision(TWO_SLOTS), [[1, 2, 4]])


def test_recall_divides_by_all_that_satisfies_the_user() -> None:
    recall = metrics.cumulative_recall(ONE_SLOT, np.array([8, 0]))
    np.testing.assert_allclose(recall[0], [1 / 8, 1 / 8, 2 / 8])
    assert np.isnan(recall[1]).all()


def test_ndcg_has_a_constant_ideal() -> None:
    """Two slots: discounts 1 and 1/log2(3) = 0.6309, ideal 1.6309; a hit in the first is worth 0.6131."""
    second = 1 / np.log2(3)
    expected = np.cumsum([1 / (1 + second), second / (1 + second), 1.0])
    np.testing.assert_allclose(metrics.cumulative_ndcg(TWO_SLOTS), [expected])


def test_a_perfect_slate_is_worth_one_in_every_round() -> None:
    perfect = np.ones((3, 4, 5), dtype=np.bool_)
    np.testing.assert_allclose(metrics.cumulative_ndcg(perfect), np.tile([1.0, 2.0, 3.0, 4.0], (3, 1)))


def test_rounds_after_the_drift_are_counted_alone() -> None:
    hits = np.array([1, 1, 1, 0, 1, 1], dtype=np.bool_).reshape(1, 6, 1)
    np.testing.assert_array_equal(metrics.after_drift(hits), [[0, 1, 2]])


def test_coverage_is_the_share_of_items_that_anybody_saw() -> None:
    assert metrics.coverage(np.array([[[0], [1]], [[1], [2]]]), 12) == 0.25


def test_novelty_is_the_surprise_in_bits() -> None:
    """Known to a half: 1 bit; to a quarter: 2 bits; to nobody: as if to an eighth, half of the smallest share: 3."""
    shares = np.array([0.5, 0.25, 0.0])
    assert metrics.novelty(np.array([[[0], [1], [2]]]), shares) == 2.0
