import numpy as np
import pytest
import scipy.sparse as sp

from igcf.arrays import FloatArray
from igcf.config import ExpertsConfig
from igcf.data import cold_start, synthetic_catalogue
from igcf.errors import ConfigError
from igcf.online import Greedy
from igcf.pretrain import pretrain
from igcf.pretrain.experts import LogisticExpert, fit_experts, fit_linear, fit_logistic
from igcf.pretrain.experts.logistic import _Fit, polya_gamma_means
from tests.pretrain.worlds import hits, popular_hits


def small_log(n_users: int = 60, n_items: int = 25, seed: int = 0) -> tuple[sp.csr_array, sp.csr_array]:
    """Successes and exposures of users with two tastes."""
    rng = np.random.default_rng(seed)
    users, items = rng.normal(size=(n_users, 2)), rng.normal(size=(n_items, 2))
    is_seen = rng.random((n_users, n_items)) < 1 / (1 + np.exp(-users @ items.T + 0.5))
    is_liked = is_seen & (rng.random((n_users, n_items)) < 1 / (1 + np.exp(-2 * users @ items.T)))
    return sp.csr_array(is_liked.astype(np.float32)), sp.csr_array(is_seen.astype(np.float32))


@pytest.mark.parametrize("activity", [0.0, 0.5])
def test_the_linear_expert_is_weighted_principal_components(activity: float) -> None:
    successes, exposures = small_log()
    expert = fit_linear(successes, exposures, 4, activity=activity)
    Z = np.hstack([successes.toarray(), exposures.toarray()]).astype(np.float64)
    weight = (successes.toarray().sum(axis=1).astype(np.float64) + 5.0) ** activity
    weight /= weight.sum()
    means = weight @ Z
    cov = (weight[:, None] * (Z - means)).T @ (Z - means)
    size, axes = np.linalg.eigh(cov)
    np.testing.assert_allclose(expert.means, means, atol=1e-10)
    np.testing.assert_allclose(
        expert.loadings @ expert.loadings.T, (axes[:, -4:] * size[-4:]) @ axes[:, -4:].T, atol=1e-8
    )
    np.testing.assert_allclose(
        expert.residuals, np.maximum(np.diag(cov) - (expert.loadings**2).sum(axis=1), 0), atol=1e-8
    )


def brute_force_user(fit: _Fit, seen: FloatArray, liked: FloatArray) -> tuple[FloatArray, FloatArray]:
    """One user's posterior by the formulas, with omega = 0.2 as in the first iteration."""
    x, y = fit.vectors[: fit.n_items], fit.vectors[fit.n_items :]
    d = x.shape[1] - 1
    precision, information = np.eye(d), np.zeros(d)
    for i in range(fit.n_items):
        for vector, target, is_known in ((x[i], seen[i], True), (y[i], liked[i], bool(seen[i]))):
            if is_known:
                precision += 0.2 * np.outer(vector[:d], vector[:d])
                information += (target - 0.5 - 0.2 * vector[d]) * vector[:d]
    cov = np.asarray(np.linalg.inv(precision), dtype=np.float64)
    return cov @ information, cov


def test_the_user_step_agrees_with_its_formula() -> None:
    successes, exposures = small_log(n_users=7, n_items=9)
    fit = _Fit(successes, exposures, fit_linear(successes, exposures, 3), 3)
    means, covs = fit.user_step()
    for user in range(7):
        mean, cov = brute_force_user(fit, exposures.toarray()[user], successes.toarray()[user])
        np.testing.assert_allclose(means[user], mean, atol=1e-5)
        np.testing.assert_allclose(covs[user], cov, atol=1e-5)


def test_whitening_leaves_every_prediction_alone_and_the_population_standard() -> None:
    successes, exposures = small_log()
    fit = _Fit(successes, exposures, fit_linear(successes, exposures, 3), 3)
    means, covs = fit.user_step()
    before = np.column_stack([means, np.ones(len(means))]) @ fit.vectors.T
    users = fit.whiten(means, covs)
    np.testing.assert_allclose(users @ fit.vectors.T, before, atol=1e-8)
    np.testing.assert_allclose(users[:, :-1].mean(axis=0), 0.0, atol=1e-10)


def likelihood(expert: LogisticExpert, successes: sp.csr_array, exposures: sp.csr_array) -> float:
    """Mean log likelihood of held-out users' exposures when their vectors are drawn from the population."""
    users = np.column_stack([np.random.default_rng(0).normal(size=(2000, expert.seen.shape[1] - 1)), np.ones(2000)])
    p = 1 / (1 + np.exp(-users @ expert.seen.T))  # (draws, items)
    seen = exposures.toarray()
    per_draw = np.log(p) @ seen.T + np.log(1 - p) @ (1 - seen.T)
    return float(np.log(np.exp(per_draw - per_draw.max(axis=0)).mean(axis=0)).mean() + per_draw.max(axis=0).mean())


def test_the_logistic_expert_explains_users_it_has_not_seen_better_with_every_few_iterations() -> None:
    successes, exposures = small_log(n_users=400, seed=1)
    train, rest = slice(0, 300), slice(300, 400)
    start = fit_linear(successes[train], exposures[train], 2)
    scores = [
        likelihood(
            fit_logistic(successes[train], exposures[train], start, dim=2, iterations=iterations),
            successes[rest],
            exposures[rest],
        )
        for iterations in (1, 3, 12)
    ]
    assert scores[0] < scores[1] < scores[2]


def test_polya_gamma_means_are_a_quarter_at_zero_and_fall() -> None:
    omega = polya_gamma_means(np.array([0.0, 1.0, 100.0], dtype=np.float32))
    np.testing.assert_allclose(omega, [0.25, np.tanh(0.5) / 2, np.tanh(5.0) / 20], rtol=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2])
def test_cold_users_get_clearly_more_than_from_popularity(seed: int) -> None:
    log = synthetic_catalogue(n_users=500, n_items=300, seed=seed)
    split = cold_start(log, min_reactions=60, rng=np.random.default_rng(seed))
    model = pretrain(split.train, satisfied=4.0, seed=seed, holdout=0.0, iterations=8, linear_dim=24)
    assert hits(model, Greedy(), split.test, 40) > 1.15 * popular_hits(split, 40)


def test_the_same_seed_gives_the_same_model_and_choices_are_recorded() -> None:
    log = synthetic_catalogue(n_users=80, n_items=40)
    models = [pretrain(log, iterations=3, logistic_dim=4, linear_dim=4, seed=3) for _ in range(2)]
    np.testing.assert_array_equal(models[0].item_vectors, models[1].item_vectors)
    assert models[0].metadata["chosen"]["dim"] == 4
    assert models[0].metadata["settings"]["method"] == "experts"
    assert models[0].metadata["metrics"]["validation_precision"] > 0


def test_without_anybody_to_choose_on_the_first_choice_stands() -> None:
    log = synthetic_catalogue(n_users=80, n_items=40)
    model = fit_experts(log, ExpertsConfig(holdout=0.0, iterations=2, logistic_dim=4))
    assert model.metadata["chosen"] == {"dim": 48, "activity": 0.5, "caution": 1.0}
    assert model.metadata["metrics"]["validation_precision"] is None


def test_a_setting_of_the_graph_model_asks_for_it() -> None:
    log = synthetic_catalogue(n_users=80, n_items=40)
    model = pretrain(log, dim=4, epochs=2)
    assert model.is_linear
    assert model.item_vectors.shape == (40, 4)
    with pytest.raises(ConfigError, match="unknown setting 'dim'"):
        pretrain(log, method="experts", dim=4)
    with pytest.raises(ConfigError, match="method must be one of experts, graph"):
        pretrain(log, method="magic")


@pytest.mark.parametrize(
    ("field", "value"), [("caution", 0.0), ("linear_dim", 0), ("iterations", 0), ("activity", -1.0), ("holdout", 0.9)]
)
def test_settings_out_of_range_are_refused(field: str, value: float) -> None:
    with pytest.raises(ConfigError, match=f"{field} must be"):
        ExpertsConfig(**{field: value})  # type: ignore[arg-type]
