from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from threadpoolctl import threadpool_limits

from igcf.arrays import FloatArray, IntArray
from igcf.config import ExpertsConfig
from igcf.data import Interactions, cold_start, synthetic_catalogue
from igcf.errors import ConfigError
from igcf.model import Reward
from igcf.online import Greedy, Recommender
from igcf.online.learning import learned, prior_belief
from igcf.training import pretrain
from igcf.training.experts import LogisticExpert, fit_experts, fit_linear, fit_logistic, rare_items
from igcf.training.experts.choosing import TEMPERATURES, Players, best_temperature, prior_from_users
from igcf.training.experts.executor import Executor, Worker, one_thread_each
from igcf.training.experts.fitting import Fits, grade_thresholds
from igcf.training.experts.linear import LinearRows, fit_linear_on
from igcf.training.experts.logistic import _Fit, schedule
from igcf.training.experts.logistic_steps import polya_gamma_means, symmetric
from igcf.training.experts.shared_log import SharedLog
from tests.training.worlds import hits, popular_hits


def small_log(n_users: int = 60, n_items: int = 25, seed: int = 0) -> tuple[sp.csr_array, sp.csr_array]:
    """Successes and exposures of users with two tastes."""
    rng = np.random.default_rng(seed)
    users, items = rng.normal(size=(n_users, 2)), rng.normal(size=(n_items, 2))
    is_seen = rng.random((n_users, n_items)) < 1 / (1 + np.exp(-users @ items.T + 0.5))
    is_liked = is_seen & (rng.random((n_users, n_items)) < 1 / (1 + np.exp(-2 * users @ items.T)))
    return sp.csr_array(is_liked.astype(np.float32)), sp.csr_array(is_seen.astype(np.float32))


def two_dimensional(iterations: int) -> ExpertsConfig:
    return ExpertsConfig(logistic_dim=2, iterations=iterations)


def test_the_linear_expert_is_principal_components() -> None:
    successes, exposures = small_log()
    expert = fit_linear([successes, exposures], 4)
    Z = np.hstack([successes.toarray(), exposures.toarray()]).astype(np.float64)
    means = Z.mean(axis=0)
    cov = (Z - means).T @ (Z - means) / len(Z)
    size, axes = np.linalg.eigh(cov)
    np.testing.assert_allclose(expert.means, means, atol=1e-10)
    np.testing.assert_allclose(
        expert.loadings @ expert.loadings.T, (axes[:, -4:] * size[-4:]) @ axes[:, -4:].T, atol=1e-6
    )
    np.testing.assert_allclose(
        expert.residuals, np.maximum(np.diag(cov) - (expert.loadings**2).sum(axis=1), 0), atol=1e-6
    )


def test_components_of_a_wide_log_are_found_without_its_products_and_again_from_those_of_most_users() -> None:
    successes, exposures = small_log(n_users=400, n_items=300)
    Z = np.hstack([successes.toarray(), exposures.toarray()]).astype(np.float64)
    size, axes = np.linalg.eigh(np.cov(Z.T, bias=True))
    exact = (axes[:, -4:] * size[-4:]) @ axes[:, -4:].T
    found = fit_linear([successes, exposures], 4)
    np.testing.assert_allclose(found.loadings @ found.loadings.T, exact, atol=1e-3)
    earlier = fit_linear([successes[:380], exposures[:380]], 24)
    worker = Worker()
    worker.linear = LinearRows([successes, exposures])
    again = fit_linear_on(Executor(worker), 400, 4, start=earlier)
    np.testing.assert_allclose(again.loadings @ again.loadings.T, exact, atol=3e-3)
    assert fit_linear_on(Executor(worker), 400, 30, start=earlier).loadings.shape == (600, 30)  # more than it had
    assert fit_linear([successes, exposures], 250).loadings.shape == (600, 250)


def test_a_part_of_many_users_gives_the_direction_and_all_of_them_the_result() -> None:
    assert schedule(6_000, 3_700, 1_000_000, 15, is_new=True) == [(1_500, 6), (6_000, 8)]
    assert schedule(6_000, 3_700, 1_000_000, 15, is_new=False) == [(6_000, 2)]
    assert schedule(900, 1_700, 100_000, 15, is_new=True) == [(900, 15)]
    assert schedule(900, 1_700, 100_000, 15, is_new=False) == [(900, 5)]


def brute_force_user(fit: _Fit, seen: FloatArray, liked: FloatArray) -> tuple[FloatArray, FloatArray]:
    """One user's posterior by the formulas; before the first iteration everybody is N(0, I)."""
    x, y = fit.vectors
    d = x.shape[1] - 1
    precision, information = np.eye(d), np.zeros(d)
    for i in range(fit.n_items):
        for vector, target, is_known in ((x[i], seen[i], True), (y[i], liked[i], bool(seen[i]))):
            if is_known:
                xi = np.linalg.norm(vector)
                omega = np.tanh(xi / 2) / (2 * xi)
                precision += omega * np.outer(vector[:d], vector[:d])
                information += (target - 0.5 - omega * vector[d]) * vector[:d]
    cov = np.asarray(np.linalg.inv(precision), dtype=np.float64)
    return cov @ information, cov


def test_the_user_step_agrees_with_its_formula() -> None:
    successes, exposures = small_log(n_users=7, n_items=9)
    fit = _Fit(exposures, [successes], fit_linear([successes, exposures], 3), 3)
    means, covs = fit.user_step()
    for user in range(7):
        mean, cov = brute_force_user(fit, exposures.toarray()[user], successes.toarray()[user])
        np.testing.assert_allclose(means[user], mean, atol=1e-5)
        np.testing.assert_allclose(covs[user], cov, atol=1e-5)


def test_whitening_leaves_every_prediction_alone_and_the_population_standard() -> None:
    successes, exposures = small_log()
    fit = _Fit(exposures, [successes], fit_linear([successes, exposures], 3), 3)
    means, covs = fit.user_step()
    before = np.column_stack([means, np.ones(len(means))]) @ fit.vectors.reshape(-1, 4).T
    fit.whiten(means, covs)
    assert fit.moments is not None
    np.testing.assert_allclose(fit.means @ fit.vectors.reshape(-1, 4).T, before, atol=1e-5)
    np.testing.assert_allclose(fit.means[:, :-1].mean(axis=0), 0.0, atol=1e-6)
    np.testing.assert_allclose(symmetric(fit.moments, 4).mean(axis=0), np.eye(4), atol=1e-5)


def test_the_item_step_agrees_with_its_formula() -> None:
    successes, exposures = small_log(n_users=7, n_items=9)
    fit = _Fit(exposures, [successes], fit_linear([successes, exposures], 3), 3)
    fit.whiten(*fit.user_step())
    assert fit.moments is not None
    moments, before = symmetric(fit.moments, 4), fit.vectors.copy()
    fit.item_step(penalty=2.0)
    seen, liked = exposures.toarray(), successes.toarray()
    for channel, targets, is_known, pull in ((0, seen, np.ones_like(seen), 1e-3), (1, liked, seen, 1.0)):
        for item in range(9):
            x = before[channel, item]
            xi = np.sqrt((fit.means @ x) ** 2 + fit.variances @ x[:3] ** 2)
            omega = np.tanh(xi / 2) / (2 * xi) * is_known[:, item]
            precision = np.einsum("u,uij->ij", omega, moments) + np.diag([2.0, 2.0, 2.0, pull])
            information = ((targets[:, item] - 0.5) * is_known[:, item]) @ fit.means
            information[3] += pull * fit.anchors[channel, item]
            np.testing.assert_allclose(
                fit.vectors[channel, item], np.linalg.solve(precision, information), rtol=1e-3, atol=1e-4
            )


def test_a_fit_can_go_on_where_another_one_ended() -> None:
    successes, exposures = small_log(n_users=300)
    start = fit_linear([successes, exposures], 2)
    early, late = (fit_logistic(exposures, [successes], start, two_dimensional(n)) for n in (20, 30))
    more = fit_logistic(exposures, [successes], early, two_dimensional(30))  # a third of them
    np.testing.assert_allclose(np.abs(more.seen), np.abs(late.seen), atol=0.05)


def test_the_number_of_threads_does_not_change_the_result() -> None:
    successes, exposures = small_log(n_users=600)
    start = fit_linear([successes, exposures], 2)
    with threadpool_limits(limits=1), one_thread_each():
        one = fit_logistic(exposures, [successes], start, two_dimensional(2))
    with threadpool_limits(limits=2), one_thread_each():
        two = fit_logistic(exposures, [successes], start, two_dimensional(2))
    np.testing.assert_array_equal(one.vectors, two.vectors)


def likelihood(expert: LogisticExpert, successes: sp.csr_array, exposures: sp.csr_array) -> float:
    """Mean log likelihood of held-out users' exposures when their vectors are drawn from the population."""
    users = np.column_stack([np.random.default_rng(0).normal(size=(2000, expert.seen.shape[1] - 1)), np.ones(2000)])
    p = 1 / (1 + np.exp(-users @ expert.seen.T))  # (draws, items)
    seen = exposures.toarray()
    per_draw = np.log(p) @ seen.T + np.log(1 - p) @ (1 - seen.T)
    return float(np.log(np.exp(per_draw - per_draw.max(axis=0)).mean(axis=0)).mean() + per_draw.max(axis=0).mean())


def test_the_logistic_expert_explains_users_it_has_not_seen_better_with_every_few_iterations() -> None:
    train, rest = slice(0, 300), slice(300, 400)
    scores = dict.fromkeys((1, 3, 12), 0.0)
    for seed in range(3):
        successes, exposures = small_log(n_users=400, seed=seed)
        start = fit_linear([successes[train], exposures[train]], 2)
        for iterations in scores:
            expert = fit_logistic(exposures[train], [successes[train]], start, two_dimensional(iterations))
            scores[iterations] += likelihood(expert, successes[rest], exposures[rest])
    assert scores[1] < scores[3] < scores[12]


def test_grades_divide_successes_and_failures_and_are_left_out_where_all_are_equal() -> None:
    assert grade_thresholds(*np.unique(np.array([1.0, 2.0, 3.0, 3.0, 4.0, 5.0]), return_counts=True), 4.0) == (
        (5.0,),
        (3.0,),
    )
    assert grade_thresholds(*np.unique(np.array([0.0, 1.0, 0.0]), return_counts=True), 1.0) == ((), ())
    watched = np.linspace(0.0, 4.0, 41)
    (above,), (below,) = grade_thresholds(*np.unique(watched, return_counts=True), 2.0)
    np.testing.assert_allclose([above, below], [3.0, 1.0], atol=0.11)


def test_a_very_good_reaction_teaches_more_than_a_good_one_and_grades_can_be_left_out() -> None:
    log = synthetic_catalogue(n_users=80, n_items=40)
    small = ExpertsConfig(satisfied=4.0, iterations=2, logistic_dim=4, linear_dim=4, holdout=0.0)
    graded, plain = fit_experts(log, small), fit_experts(log, replace(small, grades=False))
    assert [channel.reward.threshold for channel in graded.channels] == [4.0, 4.0, 5.0, 4.0, 4.0, 5.0, 3.0]
    assert [channel.link for channel in plain.channels] == ["identity", "identity", "logit", "logit"]
    good, very_good = (learned(prior_belief(graded), graded, 0, value) for value in (4.0, 5.0))
    assert not np.allclose(good.mean, very_good.mean)
    good, very_good = (learned(prior_belief(plain), plain, 0, value) for value in (4.0, 5.0))
    np.testing.assert_array_equal(good.mean, very_good.mean)


def test_polya_gamma_means_are_a_quarter_at_zero_and_fall() -> None:
    omega = polya_gamma_means(np.array([0.0, 1.0, 100.0], dtype=np.float32))
    np.testing.assert_allclose(omega, [0.25, np.tanh(0.5) / 2, np.tanh(5.0) / 20], rtol=1e-4)


def test_two_happy_reactions_do_not_say_that_everybody_likes_an_item() -> None:
    rng = np.random.default_rng(0)
    seen = (rng.random((200, 8)) < 0.3).astype(np.float32)
    liked = seen * (rng.random((200, 8)) < 0.5)
    seen[:, 0] = liked[:, 0] = np.arange(200) < 2
    exposures, successes = sp.csr_array(seen), sp.csr_array(liked.astype(np.float32))
    expert = fit_logistic(exposures, [successes], fit_linear([successes, exposures], 2), two_dimensional(10))
    assert 0.0 < expert.liked[0, -1] < 1.5  # 0 is even odds, as for all other items


def few_of(log: Interactions, share: float) -> Interactions:
    """A sample of the reactions, and the users who still have one."""
    part = log.subset(np.random.default_rng(0).random(len(log)) < share)
    return part.only_users(np.unique(part.user_idx))


@pytest.mark.slow
def test_on_a_thin_sample_of_a_log_cold_users_still_get_more_than_from_popularity() -> None:
    """On the mean of five worlds: in one of them sixty users do not tell."""
    found = []
    config = ExpertsConfig(satisfied=4.0, iterations=8, logistic_dim=8, linear_dim=8, validate_rounds=40)
    for seed in range(1, 6):
        log = synthetic_catalogue(n_users=700, n_items=200, seed=seed)
        split = cold_start(log, min_reactions=60, n_test=60, n_validation=60, rng=np.random.default_rng(seed))
        thin = replace(split, train=few_of(split.train, 0.1))
        chosen = fit_experts(thin.train, config, validation=split.validation)
        temperature = chosen.metadata["chosen"]["likelihood_temperature"]
        of_log = fit_experts(thin.train, replace(config, holdout=0.0, likelihood_temperature=temperature))
        cov = of_log.prior_cov.copy()
        for constant in (0, config.linear_dim + 2):
            cov[constant] = cov[:, constant] = 0.0
        activity_known = of_log.with_prior(of_log.prior_mean, cov)
        of_models = [hits(model, Greedy(), split.test, 40) for model in (chosen, of_log, activity_known)]
        found.append([popular_hits(thin, 40), *of_models])
    popular, whole, activity_unknown, activity_known = np.mean(found, axis=0)
    assert whole > popular
    assert activity_unknown > activity_known


def test_expectations_of_new_users_come_true_with_a_prior_estimated_on_users_like_them() -> None:
    log = synthetic_catalogue(n_users=600, n_items=200, seed=1)
    split = cold_start(log, min_reactions=60, n_test=120, n_validation=0, rng=np.random.default_rng(1))
    some, others = split.test.dense()[::2], split.test.dense()[1::2]
    plain = fit_experts(
        split.train, ExpertsConfig(satisfied=4.0, iterations=4, logistic_dim=8, linear_dim=8, holdout=0.0)
    )
    estimated = prior_from_users(plain, some, 60)
    share = float((others >= 4.0).mean())
    before, after = (float(model.expected(model.prior_mean).mean()) for model in (plain, estimated))
    assert abs(after - share) < 0.5 * abs(before - share)
    np.testing.assert_array_equal(estimated.prior_cov, np.diag(np.diag(estimated.prior_cov)))


def log_of_tastes(tastes: IntArray, rng: np.random.Generator) -> Interactions:
    """Users of taste 1 like the items of odd numbers, those of taste 0 the others."""
    is_liked = (np.arange(40) % 2)[None, :] == tastes[:, None]
    users, items = np.nonzero(rng.random(is_liked.shape) < np.where(is_liked, 0.8, 0.1))
    return Interactions(
        name="two tastes",
        user_ids=tuple(f"u{user}" for user in range(len(tastes))),
        item_ids=tuple(f"i{item}" for item in range(40)),
        user_idx=users,
        item_idx=items,
        values=np.full(len(users), 5.0),
    )


def test_the_prior_of_validation_users_is_taken_where_it_is_better_for_others_of_them() -> None:
    rng = np.random.default_rng(0)
    config = ExpertsConfig(
        satisfied=4.0, iterations=3, logistic_dim=2, linear_dim=2, likelihood_temperature=1.0, validate_rounds=10,
        refit=False, calibrated=False, known_users=False,
    )  # fmt: skip
    all_alike, by_turns = np.ones(40, dtype=np.int64), np.arange(40) % 2  # the other half is right, or wrong
    for share, tastes, is_taken in ((0.1, all_alike, True), (0.5, by_turns, False)):
        data = log_of_tastes((rng.random(300) < share).astype(np.int64), rng)
        validation = log_of_tastes(tastes, rng)
        chosen = fit_experts(data, config, validation=validation)
        plain = fit_experts(data, replace(config, holdout=0.0))
        expected = prior_from_users(plain, validation.dense(), 10) if is_taken else plain
        assert chosen.metadata["chosen"]["prior_from_validation"] is is_taken
        np.testing.assert_allclose(chosen.prior_mean, expected.prior_mean)
        np.testing.assert_allclose(chosen.prior_cov, expected.prior_cov)


def test_after_all_choices_the_validation_users_are_learned_from_too() -> None:
    """And what they decided about the use of the model is what strangers to them decided."""
    log = synthetic_catalogue(n_users=200, n_items=60, seed=3)
    data, validation = log.only_users(np.arange(150)), log.only_users(np.arange(150, 200))
    config = ExpertsConfig(
        satisfied=4.0, iterations=2, logistic_dim=3, linear_dim=4, validate_rounds=10,
    )  # fmt: skip
    fitted = [fit_experts(data, replace(config, refit=each), validation=validation) for each in (True, False)]
    assert [model.metadata["data"]["validation_users"] for model in fitted] == [50, 0]
    assert fitted[0].metadata["chosen"] == fitted[1].metadata["chosen"]
    used, without = (model.usage for model in fitted)
    assert used.calibration.shares != without.calibration.shares  # those of the items in the model's own log
    own_shares = replace(used.calibration, shares=without.calibration.shares)
    assert replace(used, calibration=own_shares) == without
    for model, learned_from in zip(fitted, (log, data), strict=True):
        shares = np.bincount(learned_from.item_idx[learned_from.values >= 4.0], minlength=60) / learned_from.n_users
        np.testing.assert_allclose(model.channels[0].vectors[:, 0], shares, atol=1e-6)


def test_a_new_user_is_no_less_certain_than_a_probability_can_be() -> None:
    log = synthetic_catalogue(n_users=300, n_items=100, seed=1)
    model = pretrain(log, satisfied=4.0, seed=0, iterations=4, logistic_dim=8, linear_dim=8, holdout=0.0)
    _, stds = Recommender(model).session().moments()
    assert stds.max() < 0.9


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
    assert models[0].metadata["chosen"]["likelihood_temperature"] in TEMPERATURES
    assert models[0].metadata["settings"]["method"] == "experts"
    assert models[0].metadata["metrics"]["validation_precision"] > 0


def test_temperatures_are_tried_until_one_is_worse() -> None:
    log = synthetic_catalogue(n_users=150, n_items=60, seed=2)
    rest, held_out = log.only_users(np.arange(100)), log.only_users(np.arange(100, 150)).dense()
    config = ExpertsConfig(satisfied=4.0, iterations=2, logistic_dim=3, linear_dim=4, validate_rounds=15)
    tried: list[int] = []
    reward = Reward.from_log(log.values, "satisfied", 4.0)
    fits = Fits(
        SharedLog.of(rest), config, reward, lambda what, done, _: tried.append(done) if "valid" in what else None
    )
    players = Players(fits.log.executor)
    best, precision = best_temperature(fits, held_out, players)
    scores = [players.precision(fits.model(each), held_out, 15) for each in TEMPERATURES[: len(tried)]]
    assert tried == list(range(1, len(tried) + 1))
    assert precision == max(scores)
    assert TEMPERATURES[int(np.argmax(scores))] == best
    assert len(tried) == len(TEMPERATURES) or scores[-1] <= scores[-2]


def test_without_anybody_to_choose_on_the_first_choice_stands() -> None:
    log = synthetic_catalogue(n_users=80, n_items=40)
    model = fit_experts(log, ExpertsConfig(holdout=0.0, iterations=2, logistic_dim=4))
    assert model.metadata["chosen"] == {"likelihood_temperature": 1.0, "prior_from_validation": False}
    assert model.metadata["metrics"]["validation_precision"] is None


def test_the_graph_model_is_chosen_by_its_name_and_never_by_a_setting() -> None:
    log = synthetic_catalogue(n_users=80, n_items=40)
    model = pretrain(log, method="graph", dim=4, epochs=2)
    assert model.is_linear
    assert model.item_vectors.shape == (40, 4)
    with pytest.raises(ConfigError, match='dim is a setting of the graph model: it needs method="graph"'):
        pretrain(log, dim=4)
    with pytest.raises(ConfigError, match="method=graph does not fit config, a ExpertsConfig"):
        pretrain(log, ExpertsConfig(), method="graph")
    with pytest.raises(ConfigError, match="method must be one of experts, graph"):
        pretrain(log, method="magic")


@pytest.mark.parametrize(
    ("field", "value"),
    [("likelihood_temperature", 0.0), ("linear_dim", 0), ("iterations", 0), ("holdout", 0.9)],
)
def test_settings_out_of_range_are_refused(field: str, value: float) -> None:
    with pytest.raises(ConfigError, match=f"{field} must be"):
        ExpertsConfig(**{field: value})  # type: ignore[arg-type]


def test_rare_items_are_known_by_their_popularity_alone_and_the_others_as_if_they_were_not_there() -> None:
    log = synthetic_catalogue(n_users=150, n_items=60, seed=3)
    counts = np.bincount(log.item_idx, minlength=60)
    least = int(np.median(counts))
    config = ExpertsConfig(satisfied=4.0, iterations=2, logistic_dim=3, linear_dim=4, validate_rounds=10)
    model = fit_experts(log, replace(config, min_item_reactions=least))
    rare, frequent = np.flatnonzero(counts < least), np.flatnonzero(counts >= least)
    assert model.n_items == 60
    assert 0 < len(rare) < 60
    for channel in model.channels:
        slopes = channel.vectors[:, 1:] if channel.link == "identity" else channel.vectors[:, 2:]
        assert not slopes[rare].any()
        assert slopes[frequent].any(axis=1).all()
    shares = np.bincount(log.item_idx[log.values >= 4.0], minlength=60) / log.n_users
    np.testing.assert_allclose(model.channels[0].vectors[:, 0], shares, atol=1e-6)
    is_frequent = counts[log.item_idx] >= least
    place = np.cumsum(counts >= least) - 1
    without = replace(
        log.subset(is_frequent),
        item_ids=tuple(log.item_ids[row] for row in frequent),
        item_idx=place[log.item_idx[is_frequent]].astype(np.int32),
        titles=None,
        categories=None,
    )
    alone = fit_experts(without, replace(config, holdout=0.0, known_users=False, calibrated=False))
    within = fit_experts(
        log, replace(config, holdout=0.0, known_users=False, calibrated=False, min_item_reactions=least)
    )
    for one, other in zip(alone.channels, within.channels, strict=True):
        np.testing.assert_allclose(other.vectors[frequent], one.vectors, atol=1e-5)
    assert model.low_pass is None or not model.low_pass[rare].any()


def test_catalogues_beyond_the_limits_keep_their_most_frequent_items(monkeypatch: pytest.MonkeyPatch) -> None:
    log = synthetic_catalogue(n_users=150, n_items=60, seed=3)
    counts = np.bincount(log.item_idx, minlength=60)
    monkeypatch.setattr(rare_items, "MOST_ITEMS", 40)
    monkeypatch.setattr(rare_items, "MOST_JUDGED", 20)
    shared = SharedLog.of(log)
    frequent = rare_items.frequent_items(shared, None)
    assert frequent is not None
    assert 0 < len(frequent) <= 40
    assert counts[frequent].min() > np.delete(counts, frequent).max()
    judged = rare_items.judged_items(shared, frequent)
    assert judged is not None
    assert len(judged) == 20
    config = ExpertsConfig(satisfied=4.0, iterations=2, logistic_dim=3, linear_dim=4, validate_rounds=5)
    model = fit_experts(log, config)
    assert model.n_items == 60
    assert model.metadata["low_pass"]["ndcg"] > 0
