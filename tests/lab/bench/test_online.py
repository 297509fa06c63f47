import numpy as np
import pytest

from igcf.lab.bench.online import K, one_round
from igcf.lab.bench.worlds import TextbookUser, random_model, random_pairs, random_truth, random_vectors
from igcf.online import Recommender, ScoringEngine, Ucb


@pytest.mark.parametrize(("n_items", "dim"), [(50, 4), (301, 1), (1, 3)])
def test_the_textbook_way_and_the_engine_believe_the_same(n_items: int, dim: int) -> None:
    model = random_model(random_vectors(n_items, dim))
    textbook, engine = TextbookUser(model), ScoringEngine(model)
    rng = np.random.default_rng(0)
    for row in rng.integers(0, n_items, size=12):
        value = float(rng.integers(1, 6))
        textbook.observe(int(row), value)
        engine.observe(np.array([row]), np.array([value]))
    means, variances = textbook.moments()
    np.testing.assert_allclose(engine.means[0], means, atol=1e-4)
    np.testing.assert_allclose(engine.variances[0], variances, atol=1e-4)


def test_the_textbook_way_and_a_session_recommend_the_same() -> None:
    model = random_model(random_vectors(200, 6))
    textbook, session = TextbookUser(model), Recommender(model, Ucb(0.5)).session()
    for _ in range(8):
        rows = textbook.recommend(K)
        picks = session.recommend(K)
        assert [pick.item_id for pick in picks] == [model.item_ids[row] for row in rows]
        textbook.observe(int(rows[0]), 5.0)
        session.observe(picks[0].item_id, 5.0)


def test_one_round_shows_one_new_item() -> None:
    session = Recommender(random_model(random_vectors(30, 3))).session()
    play = one_round(session)
    play()
    play()
    assert len({item_id for item_id, _ in session.history}) == 2


def test_random_pairs_are_distinct_and_within_bounds() -> None:
    users, items = random_pairs(40, 30, 500)
    assert len(set(zip(users.tolist(), items.tolist(), strict=True))) == len(users) == 500
    assert 0 <= users.min() <= users.max() < 40
    assert 0 <= items.min() <= items.max() < 30


def test_random_truth_is_in_stars() -> None:
    assert set(np.unique(random_truth(5, 50))) <= {1.0, 2.0, 3.0, 4.0, 5.0}
