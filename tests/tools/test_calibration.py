import numpy as np
import pytest

from igcf.errors import ConfigError
from igcf.model import Model, Reward
from igcf.online import prior_belief
from tests.lab.evaluate.worlds import log, setup
from tools.calibration import Calibration, calibration, calibration_table, draw_calibration, place_of_count


def made_up(shift: float) -> Calibration:
    """Predictions of which all are right, or all too low."""
    rng = np.random.default_rng(0)
    p = rng.uniform(0.2, 0.7, 20_000)
    return Calibration("made up", p, rng.random(20_000) < p + shift, rng.random(2_000), np.arange(20_000) % 4 == 0)


def test_the_error_is_the_distance_between_prediction_and_truth() -> None:
    assert made_up(0.0).error < 0.02
    assert made_up(0.1).error == pytest.approx(0.1, abs=0.02)
    assert made_up(0.1).error_at_10 == pytest.approx(0.1, abs=0.02)


def test_uniform_places_are_covered_as_often_as_promised() -> None:
    for level in (0.5, 0.8, 0.95):
        assert made_up(0.0).covered(level) == pytest.approx(level, abs=0.04)


def test_the_table_tells_chances_and_intervals_of_every_method() -> None:
    table = calibration_table("shop", [made_up(0.0), made_up(0.1)])
    assert table.header == (
        "method",
        "predicted",
        "observed",
        "ECE",
        "ECE@10",
        "log loss",
        "in 50%",
        "in 80%",
        "in 95%",
    )
    assert table.rows[1][1:4] == (f"{made_up(0.1).predicted.mean():.3f}", "0.550", f"{made_up(0.1).error:.3f}")


def test_a_belief_that_is_right_puts_counts_at_uniform_places() -> None:
    rng = np.random.default_rng(0)
    vectors = np.column_stack([np.full(30, 0.5), rng.normal(0.0, 0.05, 30)])
    model = Model(
        item_vectors=vectors,
        item_ids=[str(i) for i in range(30)],
        prior_mean=[1.0, 0.0],
        prior_cov=np.diag([0.0, 1.0]),
        noise_var=0.2,
        reward=Reward("satisfied", 1.0, 0.0, 1.0),
    )
    places = []
    for _ in range(400):
        p = vectors @ np.array([1.0, rng.normal()])
        count = int((rng.random(30) < p).sum())
        places.append(place_of_count(model, prior_belief(model), np.arange(30), count, n_draws=200, rng=rng))
    assert np.mean(places) == pytest.approx(0.5, abs=0.05)
    assert np.mean(np.abs(np.array(places) - 0.5) <= 0.4) == pytest.approx(0.8, abs=0.07)


def test_test_users_are_met_and_both_plots_are_drawn(tmp_path) -> None:  # type: ignore[no-untyped-def]
    (found,) = calibration(log(), setup(), ["pca-gp"], settings={"pca-gp": {"dim": 4}})
    n_users, n_items = 12, 120  # one look, before the first round, at all items
    assert found.predicted.shape == found.observed.shape == (n_users * n_items,)
    assert found.places.shape == (n_users,)
    assert 0 < found.observed.mean() < 1
    assert found.as_dict()["coverage"].keys() == {"50%", "80%", "95%"}
    draw_calibration([found], tmp_path / "figures" / "calibration.svg")
    drawn = (tmp_path / "figures" / "calibration.svg").read_text()
    assert f"pca-gp, ECE {found.error:.3f}" in drawn
    assert "share of counts inside" in drawn


def test_a_method_without_probabilities_is_refused() -> None:
    with pytest.raises(ConfigError, match="pop does not predict probabilities"):
        calibration(log(), setup(), ["pop"])
