"""The numbers that the project stands by, on the real data sets of IGCF_DATA_DIR."""

from functools import cache
from typing import Any

import pytest

from igcf.data import Interactions, load_dataset
from igcf.lab.evaluate import Results, evaluate, setup_for

pytestmark = [pytest.mark.realdata, pytest.mark.slow]
AT = ("10", "20", "40", "120")


@cache
def data(name: str) -> Interactions:
    return load_dataset(name)


@cache
def cold_start(name: str, *methods: str) -> Results:
    return evaluate(data(name), setup_for(data(name), "cold-start"), methods)


def figures(results: Results, method: str, metric: str = "precision") -> list[float]:
    (row,) = (row for row in results.rows if row.method == method)
    found = row.figures[metric]
    return [found[t] for t in AT]


def test_popularity_on_ml_1m_gives_the_papers_row() -> None:
    results = cold_start("ml-1m", "pop")
    assert (results.n_users, results.n_items) == (200, 3706)
    assert figures(results, "pop") == pytest.approx([7.215, 13.355, 25.790, 64.130], abs=0.05)
    assert figures(results, "pop", "recall")[-1] == pytest.approx(0.2043, abs=0.0005)


def test_popularity_on_ml_100k() -> None:
    results = cold_start("ml-100k", "pop")
    assert results.n_users == 119
    assert figures(results, "pop") == pytest.approx([4.908, 9.126, 16.882, 42.429], abs=0.0006)


def test_igcf_on_ml_1m_reaches_its_headline_figure() -> None:
    assert figures(cold_start("ml-1m", "igcf"), "igcf")[-1] >= 82.8


def test_igcf_on_ml_100k_gives_its_row() -> None:
    assert figures(cold_start("ml-100k", "igcf"), "igcf") == pytest.approx([6.067, 12.176, 23.655, 57.345], abs=0.05)


@pytest.mark.parametrize(
    ("method", "least"), [("icf-ucb", 74.0), ("pca-gp", 80.0), ("nicf", 50.0), ("igcf-paper", 68.58)]
)
def test_methods_reach_what_is_known_of_them_on_ml_1m(method: str, least: float) -> None:
    assert figures(cold_start("ml-1m", method), method)[-1] >= least


def test_igcf_holds_its_headline_on_ml_1m() -> None:
    """The row of the README."""
    assert figures(cold_start("ml-1m", "igcf"), "igcf") == pytest.approx([8.08, 15.85, 30.595, 82.915], abs=0.006)


@pytest.mark.parametrize(("name", "n_items"), [("kuairec", 3327), ("eachmovie", 1619)])
def test_cold_start_and_top_k_run_on_the_other_data_sets(name: str, n_items: int) -> None:
    results = cold_start(name, "random", "pop", "pop-satisfied", "pca-gp")
    assert (results.n_users, results.n_items) == (200, n_items)
    last = {method: figures(results, method)[-1] for method in results.methods}
    assert last["pop-satisfied"] > last["pop"] > last["random"]
    slates: Any = evaluate(data(name), setup_for(data(name), "top-k"), ("pop-satisfied", "pca-gp"))
    assert {row.outcome.session.slate for row in slates.rows} == {3, 5}


def test_satisfied_popularity_beats_the_papers_model_on_kuairec() -> None:
    assert figures(cold_start("kuairec", "random", "pop", "pop-satisfied", "pca-gp"), "pop-satisfied")[-1] > 27.26


def test_taste_drift_runs_on_both_data_sets_with_categories() -> None:
    for name in ("ml-1m", "kuairec"):
        results = evaluate(data(name), setup_for(data(name), "taste-drift"), ("pop", "pca-gp"))
        assert all(row.figures["after_drift"]["120"] > 0 for row in results.rows)
