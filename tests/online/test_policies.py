from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from igcf.arrays import AnyFloatArray, BoolArray
from igcf.errors import ConfigError
from igcf.model import Model
from igcf.online import (
    POLICIES,
    Greedy,
    InfoUcb,
    Policy,
    Recommender,
    ScoringEngine,
    Thompson,
    Ucb,
    named_policy,
    parameter,
    top_k,
)
from tests.toys import random_model


def everything(engine: ScoringEngine) -> np.ndarray:
    return np.ones_like(engine.means, dtype=np.bool_)


class PolicyContract:
    """What every policy does; a subclass names one."""

    policy: Policy

    def test_learns_which_direction_is_liked(self) -> None:
        model = Model(
            item_vectors=np.eye(2), item_ids=["a", "b"], prior_mean=[0, 0], prior_cov=np.eye(2) * 10, noise_var=1.0
        )
        engine = ScoringEngine(model)
        for _ in range(500):
            engine.observe(np.array([[0, 1]]), np.array([[0.0, 1.0]]))
        scores = self.policy.scores(engine, everything(engine), rng=np.random.default_rng(0))
        assert scores.argmax() == 1

    def test_gives_one_finite_score_per_user_and_item(self) -> None:
        engine = ScoringEngine(random_model(singular=True), n_users=3)
        scores = self.policy.scores(engine, everything(engine), rng=np.random.default_rng(0))
        assert scores.shape == (3, 40)
        assert np.isfinite(scores).all()

    def test_does_not_change_the_state(self) -> None:
        engine = ScoringEngine(random_model())
        means, variances = engine.means.copy(), engine.variances.copy()
        self.policy.scores(engine, everything(engine), rng=np.random.default_rng(0))
        np.testing.assert_array_equal(engine.means, means)
        np.testing.assert_array_equal(engine.variances, variances)

    def test_the_same_seed_gives_the_same_scores(self) -> None:
        engine = ScoringEngine(random_model())
        first, second = (self.policy.scores(engine, everything(engine), rng=np.random.default_rng(7)) for _ in range(2))
        np.testing.assert_array_equal(first, second)


class TestGreedy(PolicyContract):
    policy = Greedy()


class TestUcb(PolicyContract):
    policy = Ucb(nu=1.0)


class TestUcbWithItemUncertainty(PolicyContract):
    policy = Ucb(nu=1.0, item_uncertainty=True)


class TestInfoUcb(PolicyContract):
    policy = InfoUcb(delta=0.1)


class TestThompson(PolicyContract):
    policy = Thompson()


def test_the_contract_covers_every_policy() -> None:
    covered = {type(each.policy) for each in PolicyContract.__subclasses__()}
    own = {kind for kind in POLICIES.values() if kind.__module__ == "igcf.online.policies"}
    assert own <= covered


def test_ucb_is_mean_plus_nu_std() -> None:
    engine = ScoringEngine(random_model())
    scores = Ucb(nu=2.0).scores(engine, everything(engine), rng=np.random.default_rng(0))
    np.testing.assert_allclose(scores, engine.means + 2 * np.sqrt(engine.variances))


def test_information_width_at_the_most_uncertain_item_is_the_gaussian_union_width() -> None:
    """Gamma / 2 sqrt(I) = sqrt(2 lambda log(2 |A| / delta)) at the item whose variance is lambda (thm:ucb)."""
    engine = ScoringEngine(random_model())
    width = InfoUcb(delta=0.1).scores(engine, everything(engine), rng=np.random.default_rng(0)) - engine.means
    largest = engine.variances.argmax()
    expected = np.sqrt(2 * engine.variances[0, largest] * np.log(2 * 40 / 0.1))
    assert width[0, largest] == pytest.approx(expected)
    plain = np.sqrt(2 * engine.variances * np.log(2 * 40 / 0.1))
    assert (width >= plain * (1 - 1e-6)).all()  # variances have the precision of float32


def test_thompson_draws_follow_the_belief() -> None:
    model = random_model(6, 3)
    engine = ScoringEngine(model)
    rng = np.random.default_rng(0)
    draws = np.stack([Thompson().scores(engine, everything(engine), rng=rng)[0] for _ in range(20_000)])
    np.testing.assert_allclose(draws.mean(axis=0), engine.means[0], atol=0.06)
    np.testing.assert_allclose(draws.var(axis=0), engine.variances[0], rtol=0.06)


def test_top_k_is_ordered_and_keeps_to_what_is_available() -> None:
    scores = np.array([[5.0, 4.0, 3.0, 2.0, 1.0]])
    available = np.array([[False, True, True, False, True]])
    rng = np.random.default_rng(0)
    assert top_k(scores, available, 1, rng=rng).tolist() == [[1]]
    assert top_k(scores, available, 2, rng=rng).tolist() == [[1, 2]]
    assert top_k(scores, available, 3, rng=rng).tolist() == [[1, 2, 4]]


@pytest.mark.parametrize("k", [1, 2])
def test_ties_are_broken_by_lot_and_repeatably(k: int) -> None:
    scores, available = np.zeros((1, 6)), np.ones((1, 6), dtype=np.bool_)
    picks = [tuple(top_k(scores, available, k, rng=np.random.default_rng(seed))[0]) for seed in range(60)]
    assert {pick[0] for pick in picks} == set(range(6))
    assert picks == [tuple(top_k(scores, available, k, rng=np.random.default_rng(seed))[0]) for seed in range(60)]


@pytest.mark.parametrize("bad", [-0.1, float("nan"), float("inf")])
def test_a_bad_nu_is_refused(bad: float) -> None:
    with pytest.raises(ConfigError, match="nu must be 0 or more"):
        Ucb(nu=bad)


@pytest.mark.parametrize("bad", [0.0, 1.0, -1.0, float("nan")])
def test_a_delta_that_is_no_probability_is_refused(bad: float) -> None:
    with pytest.raises(ConfigError, match="delta must be strictly between 0 and 1"):
        InfoUcb(delta=bad)


class Backwards(Ucb):
    """A policy made from another one, which declares nothing."""

    def scores(self, engine: ScoringEngine, available: BoolArray, *, rng: np.random.Generator) -> AnyFloatArray:
        return -engine.means


def test_a_policy_that_changes_scores_inherits_no_claim_about_its_choices() -> None:
    assert Backwards.propensity == "unknown"
    assert Backwards(0.3).optimism is None
    assert POLICIES["ucb"] is Ucb
    session = Recommender(random_model(), Backwards(0.3)).session()
    worst = session.model.item_ids[int(session.moments()[0].argmin())]
    assert session.recommend()[0].item_id == worst


def test_a_policy_with_a_name_is_found_by_it_and_has_checked_parameters(new_policies: None) -> None:
    @dataclass(frozen=True)
    class Biased(Policy):
        name = "biased"
        bias: float = parameter(0.2, "What is added.", high=1.0)

        def scores(self, engine: ScoringEngine, available: BoolArray, *, rng: np.random.Generator) -> AnyFloatArray:
            return engine.means + self.bias

    assert named_policy("biased") == Biased(0.2)
    assert named_policy("biased", bias=0.5) == Biased(0.5)
    with pytest.raises(ConfigError, match="bias must be between 0 and 1, got 2"):
        named_policy("biased", bias=2.0)
    with pytest.raises(ConfigError, match="policy biased has no parameter nu; it takes bias"):
        named_policy("biased", nu=0.1)
    with pytest.raises(ConfigError, match=r"policy 'best' is not known; choose one of ucb, info-ucb, thompson, greedy"):
        named_policy("best")


def test_a_name_that_is_taken_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"'ucb' is taken by igcf.online.policies.Ucb"):
        type("Mine", (Policy,), {"name": "ucb"})


def test_what_is_no_policy_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"policy is 'ucb'; expected an igcf.online.Policy"):
        Recommender(random_model(), "ucb")  # type: ignore[arg-type]


def test_the_page_on_exploration_lists_every_policy() -> None:
    text = (Path(__file__).parents[2] / "docs/howto/exploration.md").read_text(encoding="utf-8")
    own = [name for name, kind in POLICIES.items() if kind.__module__ == "igcf.online.policies"]
    assert [name for name in own if f"| `{name}` |" not in text] == []
