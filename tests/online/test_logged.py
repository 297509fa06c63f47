"""Logged records beside brute force: every absent item observed one by one, every sum over items written out."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from igcf.arrays import Float32Array, FloatArray
from igcf.errors import ConfigError, FeedbackError, ModelError, UnknownItemError
from igcf.model import Channel, Model, Term
from igcf.model.channel import sigmoid
from igcf.model.usage import RecordTemperature, Usage
from igcf.online import Greedy, InfoUcb, Policy, Recommender, ScoringEngine, Thompson, Ucb, backend, belief_from_logged
from igcf.online.absence import PASSES, LinearAbsence, LogisticAbsence, Record
from igcf.online.backend import NumpyBackend
from igcf.online.backend.types import RecordTerms
from igcf.online.evidence import expected_rewards, logged_evidence
from igcf.online.learning import belief_from_history, prior_belief
from igcf.training.experts.known_users import ndcg
from tests.toys import catalogue, direct_posterior, ensemble_model, random_model, two_channel_model

BACKENDS = (backend.loops, NumpyBackend())
LOGGED = [("item-3", 5.0), ("item-8", 2.0), ("item-1", 4.0), ("item-20", 5.0)]
SHOWN = [("item-5", 5.0), ("item-9", None), ("item-11", 1.0)]


def low_pass(*, scale: float = 0.3, seed: int = 5) -> Float32Array:
    """Three directions of a graph of thirty items."""
    return np.random.default_rng(seed).normal(size=(30, 3)).astype(np.float32) * np.float32(scale)


def rounded(model: Model) -> Model:
    """The same model with values in stars as the reward's range, which the toys of raw rewards do not have."""
    channels = [replace(channel, reward=replace(channel.reward, low=1.0, high=5.0)) for channel in model.channels]
    return Model(
        channels=channels,
        terms=model.terms,
        item_ids=model.item_ids,
        prior_mean=model.prior_mean,
        prior_cov=model.prior_cov,
        reward=replace(model.reward, low=1.0, high=5.0),
    )


LINEAR = [rounded(random_model(30, 4)), rounded(random_model(30, 5, singular=True)), two_channel_model(30, 4)]
TEMPERED = (
    ensemble_model(30, 3)
    .changed(low_pass=low_pass())
    .changed(usage=Usage(record_temperature=RecordTemperature(4.0, 0.5)))
)
ALL = [*LINEAR, ensemble_model(30, 3), ensemble_model(30, 3).changed(low_pass=low_pass()), TEMPERED]


def record_of(model: Model, weight: float, later: Sequence[int] = ()) -> Record:
    record = logged_evidence(model).record([3, 8, 1, 20], [5.0, 2.0, 4.0, 5.0], later)
    return record._replace(weight=weight)


def one_by_one(model: Model, block: LinearAbsence, record: Record) -> tuple[FloatArray, FloatArray]:
    """Every reaction and every absent item as an observation of its own, by explicit inverses."""
    absent = np.setdiff1d(np.arange(model.n_items), np.concatenate([record.rows, record.later]))
    x, rewards, noise = [], [], []
    for channel in block.channels:
        x += [channel.vectors[record.rows], channel.vectors[absent]]
        rewards += [channel.reward.of(record.values), np.zeros(len(absent))]
        noise += [channel.noise_var[record.rows], channel.noise_var[absent] / record.weight]
    prior = model.prior_cov[block.span, block.span] + 1e-13 * np.eye(block.span.stop - block.span.start)
    X = np.concatenate(x).astype(np.float64)
    return direct_posterior(model.prior_mean[block.span], prior, X, np.concatenate(rewards), np.concatenate(noise))


@pytest.mark.parametrize("weight", [1.0, 0.3, 0.01])
@pytest.mark.parametrize("later", [(), (0, 2, 17, 29)])
@pytest.mark.parametrize("model", [LINEAR[0], LINEAR[2], ALL[3]])
def test_a_linear_record_equals_every_absent_item_observed_one_by_one(
    model: Model, weight: float, later: Sequence[int]
) -> None:
    record = record_of(model, weight, later)
    block = logged_evidence(model).blocks[0]
    assert isinstance(block, LinearAbsence)
    for found, expected in zip(block.posterior(record), one_by_one(model, block, record), strict=True):
        np.testing.assert_allclose(found, expected, atol=1e-8)


@settings(max_examples=40, deadline=None)
@given(st.integers(2, 40), st.integers(1, 6), st.floats(1e-3, 1.0), st.integers(0, 10_000))
def test_any_linear_record_equals_one_by_one(n_items: int, dim: int, weight: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    model = rounded(random_model(n_items, dim, seed=seed))
    items = rng.permutation(n_items)
    n, m = rng.integers(1, n_items + 1), rng.integers(0, 5)
    record = Record(items[:n], rng.uniform(1, 5, n), weight, items[n : n + m])
    [block] = logged_evidence(model).blocks
    assert isinstance(block, LinearAbsence)
    for found, expected in zip(block.posterior(record), one_by_one(model, block, record), strict=True):
        np.testing.assert_allclose(found, expected, atol=1e-8)


def test_a_direction_that_the_prior_knows_stays_known() -> None:
    model = LINEAR[1]
    belief = belief_from_logged(model, [3, 8], [5.0, 1.0]).belief
    known = np.linalg.eigh(model.prior_cov)[1][:, 0]
    assert known @ belief.mean == pytest.approx(known @ model.prior_mean, abs=1e-9)
    assert known @ belief.cov @ known == pytest.approx(0.0, abs=1e-12)


def test_the_temperatures_of_records_divide_their_evidence() -> None:
    model = ensemble_model(30, 3)
    record = record_of(model, 0.3, (0, 2))
    factors = {"identity": 4.0, "logit": 0.5}
    noisier = [replace(channel, noise_var=channel.noise_var * factors[channel.link]) for channel in model.channels]
    expected = logged_evidence(model.changed(channels=noisier)).belief(record)
    found = logged_evidence(model.changed(usage=Usage(record_temperature=RecordTemperature(4.0, 0.5)))).belief(record)
    np.testing.assert_array_equal(found.mean, expected.mean)
    np.testing.assert_array_equal(found.cov, expected.cov)


def test_shown_reactions_keep_their_evidence_whatever_the_temperatures_of_records() -> None:
    for model in (ensemble_model(30, 3), two_channel_model(30, 4)):
        other = model.changed(usage=Usage(record_temperature=RecordTemperature(8.0, 8.0)))
        one, two = (belief_from_history(each, [5, 9], [5.0, 1.0], 1.0) for each in (model, other))
        np.testing.assert_array_equal(one.mean, two.mean)
        np.testing.assert_array_equal(one.cov, two.cov)


@pytest.mark.parametrize("wrong", [{"linear": 0.0}, {"linear": np.inf}, {"logistic": -1.0}, {"logistic": np.nan}])
def test_the_temperatures_of_records_are_positive_numbers(wrong: dict[str, float]) -> None:
    with pytest.raises(ModelError, match="temperatures of a record must be finite numbers above 0"):
        RecordTemperature(**wrong)


def test_without_absence_a_linear_record_is_a_history() -> None:
    model = two_channel_model(30, 4)
    model.metadata = {"settings": {"missing": "ignore"}}
    belief = belief_from_logged(model, [3, 8, 1], [5.0, 2.0, 4.0]).belief
    shown = belief_from_history(model, [3, 8, 1], [5.0, 2.0, 4.0], 1.0)
    np.testing.assert_allclose(belief.mean, shown.mean, atol=1e-9)
    np.testing.assert_allclose(belief.cov, shown.cov, atol=1e-9)


class Recorded:
    """Item vectors that count the rows that are read and allow nothing else."""

    def __init__(self, vectors: Any) -> None:
        self.vectors, self.read = vectors, 0

    def __getitem__(self, rows: Any) -> Any:
        return self.take(rows)

    def take(self, rows: Any, axis: int = 0) -> Any:
        assert axis == 0
        self.read += len(rows)
        return self.vectors[rows]


@pytest.mark.parametrize("weight", [1.0, 0.3])
def test_a_linear_record_reads_no_item_but_its_own(weight: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backend, "loops", NumpyBackend())
    model = two_channel_model(3_000, 4)
    block = LinearAbsence(model, model.blocks[0][0], model.channels)
    watched = [Recorded(channel.vectors) for channel in model.channels]
    pairs = zip(model.channels, watched, strict=True)
    block.channels = [replace(channel, vectors=vectors) for channel, vectors in pairs]  # type: ignore[arg-type]
    block.posterior(Record(np.array([3, 8, 1]), np.array([5.0, 2.0, 4.0]), weight, np.array([7])))
    assert all(each.read <= 7 for each in watched)


def test_a_logistic_record_passes_over_the_items_a_few_times(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []
    find_mode = backend.loops.find_mode

    def counted(*args: Any) -> None:
        calls.append(args[-1])
        find_mode(*args)

    monkeypatch.setattr(backend.loops, "find_mode", counted, raising=False)
    logged_evidence(model := world()).belief(record_of(model, 1.0))
    assert calls == [PASSES]


@pytest.mark.parametrize(
    ("n_items", "dim", "n_own"), [(1, 1, 0), (63, 3, 5), (64, 8, 64), (65, 34, 1), (1_001, 17, 130)]
)
@pytest.mark.parametrize("weight", [0.0, 0.4, 1.0])
def test_both_backends_find_the_same_mode(n_items: int, dim: int, n_own: int, weight: float) -> None:
    rng = np.random.default_rng(n_items)
    vectors = [rng.normal(size=(n, dim)).astype(np.float32) / dim**0.5 for n in (n_items, n_own)]
    noise, prior_mean = rng.uniform(0.5, 2.0, n_items), rng.normal(size=dim)
    frame = rng.normal(size=(dim, dim)) / dim**0.5
    slope = (sigmoid(vectors[0].astype(np.float64) @ prior_mean) / noise) @ vectors[0]
    own_weights = rng.uniform(-0.1, 1.0, n_own).astype(np.float32)
    information = rng.normal(size=dim)
    terms = RecordTerms((vectors[0],), (noise,), slope, weight, vectors[1], own_weights, information, prior_mean, frame)
    found, root = [], rng.normal(size=(dim, dim)) / dim**0.5
    for loops in BACKENDS:
        v, mean, cov = np.zeros(dim), np.empty(dim), np.eye(dim) * weight * n_items / 8 + root @ root.T
        loops.find_mode(terms, v, mean, cov, 3.0, 3)
        np.testing.assert_allclose(mean, prior_mean + frame @ v, atol=1e-12)
        np.testing.assert_array_equal(cov, cov.T)
        found.append((v, cov))
    np.testing.assert_allclose(found[0][0], found[1][0], rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(found[0][1], found[1][1], rtol=1e-3, atol=1e-4)


def test_without_a_step_the_covariance_is_the_inverse_of_prior_and_evidence() -> None:
    rng = np.random.default_rng(0)
    x, weights = rng.normal(size=(150, 33)).astype(np.float32) / 6, rng.uniform(0.1, 1.0, 150).astype(np.float32)
    frame, prior_mean, absence = rng.normal(size=(33, 20)) / 6, rng.normal(size=33), np.diag(rng.uniform(0, 3, 33))
    p = sigmoid(x.astype(np.float64) @ prior_mean)
    precision = absence + (x * (weights * p * (1 - p))[:, None]).T.astype(np.float64) @ x
    expected = frame @ np.linalg.inv(np.eye(20) + frame.T @ precision @ frame) @ frame.T
    terms = RecordTerms((), (), np.zeros(33), 0.0, x, weights, np.zeros(33), prior_mean, frame)
    for loops in BACKENDS:
        mean, cov = np.empty(33), absence.copy()
        loops.find_mode(terms, np.zeros(20), mean, cov, 3.0, 0)
        np.testing.assert_allclose(cov, expected, rtol=1e-5, atol=1e-6)


def world(n_items: int = 200, dim: int = 5, *, seed: int = 0) -> Model:
    """A model like the default one, with a level dimension in both blocks and popular and unpopular items."""
    rng = np.random.default_rng(seed)
    popular = rng.normal(-2.0, 1.0, n_items)
    seen = np.column_stack([popular, np.ones(n_items), rng.normal(size=(n_items, dim)) * 0.8])
    liked = np.column_stack([rng.normal(0.3, 0.5, n_items), np.zeros(n_items), rng.normal(size=(n_items, dim)) * 0.5])
    linear = np.column_stack([sigmoid(popular) * 0.6, rng.normal(size=(n_items, dim)) * 0.1])
    reward = catalogue(1)["reward"]
    exposed, graded = replace(reward, kind="exposed"), replace(reward, kind="liked")
    start = dim + 1
    channels = [
        Channel(linear.astype(np.float32), np.full(n_items, 0.2), reward),
        Channel(linear.astype(np.float32), np.full(n_items, 0.5), exposed),
        Channel(seen.astype(np.float32), np.ones(n_items), exposed, "logit", start),
        Channel(liked.astype(np.float32), np.ones(n_items), graded, "logit", start),
    ]
    return Model(
        channels=channels,
        terms=[Term(0.5, (0,)), Term(0.5, (2, 3))],
        prior_mean=np.r_[1.0, np.zeros(dim), 1.0, 0.0, np.zeros(dim)],
        prior_cov=np.diag(np.r_[3.0, np.ones(dim), 0.0, 1.0, np.ones(dim)]),
        **catalogue(n_items),
    )


def drawn_record(model: Model, rng: np.random.Generator) -> tuple[Any, FloatArray]:
    """Everything that a user drawn from the logistic block of `world` came to, and whether it was liked."""
    seen, liked = model.channels[2], model.channels[3]
    user = rng.multivariate_normal(model.prior_mean[seen.span], model.prior_cov[seen.span, seen.span])
    rows = np.flatnonzero(rng.random(model.n_items) < sigmoid(seen.vectors @ user))
    is_liked = rng.random(len(rows)) < sigmoid(liked.vectors[rows] @ user)
    return rows, np.where(is_liked, 5.0, 2.0)


def test_a_logistic_record_ranks_like_every_absent_item_observed_one_by_one() -> None:
    model, rng = world(), np.random.default_rng(1)
    differences = []
    for _ in range(60):
        rows, values = drawn_record(model, rng)
        liked = np.flatnonzero(values == 5.0)
        if len(liked) < 3:
            continue
        hidden = rng.choice(liked, max(len(liked) // 5, 1), replace=False)
        given_rows, given_values = np.delete(rows, hidden), np.delete(values, hidden)
        record = logged_evidence(model).record(given_rows, given_values, ())._replace(weight=1.0)
        every = np.full(model.n_items, np.nan)
        every[given_rows] = given_values
        order = rng.permutation(model.n_items)
        by_one = belief_from_history(model, order.tolist(), every[order].tolist(), 1.0)
        at_once = logged_evidence(model).belief(record)
        scores = [ndcg(expected_rewards(model, each.mean), given_rows, rows[hidden]) for each in (at_once, by_one)]
        differences.append(scores[0] - scores[1])
    assert len(differences) > 40
    assert abs(np.mean(differences)) < 0.005


def exact_mode(model: Model, record: Record) -> FloatArray:
    """The mode of the logistic block of `world` by Newton's method, with all sums written out."""
    block = logged_evidence(model).blocks[1]
    seen, liked = model.channels[2], model.channels[3]
    free = slice(1, None)
    precision = np.diag(1.0 / np.diagonal(model.prior_cov[block.span, block.span])[free])
    user = model.prior_mean[block.span].copy()
    weights = np.full(model.n_items, record.weight)
    weights[record.rows], weights[record.later] = 1.0, 0.0
    target = np.zeros(model.n_items)
    target[record.rows] = 1.0
    success = liked.reward.of(record.values)
    x, own = seen.vectors.astype(np.float64), liked.vectors[record.rows].astype(np.float64)
    for _ in range(60):
        p, q = sigmoid(x @ user), sigmoid(own @ user)
        gradient = (weights * (target - p)) @ x + (success - q) @ own
        gradient = gradient[free] - precision @ (user - model.prior_mean[block.span])[free]
        curvature = (x * (weights * p * (1 - p))[:, None]).T @ x + (own * (q * (1 - q))[:, None]).T @ own
        step = np.linalg.solve(curvature[free, free] + precision, gradient)
        user[free] += step * min(1.0, 1.0 / float(np.linalg.norm(step)))
    return user


@pytest.mark.parametrize("weight", [1.0, 0.2])
@pytest.mark.parametrize("later", [(), tuple(range(150, 200))])
def test_more_passes_come_nearer_to_the_mode(weight: float, later: tuple[int, ...]) -> None:
    model, rng = world(), np.random.default_rng(5)
    block = logged_evidence(model).blocks[1]
    assert isinstance(block, LogisticAbsence)
    errors = {0: [], 3: [], 25: []}  # type: dict[int, list[float]]
    for _ in range(10):
        rows, values = drawn_record(model, rng)
        record = logged_evidence(model).record(rows, values, later)._replace(weight=weight)
        mode = exact_mode(model, record)
        for passes, found in errors.items():
            found.append(float(np.abs(block.posterior(record, passes=passes)[0] - mode).max()))
    assert np.mean(errors[25]) < 1e-3 < np.mean(errors[0])
    assert np.mean(errors[3]) < np.mean(errors[0])


def test_the_level_follows_how_active_a_user_is() -> None:
    model, rng = world(), np.random.default_rng(2)
    place = logged_evidence(model).blocks[1].span.start + 1
    found, drawn = [], []
    for level in np.linspace(-1.5, 1.5, 13):
        p = sigmoid(model.channels[2].vectors[:, 0] + level)
        rows = np.flatnonzero(rng.random(model.n_items) < p)
        record = logged_evidence(model).record(rows, np.full(len(rows), 2.0), ())._replace(weight=1.0)
        found.append(logged_evidence(model).belief(record).mean[place])
        drawn.append(level)
    assert np.corrcoef(found, drawn)[0, 1] > 0.95
    assert max(np.abs(found)) < 2.5


def test_a_record_longer_than_expected_is_taken_as_whole_and_a_shorter_one_in_part() -> None:
    model = world()
    evidence = logged_evidence(model)
    expected = float(sigmoid(model.channels[2].vectors @ model.prior_mean[model.channels[2].span]).sum())
    assert evidence.expected == pytest.approx(expected)
    assert evidence.weight(np.full(int(expected) + 1, 3.0)) == 1.0
    assert evidence.weight(np.full(3, 3.0)) == pytest.approx(3 / expected)
    model = world(seed=1)
    model.metadata = {"settings": {"missing": "ignore"}}
    assert logged_evidence(model).weight(np.full(100, 3.0)) == 0.0
    model = world(seed=2)
    model.metadata = {"settings": {"missing": "zero", "missing_weight": 0.25}}
    assert logged_evidence(model).weight(np.full(100, 3.0)) == 0.25


def test_the_sums_of_a_model_are_computed_once_and_go_with_it() -> None:
    model = two_channel_model()
    assert logged_evidence(model) is logged_evidence(model)
    assert logged_evidence(model) is not logged_evidence(two_channel_model())


@pytest.mark.parametrize("model", ALL)
def test_without_a_logged_reaction_a_user_is_new(model: Model) -> None:
    learned = belief_from_logged(model, [], [])
    np.testing.assert_array_equal(learned.belief.mean, model.prior_mean)
    assert learned.offset is None
    assert Recommender(model).session(logged=[]).recommend(3) == Recommender(model).session().recommend(3)


@pytest.mark.parametrize("model", ALL)
def test_a_session_believes_what_the_record_says(model: Model) -> None:
    session = Recommender(model).session(logged=LOGGED)
    learned = belief_from_logged(model, [3, 8, 1, 20], [5.0, 2.0, 4.0, 5.0])
    np.testing.assert_allclose(session.belief.mean, learned.belief.mean, atol=1e-12)
    expected = expected_rewards(model, learned.belief.mean)
    expected = expected if learned.offset is None else expected + learned.offset
    np.testing.assert_allclose(session.moments()[0], expected, atol=1e-5)
    assert (learned.offset is not None) == (model.low_pass is not None)
    shown = {each.item_id for each in session.recommend(26)}
    assert shown.isdisjoint(item_id for item_id, _ in LOGGED)
    assert session.logged == LOGGED
    assert session.history == []


@pytest.mark.parametrize("forgetting", [1.0, 0.8])
@pytest.mark.parametrize("model", ALL)
def test_logged_then_shown_equals_observing_what_was_shown(model: Model, forgetting: float) -> None:
    recommender = Recommender(model, forgetting=forgetting)
    one = recommender.session(logged=LOGGED, history=SHOWN)
    other = recommender.session(logged=LOGGED)
    for item_id, value in SHOWN:
        other.observe(item_id, value)
    np.testing.assert_allclose(one.belief.mean, other.belief.mean, atol=1e-8)
    np.testing.assert_allclose(one.belief.cov, other.belief.cov, atol=1e-8)
    np.testing.assert_allclose(one.moments()[0], other.moments()[0], atol=1e-4)


@pytest.mark.parametrize("forgetting", [1.0, 0.8])
@pytest.mark.parametrize("shown", [[], SHOWN])
@pytest.mark.parametrize("model", ALL)
def test_an_explanation_adds_up(model: Model, shown: list[tuple[str, float | None]], forgetting: float) -> None:
    session = Recommender(model, forgetting=forgetting).session(logged=LOGGED, history=shown)
    means = session.moments()[0]
    for row in (0, 5, 20, 29):
        told = session.explain(f"item-{row}")
        amounts = [each.amount for each in (*told.logged, *told.contributions)]
        assert told.prior + sum(amounts) + told.absence == pytest.approx(told.mean, abs=1e-9)
        assert told.prior == pytest.approx(model.expected_of(model.prior_mean, row), abs=1e-9)
        assert told.mean == pytest.approx(means[row], abs=1e-4)
        if model.low_pass is None:
            assert told.mean == pytest.approx(model.expected_of(session.belief.mean, row), abs=1e-9)
        assert [(each.item_id, each.value) for each in told.logged] == LOGGED
        assert [(each.item_id, each.value) for each in told.contributions] == shown


def test_each_part_of_a_linear_explanation_is_what_its_evidence_adds() -> None:
    model = LINEAR[0]
    record = record_of(model, logged_evidence(model).weight(np.array([5.0, 2.0, 4.0, 5.0])))
    told = Recommender(model).session(logged=LOGGED).explain("item-12")
    cov = Recommender(model).session(logged=LOGGED).belief.cov
    [channel] = model.channels
    x, absence = channel.vectors.astype(np.float64), 0.0
    for row in np.setdiff1d(np.arange(30), record.rows):
        surprise = 0.0 - x[row] @ model.prior_mean
        absence += record.weight * (x[12] @ cov @ x[row]) * surprise / channel.noise_var[row]
    assert told.absence == pytest.approx(absence, abs=1e-9)
    one = (x[12] @ cov @ x[3]) * (5.0 - x[3] @ model.prior_mean) / channel.noise_var[3]
    assert told.logged[0].amount == pytest.approx(one, abs=1e-9)


@pytest.mark.parametrize("loops", BACKENDS)
@pytest.mark.parametrize("policy", [Greedy(), Ucb(0.5), Ucb(20.0), InfoUcb(), Ucb(0.5, item_uncertainty=True)])
@pytest.mark.parametrize("n_shown", [0, 1, 9])
@pytest.mark.parametrize("model", [LINEAR[0], ALL[3]])
def test_every_selection_counts_the_offset(
    model: Model, n_shown: int, policy: Policy, loops: NumpyBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backend, "loops", loops)
    session = Recommender(model.changed(low_pass=low_pass(scale=1.0)), policy).session(logged=LOGGED)
    for row in range(21, 21 + n_shown):
        session.observe(f"item-{row}", 4.0)
    means, stds = session.moments()
    own = np.array([model.expected_of(session.belief.mean, row) for row in range(30)])
    assert session.offset is not None
    np.testing.assert_allclose(means, own + session.offset, atol=1e-4)
    found = session.recommend(4)
    for each in found:
        row = model.item_row(each.item_id)
        assert each.mean == pytest.approx(means[row], abs=1e-5)
        assert each.std == pytest.approx(stds[row], abs=1e-4)
        better = [other for other in range(30) if session.available()[0, other] and means[other] > means[row]]
        assert each.mean_rank == 1 + len(better)
    if isinstance(policy, Ucb) and not policy.item_uncertainty:
        scores = np.where(session.available()[0], means + policy.nu * stds, -np.inf)
        assert [each.item_id for each in found] == [f"item-{row}" for row in np.argsort(-scores)[:4]]


def test_a_draw_of_thompson_sampling_counts_the_offset() -> None:
    model = LINEAR[0]
    engine = ScoringEngine(model)
    offset = np.zeros(30, dtype=np.float32)
    offset[17] = 1e3
    engine.set_belief(prior_belief(model), offset=offset)
    scores = Thompson().scores(engine, np.ones((1, 30), dtype=np.bool_), rng=np.random.default_rng(0))
    assert scores.argmax() == 17


def test_users_in_lock_step_have_offsets_of_their_own_and_fresh_engines_none() -> None:
    model = ALL[3]
    engine = ScoringEngine(model, 3)
    plain = engine.means.copy()
    offset = np.linspace(0.0, 1.0, 30, dtype=np.float32)
    engine.set_belief(prior_belief(model), 1, offset=offset)
    np.testing.assert_allclose(engine.means, plain + np.array([[0.0], [1.0], [0.0]]) * offset, atol=1e-6)
    engine.set_belief(prior_belief(model), 1)
    np.testing.assert_allclose(engine.means, plain, atol=1e-6)
    assert engine.fresh().offset_of() is None


@pytest.mark.parametrize("model", ALL)
def test_a_known_belief_is_taken_over_with_its_offset(model: Model) -> None:
    first = Recommender(model).session(logged=LOGGED, history=SHOWN)
    known = belief_from_logged(model, [], [])._replace(belief=first.belief, offset=first.offset)
    for belief in (known, first.belief):
        again = Recommender(model).session(SHOWN, logged=LOGGED, belief=belief)
        np.testing.assert_allclose(again.moments()[0], first.moments()[0], atol=1e-5)
        assert again.logged == LOGGED


def test_of_several_logged_reactions_to_one_item_the_last_counts() -> None:
    model = ALL[3]
    session = Recommender(model).session(logged=[("item-3", 1.0), *LOGGED[1:], ("item-3", 5.0)])
    expected = Recommender(model).session(logged=LOGGED)
    np.testing.assert_allclose(session.belief.mean, expected.belief.mean, atol=1e-10)
    assert sorted(session.logged) == sorted(LOGGED)


def test_unknown_items_and_missing_values_in_a_log_are_refused() -> None:
    recommender = Recommender(ALL[3])
    with pytest.raises(UnknownItemError, match="item 'nothing'"):
        recommender.session(logged=[("nothing", 5.0)])
    with pytest.raises(FeedbackError, match="logged reaction to item 'item-3' has no value"):
        recommender.session(logged=[("item-3", None)])
    with pytest.raises(FeedbackError, match="value 1000"):
        recommender.session(logged=[("item-3", 1000.0)])


def test_items_that_appeared_after_the_record_are_not_absent() -> None:
    model = two_channel_model(30, 4)
    timed = Model(
        channels=model.channels,
        prior_mean=model.prior_mean,
        prior_cov=model.prior_cov,
        appeared=np.arange(30),
        **catalogue(30),
    )
    found = Recommender(timed).session(logged=LOGGED, until=24).belief
    expected = belief_from_logged(model, [3, 8, 1, 20], [5.0, 2.0, 4.0, 5.0], later=range(25, 30)).belief
    np.testing.assert_allclose(found.mean, expected.mean, atol=1e-12)
    all_absent = Recommender(timed).session(logged=LOGGED).belief
    assert np.abs(found.mean - all_absent.mean).max() > 1e-3
    np.testing.assert_array_equal(Recommender(model).session(logged=LOGGED, until=24).belief.mean, all_absent.mean)


def test_the_low_pass_filter_adds_the_projection_of_the_record_over_the_root_of_its_length() -> None:
    """Items 3, 1 and 20 satisfied; 8 did not and counts half."""
    directions = low_pass()
    learned = belief_from_logged(
        ensemble_model(30, 3).changed(low_pass=directions), [3, 8, 1, 20], [5.0, 2.0, 4.0, 5.0]
    )
    projection = directions @ directions.T
    assert learned.offset is not None
    expected = (projection[[3, 1, 20]].sum(axis=0) + 0.5 * projection[8]) / np.sqrt(3.5)
    np.testing.assert_allclose(learned.offset, expected, atol=1e-6)


@pytest.mark.parametrize("forgetting", [1.0, 0.7])
@pytest.mark.parametrize("model", [world(), LINEAR[0], ALL[4]])
def test_the_first_answers_to_a_known_user_are_those_of_all_variances(model: Model, forgetting: float) -> None:
    for nu in (0.5, 5.0):
        session = Recommender(model, Ucb(nu), forgetting=forgetting).session(logged=LOGGED)
        for row in (22, 25):
            found = [each.item_id for each in session.recommend(5)]
            exact = Recommender(model, Ucb(nu)).session(session.history, logged=LOGGED, belief=session.belief)
            means, stds = exact.moments()
            if session.offset is not None and exact.offset is not None:
                means = means - exact.offset + session.offset
            scores = np.where(session.available()[0], means + nu * stds, -np.inf)
            assert found == [model.item_ids[row] for row in np.argsort(-scores)[:5]]
            session.observe(f"item-{row}", 1.0)


@pytest.mark.parametrize("argument", ["history", "logged"])
@pytest.mark.parametrize("wrong", ["item-1", ("item-1",), ("item-1", 5.0, 1.0), 3])
def test_reactions_that_are_no_pairs_are_refused(argument: str, wrong: object) -> None:
    recommender = Recommender(ensemble_model())
    with pytest.raises(ConfigError, match=rf"{argument} takes \(item_id, value\) pairs, got "):
        recommender.session(**{argument: [("item-0", 5.0), wrong]})  # type: ignore[arg-type]
