"""What every method must do, on a small world with a known answer."""

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest

from igcf.config import GraphConfig
from igcf.errors import ConfigError
from igcf.lab.baselines import METHODS, method_named
from igcf.online import InfoUcb, Learner, Ucb, replay
from tests.lab.baselines.worlds import N_ITEMS, checkerboard, complete_truth, task

QUICK: dict[str, dict[str, Any]] = {
    "mf": {"dim": 3, "penalty": 1.0, "reward": "satisfied"},
    "icf-ucb": {"dim": 3, "penalty": 1.0, "reward": "satisfied"},
    "icf-ts": {"dim": 3, "penalty": 1.0, "reward": "satisfied", "sample_items": True},
    "nicf": {"dim": 8, "epochs": 6, "steps": 2, "check_every": 3},
    "item-knn": {"k": 12},
    "ease": {"penalty": 5.0},
    "slim": {"l1": 0.5, "l2": 5.0},
    "als": {"factors": 3, "regularization": 0.1},
    "ials": {"factors": 3},
    "mult-vae": {"hidden": 20, "dim": 4, "steps": 60, "learning_rate": 0.01},
    "pca-gp": {"dim": 3},
    "linucb": {"dim": 3},
    "linucb-hybrid": {"dim": 3, "penalty": 1.0},
    "linucb-attributes": {"dim": 3, "penalty": 1.0},
    "attribute-sums": {"dim": 3, "penalty": 1.0},
    "latent-bandit": {"dim": 3, "clusters": 4},
    "egreedy-ease": {"penalty": 5.0},
    "igcf": {"linear_dim": 3, "logistic_dim": 3},
    "igcf-graph": {"dim": 4, "layers": 1},
    "ease-trend": {"penalty": 5.0},
    "als-trend": {"factors": 3, "regularization": 0.1},
    "igcf-trend": {"linear_dim": 3, "logistic_dim": 3},
    **{name: {"dim": 4, "learning_rate": 0.5, "epochs": 2} for name in METHODS if name.startswith("igcf-paper")},
}
LEARNING = (
    "mf",
    "icf-ucb",
    "icf-ts",
    "item-knn",
    "ease",
    "slim",
    "als",
    "ials",
    "mult-vae",
    "graph-filter",
    "pca-gp",
    "linucb",
    "linucb-hybrid",
    "linucb-attributes",
    "attribute-sums",
    "latent-bandit",
    "egreedy-ease",
    "implicit-bm25",
    "igcf",
)


@cache
def learner(name: str) -> Learner:
    return built(name, 0)


def built(name: str, seed: int) -> Learner:
    method = method_named(name)
    return method.build(task(), method.settings(QUICK.get(name, {})), np.random.default_rng(seed))


@pytest.mark.parametrize("name", METHODS)
def test_items_are_available_and_never_repeated(name: str) -> None:
    shown = replay(learner(name), complete_truth(), rounds=8, slate=3, rng=np.random.default_rng(0))
    assert shown.rows.shape == (10, 8, 3)
    for user in range(10):
        assert sorted(shown.rows[user].ravel().tolist()) == list(range(N_ITEMS))


@pytest.mark.parametrize("name", METHODS)
def test_an_item_that_is_not_available_is_not_selected(name: str) -> None:
    method = learner(name)
    available = np.zeros((4, N_ITEMS), dtype=np.bool_)
    available[:, [3, 7, 11]] = True
    method.begin(4, rng=np.random.default_rng(0))
    chosen = method.select(available, 2)
    assert chosen.shape == (4, 2)
    assert np.isin(chosen, [3, 7, 11]).all()
    method.observe(chosen, np.full((4, 2), np.nan, dtype=np.float32))
    assert method.select(available, 1).shape == (4, 1)


@pytest.mark.parametrize("name", METHODS)
def test_the_same_seed_gives_the_same_items(name: str) -> None:
    runs = [replay(built(name, 5), complete_truth(), rounds=6, rng=np.random.default_rng(7)) for _ in range(2)]
    np.testing.assert_array_equal(runs[0].rows, runs[1].rows)


@pytest.mark.parametrize("name", METHODS)
def test_begin_forgets_everybody(name: str) -> None:
    method = learner(name)
    first = replay(method, complete_truth(), rounds=6, rng=np.random.default_rng(3))
    again = replay(method, complete_truth(), rounds=6, rng=np.random.default_rng(3))
    np.testing.assert_array_equal(first.rows, again.rows)


@pytest.mark.parametrize("name", LEARNING)
def test_reactions_teach_which_half_of_the_items_is_liked(name: str) -> None:
    """Twelve rounds, twelve liked items; whoever learns nothing finds six of them."""
    shown = replay(learner(name), complete_truth(), rounds=12, rng=np.random.default_rng(0))
    assert (shown.values >= 4).sum(axis=(1, 2)).mean() > 8


@pytest.mark.slow
def test_q_learning_finds_the_half_that_is_liked() -> None:
    method = method_named("nicf")
    settings = method.settings({"dim": 8, "epochs": 150, "steps": 6, "check_every": 25, "learning_rate": 0.01})
    trained = method.build(task(), settings, np.random.default_rng(0))
    shown = replay(trained, complete_truth(), rounds=12, rng=np.random.default_rng(0))
    assert (shown.values >= 4).sum(axis=(1, 2)).mean() > 9


def test_a_rate_at_which_training_diverges_gives_way_to_a_smaller_one() -> None:
    method = method_named("igcf-paper")
    settings = method.settings({"dim": 4, "layers": 0, "learning_rate": 1e6, "batch_size": 50, "epochs": 3})
    shown = replay(
        method.build(task(), settings, np.random.default_rng(0)),
        complete_truth(),
        rounds=3,
        rng=np.random.default_rng(0),
    )
    assert shown.rows.shape == (10, 3, 1)


def test_the_paper_s_model_can_be_learned_by_adam_in_one_batch_and_count_how_uncertain_items_are() -> None:
    method = method_named("igcf-paper")
    settings = method.settings(
        {"dim": 4, "layers": 1, "optimiser": "adam", "learning_rate": 0.05, "batch_size": None, "epochs": 20}
    )
    model = method.fit(task(), settings, np.random.default_rng(0))
    assert model.metadata["settings"]["optimiser"] == "adam"
    plain, uncertain = (
        replay(
            method.play(model, {**settings, "item_uncertainty": each}),
            complete_truth(),
            rounds=6,
            rng=np.random.default_rng(0),
        ).rows
        for each in (False, True)
    )
    assert not np.array_equal(plain, uncertain)


@pytest.mark.parametrize("name", ["igcf-paper", "igcf-graph"])
def test_a_complete_graph_is_refused_and_is_not_what_a_fully_observed_log_gets(name: str) -> None:
    method, full = method_named(name), replace(task(), train=checkerboard(60, seed=1, share=1.0), reward="satisfied")
    with pytest.raises(ConfigError, match="the graph is degenerate: 100% of all user-item pairs are edges"):
        method.fit(full, method.settings({**QUICK[name], "edges": "observed"}), np.random.default_rng(0))
    model = method.fit(full, method.settings(QUICK[name]), np.random.default_rng(0))
    assert model.metadata["settings"]["edges"] == "satisfied"


def test_the_printed_row_is_the_preset_of_the_paper() -> None:
    method = method_named("igcf-paper-printed")
    model = method.fit(task(), method.settings({"dim": 4}), np.random.default_rng(0))
    found, printed = model.metadata["settings"], GraphConfig.paper(dim=4).as_dict()
    beside = {"epochs", "gamma", "holdout", "learning_rate", "satisfied", "seed", "shuffle"}  # by experiment or play
    assert {name: found[name] for name in found if name not in beside} == {
        name: printed[name] for name in printed if name not in beside
    }
    played = method.play(model, method.settings())
    assert played.model.noise_var == printed["online_noise_var"]  # type: ignore[attr-defined]
    np.testing.assert_allclose(
        played.model.prior_cov - model.prior_cov,  # type: ignore[attr-defined]
        printed["gamma"] * np.eye(4),
        atol=1e-9,
    )


def test_the_rule_of_the_online_phase_is_a_setting() -> None:
    method = method_named("igcf-paper")
    settings = method.settings(QUICK["igcf-paper"])
    model = method.fit(task(), settings, np.random.default_rng(0))
    learner = method.play(model, {**settings, "policy": "info-ucb", "delta": 0.3})
    assert learner.policy == InfoUcb(0.3)  # type: ignore[attr-defined]
    assert method.play(model, {**settings, "nu": 0.2}).policy == Ucb(0.2)  # type: ignore[attr-defined]


def test_a_setting_that_a_method_does_not_have_is_refused() -> None:
    with pytest.raises(ConfigError, match="icf-ucb has no setting lambda; it has: dim, forgetting, nu"):
        method_named("icf-ucb").settings({"lambda": 3})
    with pytest.raises(ConfigError, match="unknown method 'lightfm'; known are random, pop"):
        method_named("lightfm")


@pytest.mark.parametrize("name", METHODS)
def test_grids_and_ablations_change_known_settings_only(name: str) -> None:
    method = METHODS[name]
    assert set(method.grid) | set(method.known_grid or ()) <= set(method.defaults)
    assert method.online <= set(method.defaults)
    for changes in method.variants.values():
        method.settings(changes)
