"""The compiled loops beside the same in NumPy: random inputs, odd sizes, one item, d = 1, ties, nothing revealed."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from igcf.model import Model
from igcf.online import Belief, Recommender, Ucb, choosing, kernels
from igcf.online.combining import Mixture
from tests.toys import ensemble_model, random_model, two_channel_model

SIZES = st.sampled_from([1, 2, 3, 4, 5, 63, 64, 65, 301])
DIMS = st.sampled_from([1, 2, 3, 4, 5, 8, 13, 64, 65])
SEEDS = st.integers(0, 10_000)
examples = settings(max_examples=60, deadline=None)


def in_numpy(compute: Callable[[], Any]) -> Any:
    """What `compute` gives where nothing was compiled."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("igcf.online.kernels.compiled", None)
        patch.setattr("igcf.online.choosing.compiled", None)
        patch.setattr("igcf.online.combining.compiled", None)
        return compute()


def covariances(rng: np.random.Generator, n: int, d: int) -> np.ndarray:
    roots = rng.normal(size=(n, d, d))
    return roots @ np.swapaxes(roots, 1, 2) / d


def test_where_there_is_a_compiler_the_loops_are_compiled() -> None:
    assert kernels.compiled is not None or shutil.which("cc") is None or os.environ.get("IGCF_COMPILED") == "0"


def test_the_environment_can_ask_for_numpy() -> None:
    code = "from igcf.online import kernels; print(kernels.compiled)"
    asked = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "IGCF_COMPILED": "0"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert asked.stdout.strip() == "None"


@examples
@given(seed=SEEDS, n=st.integers(1, 12), d=DIMS, rest=st.integers(0, 5), alone=st.booleans())
def test_reactions_are_absorbed_alike(seed: int, n: int, d: int, rest: int, alone: bool) -> None:
    """One reaction of each of n users, or n reactions of one, about a block in the middle of the users' vectors."""
    rng = np.random.default_rng(seed)
    users, start = 1 if alone else n, rest // 2
    means, covs = rng.normal(size=(users, d + rest)), covariances(rng, users, d + rest)
    is_logit = rng.random(n) < 0.5
    rewards = np.where(rng.random(n) < 0.2, np.nan, np.where(is_logit, rng.random(n) < 0.5, rng.normal(size=n)))
    x, noise = rng.normal(size=(n, d)), rng.uniform(0.2, 2.0, n)

    def absorbed() -> tuple[np.ndarray, ...]:
        own = means.copy(), covs.copy()
        return *own, *kernels.absorb(*own, start, x, rewards, noise, is_logit)

    for found, expected in zip(absorbed(), in_numpy(absorbed), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)
    np.testing.assert_array_equal(absorbed()[1], np.swapaxes(absorbed()[1], 1, 2))


@examples
@given(seed=SEEDS, n=SIZES, d=DIMS, channels=st.integers(1, 4), scored=st.integers(0, 3))
def test_a_reaction_is_carried_over_to_all_items_alike(seed: int, n: int, d: int, channels: int, scored: int) -> None:
    rng = np.random.default_rng(seed)
    mean, cov = rng.normal(size=d + 1), covariances(rng, 1, d + 1)[0]
    vectors = tuple(rng.normal(size=(n, d)).astype(np.float32) for _ in range(channels))
    noise = tuple(rng.uniform(0.2, 2.0, n) for _ in range(channels))
    is_logit, row = rng.random(channels) < 0.5, int(rng.integers(n))
    rewards = tuple(rng.choice([0.0, 1.0, np.nan], size=channels).tolist())
    items = tuple(rng.normal(size=(n, d)).astype(np.float32) / np.float32(np.sqrt(d)) for _ in range(scored))
    before = belief_moments(mean, cov, items)

    def learned() -> tuple[np.ndarray, ...]:
        own, z, variances = (mean.copy(), cov.copy()), *(tuple(each.copy() for each in part) for part in before)
        kernels.learn(*own, 1, row, rewards, vectors, noise, is_logit, items, z, variances)
        return *own, *z, *variances

    found = learned()
    for ours, plain in zip(found, in_numpy(learned), strict=True):
        np.testing.assert_allclose(ours, plain, rtol=1e-4, atol=1e-5)
    z, variances = belief_moments(found[0], found[1], items)
    for ours, exact in zip(found[2:], [*z, *variances], strict=True):
        np.testing.assert_allclose(ours, exact, rtol=1e-3, atol=1e-4)


def belief_moments(mean: np.ndarray, cov: np.ndarray, items: tuple[np.ndarray, ...]) -> list[tuple[np.ndarray, ...]]:
    """Means and variances of the items of each channel, which read all but the first dimension."""
    z = tuple((each @ mean[1:]).astype(np.float32) for each in items)
    return [z, tuple(np.einsum("nd,de,ne->n", each, cov[1:, 1:], each).astype(np.float32) for each in items)]


@examples
@given(seed=SEEDS, users=st.integers(1, 40), n=SIZES)
def test_products_of_many_users_are_carried_over_alike(seed: int, users: int, n: int) -> None:
    rng = np.random.default_rng(seed)
    products, z, variances = (rng.random((users, n)).astype(np.float32) for _ in range(3))
    steps = rng.normal(size=users)

    def carried() -> tuple[np.ndarray, np.ndarray]:
        own = z.copy(), variances.copy()
        kernels.carry_over_to_many(products.copy(), steps, *own)
        return own

    for found, expected in zip(carried(), in_numpy(carried), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


@examples
@given(seed=SEEDS, n=SIZES, d=DIMS, some=st.booleans())
def test_variances_of_some_items_are_those_of_all(seed: int, n: int, d: int, some: bool) -> None:
    rng = np.random.default_rng(seed)
    items, cov = rng.normal(size=(n, d)).astype(np.float32), covariances(rng, 1, d)[0]
    rows = rng.integers(n, size=7) if some else None
    found = kernels.variances_of(items, cov, rows)
    exact = np.einsum("nd,de,ne->n", items.astype(np.float64), cov, items.astype(np.float64))
    np.testing.assert_allclose(found, exact if rows is None else exact[rows], rtol=1e-4, atol=1e-4)


@examples
@given(seed=SEEDS, users=st.integers(1, 5), n=SIZES, k=st.integers(1, 70), nu=st.sampled_from([0.0, 0.5]))
def test_the_same_items_are_chosen(seed: int, users: int, n: int, k: int, nu: float) -> None:
    """Numbers in steps of 1/8, so that many scores are equal and rounding plays no part."""
    rng = np.random.default_rng(seed)
    levels = 8 if seed % 2 else 8_000
    means = (rng.integers(levels, size=(users, n)) / 8).astype(np.float32)
    variances = (rng.integers(4, size=(users, n)) ** 2).astype(np.float32)
    available = rng.random((users, n)) < 0.8
    k = min(k, n)
    available[:, :k] = True

    def chosen() -> tuple[np.ndarray, np.ndarray, float]:
        lots = np.random.default_rng(1)
        rows, scores = choosing.choose(means, variances if nu else None, available, nu, k, lots=lambda: lots)
        return rows, scores, lots.random()

    for found, expected in zip(chosen(), in_numpy(chosen), strict=True):
        np.testing.assert_array_equal(found, expected)
    rows, scores, _ = chosen()
    everything = np.where(available, means + np.float32(nu) * np.sqrt(variances), -np.inf)
    np.testing.assert_array_equal(scores, -np.sort(-everything, axis=1)[:, :k])
    np.testing.assert_array_equal(scores, np.take_along_axis(everything, rows, axis=1))
    of = means[0, rows[0]]
    ranks = [1 + int((means[0][available[0]] > mean).sum()) for mean in of]
    assert choosing.ranks_among(means[0], available[0], of) == ranks
    assert in_numpy(lambda: choosing.ranks_among(means[0], available[0], of)) == ranks


@pytest.mark.parametrize("model", [random_model(130, 5), two_channel_model(65, 3), ensemble_model(301, 4)])
def test_channels_are_combined_alike(model: Model) -> None:
    rng = np.random.default_rng(0)
    mixture, shape = Mixture.of(model), (20, model.n_items)
    z = [(40 * rng.normal(size=shape)).astype(np.float32) for _ in model.scored]
    z[0][0, 0], z[-1][0, 1] = 500.0, -500.0
    variances = [rng.random(shape).astype(np.float32) for _ in model.scored]
    found = mixture.expected(z), mixture.spread(z, variances)
    expected = in_numpy(lambda: (mixture.expected(z), mixture.spread(z, variances)))
    for ours, plain in zip(found, expected, strict=True):
        np.testing.assert_allclose(ours, plain, rtol=2e-5, atol=1e-7)


@pytest.mark.parametrize("model", [random_model(400, 6), two_channel_model(200, 3), ensemble_model(301, 4)])
def test_a_session_is_the_same_without_a_compiler(model: Model) -> None:
    def met() -> list[tuple[str, int, float]]:
        session = Recommender(model, Ucb(0.5), seed=3).session([("item-3", 5.0), ("item-9", None)])
        shown = []
        for number in range(25):
            first, *_ = session.recommend(4)
            shown.append((first.item_id, first.mean_rank, round(first.std, 4)))
            session.observe(first.item_id, [5.0, 1.0, None][number % 3])
        return shown

    assert met() == in_numpy(met)


def test_numbers_may_lie_anywhere_in_memory() -> None:
    model = ensemble_model(40, 3)
    channels = [
        replace(each, vectors=np.asfortranarray(each.vectors), noise_var=np.repeat(each.noise_var, 2)[::2])
        for each in model.channels
    ]
    scattered = Model(
        channels=channels,
        terms=model.terms,
        item_ids=model.item_ids,
        prior_mean=np.repeat(model.prior_mean, 2)[::2],
        prior_cov=np.asfortranarray(model.prior_cov),
    )
    belief = Belief(np.repeat(model.prior_mean, 2)[::2], np.asfortranarray(model.prior_cov)).updated(
        np.ones(6), 1.0, 1.0
    )
    forgetful = Recommender(scattered, forgetting=0.9)
    history = [("item-3", 5.0)]
    for session in (forgetful.session(), forgetful.session(history), forgetful.session(history, belief=belief)):
        for number in range(3):
            session.observe(session.recommend(2)[0].item_id, float(number))


def test_arrays_that_do_not_fit_together_are_refused_and_stay_as_they_are() -> None:
    compiled = kernels.compiled
    if compiled is None:
        return
    numbers, flags = np.ones(6), np.ones(6, dtype=np.bool_)
    floats, rows = np.ones(6, dtype=np.float32), np.zeros(6, dtype=np.int64)
    means, covs = np.ones((1, 2)), np.ones((1, 2, 2))
    pairs = np.ones((3, 2), dtype=np.float32)
    mixture = numbers[:1], flags[:1], flags[:1], np.array([0], np.uint8)
    one = (1.0,), (pairs,), (numbers[:3],), flags[:1]
    calls: list[tuple[Callable[..., Any], tuple[Any, ...]]] = [
        (
            compiled.absorb,
            (means, covs, 1, 1, numbers[:2], numbers[:1], numbers[:1], flags[:1], numbers[:2], numbers[:1]),
        ),
        (
            compiled.absorb,
            (means, covs, 0, 0, numbers[:2], numbers[:1], numbers[:1], flags[:1], numbers[:2], numbers[:1]),
        ),
        (
            compiled.absorb,
            (means, covs, 1, 0, numbers[:2], numbers[:1], numbers[:3], flags[:1], numbers[:2], numbers[:1]),
        ),
        (compiled.learn, (means[0], covs[0], 1, 0, *one, (), (), ())),
        (compiled.learn, (means[0], covs[0], 0, 3, *one, (), (), ())),
        (compiled.learn, (means[0], covs[0], 0, -1, *one, (), (), ())),
        (compiled.learn, (means[0], covs[0], 0, 0, *one, (pairs[:2],), (floats[:3],), (floats[:3],))),
        (compiled.learn, (means[0], covs[0], 0, 0, *one, (pairs,), (floats[:2],), (floats[:3],))),
        (compiled.learn, (means[0], covs[0], 0, 0, *one, (pairs,), (floats[:3],), ())),
        (compiled.learn, (means[0], covs[0], 0, 0, one[0], one[1], (), one[3], (), (), ())),
        (compiled.choose_by_bounds, (mixture, (), (), (), (), floats, flags, 0.5, 1, rows[:1], floats[:1], floats[:1])),
        (compiled.answer, (None, floats, floats[:5], flags, 0.5, 1)),
        (compiled.answer, (None, floats, floats, flags, 0.5, 7)),
        (compiled.carry_products, (floats, numbers[:2], floats[:5], floats)),
        (compiled.choose, (floats, None, flags, 0.0, 7, rows, floats, flags[:1])),
        (compiled.choose, (floats, None, flags, 0.0, 1, rows, floats, flags[:1])),
        (compiled.ranks, (floats, flags[:5], floats)),
        (compiled.combine, ((numbers[:1], flags[:1], flags[:1], np.array([9], np.uint8)), (floats,), None, floats)),
        (compiled.combine, ((numbers[:1], flags[:1], flags[:1], np.array([0], np.uint8)), (floats[:3],), None, floats)),
        (compiled.combine, ((numbers[:1], flags[:1], flags[:1], np.array([0], np.uint8)), (), None, floats)),
    ]
    for call, arguments in calls:
        with pytest.raises((ValueError, IndexError), match=r"holds|fit together|choose|channel|arrays|range"):
            call(*arguments)
    for array in (numbers, floats, means, covs):
        np.testing.assert_array_equal(array, np.ones_like(array))


def test_a_belief_far_from_its_prior_stays_a_covariance() -> None:
    rng = np.random.default_rng(0)
    belief = Belief(np.zeros(9), np.eye(9))
    for _ in range(2_000):
        belief = belief.updated(rng.normal(size=9), 1.0, 1e-3)
    np.testing.assert_array_equal(belief.cov, belief.cov.T)
    assert np.linalg.eigvalsh(belief.cov)[0] > 0
