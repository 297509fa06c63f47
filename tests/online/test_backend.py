"""The native loops beside the same in NumPy: random inputs, odd sizes, one item, d = 1, ties, nothing revealed."""

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import zlib
from collections.abc import Callable, Iterable
from dataclasses import replace
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from igcf.model import Model
from igcf.model.usage import Usage
from igcf.online import Belief, Recommender, Ucb, backend
from igcf.online.backend import NumpyBackend
from igcf.online.backend.numpy_beliefs import update_in_turn
from igcf.online.backend.types import Block, Channels, Evidence, Mixture, Moments
from igcf.online.learning import belief_from_history
from tests.toys import ensemble_model, random_model, two_channel_model

NATIVE = Path(__file__).parents[2] / "src/igcf/online/backend/native"
SIZES = st.sampled_from([1, 2, 3, 4, 5, 63, 64, 65, 301])
DIMS = st.sampled_from([1, 2, 3, 4, 5, 8, 13, 64, 65])
SEEDS = st.integers(0, 10_000)
examples = settings(max_examples=60, deadline=None)


native = backend.loops
"""The native loops where they were compiled; without a compiler these tests compare NumPy with itself."""
plain = NumpyBackend()
BACKENDS = (native, plain)
NO_LOGIT = np.zeros(1, dtype=np.bool_)


def in_numpy(compute: Callable[[], Any]) -> Any:
    """What `compute` gives where nothing was compiled."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("igcf.online.backend.loops", plain)
        return compute()


def covariances(rng: np.random.Generator, n: int, d: int) -> np.ndarray:
    roots = rng.normal(size=(n, d, d))
    return roots @ np.swapaxes(roots, 1, 2) / d


needs_compiler = pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler")
needs_native = pytest.mark.skipif(
    backend.loops.name != "native",
    reason="the native loops are not built: run `make setup`, or `python setup.py build_ext --inplace`",
)


@needs_compiler
def test_where_there_is_a_compiler_the_native_loops_are_used() -> None:
    """Without one they may be there or not: a wheel brings them, an installation from source cannot make them."""
    expected = "numpy" if os.environ.get("IGCF_COMPILED") == "0" else "native"
    assert backend.loops.name == expected, "not built: run `python setup.py build_ext --inplace` or `make setup`"


@needs_native
@pytest.mark.parametrize("outdated", [lambda: backend.INTERFACE - 1, None], ids=["an older number", "no number"])
def test_loops_of_another_interface_are_not_used_and_the_warning_says_how_to_rebuild_them(
    outdated: Callable[[], int] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = import_module("igcf.online.backend._native")
    monkeypatch.delattr(calls, "interface")
    if outdated is not None:
        monkeypatch.setattr(calls, "interface", outdated, raising=False)
    with pytest.warns(
        RuntimeWarning, match=r"outdated: interface 0, expected 1; .*python setup.py build_ext --inplace"
    ):
        assert backend._chosen().name == "numpy"


def test_the_number_of_the_interface_follows_the_arguments_of_the_c_functions() -> None:
    source = "".join(file.read_text() for file in sorted(NATIVE.glob("*.[ch]")))
    arguments = ",".join(re.findall(r'(?:PyArg_ParseTuple\(\w+, |^    \{)"(.+?)"', source, re.MULTILINE))
    known = {1: 421880172}
    assert known[backend.INTERFACE] == zlib.crc32(arguments.encode()), (
        "raise INTERFACE in C and Python, and list it here"
    )
    assert f"#define INTERFACE {backend.INTERFACE}\n" in source


def test_the_environment_can_ask_for_numpy() -> None:
    code = "from igcf.online import backend; print(backend.loops.name)"
    asked = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "IGCF_COMPILED": "0"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert asked.stdout.strip() == "numpy"


def evidence(rng: np.random.Generator, n: int, d: int, logits: float) -> Evidence:
    is_logit = rng.random(n) < logits
    rewards = np.where(rng.random(n) < 0.2, np.nan, np.where(is_logit, rng.random(n) < 0.5, rng.normal(size=n)))
    return Evidence(rng.normal(size=(n, d)), rewards, rng.uniform(0.2, 2.0, n), is_logit)


def at(reactions: Evidence, number: int) -> Evidence:
    x, rewards, noise, is_logit = reactions
    one = slice(number, number + 1)
    return Evidence(x[one], rewards[one], noise[one], is_logit[one])


@examples
@given(seed=SEEDS, n=st.integers(1, 12), d=DIMS, rest=st.integers(0, 5))
def test_beliefs_of_many_users_are_updated_alike(seed: int, n: int, d: int, rest: int) -> None:
    """One reaction of each of n users, about a block in the middle of the users' vectors."""
    rng = np.random.default_rng(seed)
    means, covs = rng.normal(size=(n, d + rest)), covariances(rng, n, d + rest)
    reactions = evidence(rng, n, d, 0.5)

    def updated(loops: NumpyBackend) -> tuple[np.ndarray, ...]:
        own = means.copy(), covs.copy()
        return *own, *loops.update_beliefs(*own, rest // 2, reactions)

    for found, expected in zip(updated(native), updated(plain), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)
    np.testing.assert_array_equal(updated(native)[1], np.swapaxes(updated(native)[1], 1, 2))


@examples
@given(seed=SEEDS, n=st.integers(1, 80), d=DIMS, rest=st.integers(0, 5), logits=st.sampled_from([0.0, 0.5, 1.0]))
def test_a_history_gives_the_belief_of_its_reactions_in_turn(
    seed: int, n: int, d: int, rest: int, logits: float
) -> None:
    """Fewer and more reactions than dimensions, linear, logistic and mixed, some revealing nothing."""
    rng = np.random.default_rng(seed)
    mean, cov, start = rng.normal(size=d + rest), covariances(rng, 1, d + rest)[0], rest // 2
    reactions = evidence(rng, n, d, logits)
    in_turn = mean[None].copy(), cov[None].copy()
    for number in range(n):
        plain.update_beliefs(*in_turn, start, at(reactions, number))
    for is_native in (False, *(True,) * (native.name == "native")):
        own, span = (mean.copy(), cov.copy()), slice(start, start + d)
        if is_native:
            native.update_beliefs(own[0][None], own[1][None], start, reactions)
        else:
            update_in_turn(own[0][span], own[1][span, span], reactions)
        np.testing.assert_allclose(own[0], in_turn[0][0], rtol=1e-8, atol=1e-8)
        np.testing.assert_allclose(own[1], in_turn[1][0], rtol=1e-8, atol=1e-8)
        np.testing.assert_array_equal(own[1], own[1].T)


@examples
@given(seed=SEEDS, n=st.integers(1, 40), dim=DIMS, make=st.sampled_from([two_channel_model, ensemble_model]))
@pytest.mark.parametrize("is_monotone", [False, True])
def test_a_history_is_learned_alike(seed: int, n: int, dim: int, make: Callable[..., Model], is_monotone: bool) -> None:
    """Channels that share a block or not, items that come again, reactions that reveal nothing or count less."""
    rng = np.random.default_rng(seed)
    model = make(30, dim, seed=seed)
    model = model.changed(usage=Usage(is_ordered=is_monotone))
    rows, values = rng.integers(30, size=n).tolist(), rng.choice([1.0, 3.0, 4.0, 5.0, np.nan], size=n).tolist()
    forgetting = 1.0 if is_monotone else float(rng.choice([1.0, 0.9]))

    def learned() -> Belief:
        return belief_from_history(model, rows, values, forgetting)

    found, expected = learned(), in_numpy(learned)
    np.testing.assert_allclose(found.mean, expected.mean, rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(found.cov, expected.cov, rtol=1e-8, atol=1e-8)
    np.testing.assert_array_equal(found.cov, found.cov.T)


@examples
@given(seed=SEEDS, n=SIZES, d=DIMS, k=st.integers(1, 9))
def test_moments_of_a_few_items_are_alike(seed: int, n: int, d: int, k: int) -> None:
    rng = np.random.default_rng(seed)
    items, mean, rows = rng.normal(size=(n, d)).astype(np.float32), rng.normal(size=d), rng.integers(n, size=k)
    [cov] = covariances(rng, 1, d)
    x = items[rows].astype(np.float64)
    for loops in BACKENDS:
        means, variances = loops.moments_at(items, rows, mean, cov)
        np.testing.assert_allclose(means, x @ mean, rtol=1e-4, atol=1e-4)
        np.testing.assert_allclose(variances, np.einsum("nd,de,ne->n", x, cov, x), rtol=1e-3, atol=1e-4)


@examples
@given(seed=SEEDS, n=SIZES, d=DIMS, k=st.integers(0, 9))
def test_sums_over_items_are_alike(seed: int, n: int, d: int, k: int) -> None:
    rng = np.random.default_rng(seed)
    items, user = rng.normal(size=(n, d)).astype(np.float32), rng.normal(size=d).astype(np.float32)
    rows, amounts = rng.integers(n, size=k), rng.normal(size=k)
    noise = rng.uniform(0.5, 2.0, n)
    for loops in BACKENDS:
        np.testing.assert_allclose(loops.multiply(items, user), items @ user, rtol=1e-4, atol=1e-4)
        information = np.ones(d)
        loops.add_information(items, noise, rows, amounts, information)
        expected = 1.0 + (amounts / noise[rows]) @ items[rows].astype(np.float64)
        np.testing.assert_allclose(information, expected, rtol=1e-10, atol=1e-10)


def test_a_history_about_a_direction_known_for_certain_leaves_it_certain() -> None:
    for loops in BACKENDS:
        for n in (2, 9):
            mean, cov = np.array([1.0, 0.0, 0.0]), np.diag([0.0, 1.0, 2.0])
            rng = np.random.default_rng(n)
            reactions = evidence(rng, n, 3, 0.0)
            channels = Channels(np.zeros(1, np.int64), (reactions.x.astype(np.float32),), (reactions.noise,), NO_LOGIT)
            loops.learn(mean, cov, channels, np.arange(n), reactions.rewards[:, None], None)
            np.testing.assert_allclose(mean[0], 1.0, atol=1e-12)
            np.testing.assert_allclose(cov[0], 0.0, atol=1e-12)
            assert np.linalg.eigvalsh(cov[1:, 1:])[0] > 0


@examples
@given(seed=SEEDS, n=SIZES, d=DIMS, channels=st.integers(1, 4), scored=st.integers(0, 3))
def test_a_reaction_is_carried_over_to_all_items_alike(seed: int, n: int, d: int, channels: int, scored: int) -> None:
    """Two blocks of the user's vector, the first of which has two channels and one that is scored."""
    rng = np.random.default_rng(seed)
    mean, cov = rng.normal(size=d + 4), covariances(rng, 1, d + 4)[0]
    row, starts, items = int(rng.integers(n)), (1, *(4,) * scored), random_items(rng, n, 3, 1)
    items += random_items(rng, n, d, scored)
    blocks = (
        random_block(rng, 1, random_items(rng, n, 3, 2), items[:1], (0,)),
        random_block(rng, 4, random_items(rng, n, d, channels), items[1:], range(1, scored + 1)),
    )
    rewards = tuple(tuple(rng.choice([0.0, 1.0, np.nan], size=len(block.vectors)).tolist()) for block in blocks)
    before = belief_moments(mean, cov, starts, items)

    def learned(loops: NumpyBackend) -> tuple[np.ndarray, ...]:
        own, z, variances = (mean.copy(), cov.copy()), *(tuple(each.copy() for each in part) for part in before)
        loops.observe_and_rescore(*own, row, blocks, rewards, Moments(z, variances))
        return *own, *z, *variances

    found = learned(native)
    for ours, theirs in zip(found, learned(plain), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5)
    z, variances = belief_moments(found[0], found[1], starts, items)
    for ours, exact in zip(found[2:], [*z, *variances], strict=True):
        np.testing.assert_allclose(ours, exact, rtol=1e-3, atol=1e-4)


def random_items(rng: np.random.Generator, n: int, d: int, channels: int) -> tuple[np.ndarray, ...]:
    return tuple(rng.normal(size=(n, d)).astype(np.float32) / np.float32(np.sqrt(d)) for _ in range(channels))


def random_block(
    rng: np.random.Generator,
    start: int,
    vectors: tuple[np.ndarray, ...],
    items: tuple[np.ndarray, ...],
    places: Iterable[int],
) -> Block:
    noise = tuple(rng.uniform(0.2, 2.0, len(each)) for each in vectors)
    return Block(start, vectors, noise, rng.random(len(vectors)) < 0.5, items, tuple(places))


def belief_moments(
    mean: np.ndarray, cov: np.ndarray, starts: tuple[int, ...], items: tuple[np.ndarray, ...]
) -> list[tuple[np.ndarray, ...]]:
    """Means and variances of the items of each channel, whose vectors begin at a dimension of the user's vector."""
    spans = [slice(start, start + each.shape[1]) for start, each in zip(starts, items, strict=True)]
    pairs = list(zip(spans, items, strict=True))
    z = tuple((each @ mean[span]).astype(np.float32) for span, each in pairs)
    variances = (np.einsum("nd,de,ne->n", each, cov[span, span], each) for span, each in pairs)
    return [z, tuple(each.astype(np.float32) for each in variances)]


@examples
@given(seed=SEEDS, users=st.integers(1, 40), n=SIZES)
def test_products_of_many_users_are_carried_over_alike(seed: int, users: int, n: int) -> None:
    rng = np.random.default_rng(seed)
    products, z, variances = (rng.random((users, n)).astype(np.float32) for _ in range(3))
    steps = rng.normal(size=users)

    def carried(loops: NumpyBackend) -> tuple[np.ndarray, np.ndarray]:
        own = z.copy(), variances.copy()
        loops.rescore_users(products.copy(), steps, *own)
        return own

    for found, expected in zip(carried(native), carried(plain), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


@examples
@given(seed=SEEDS, n=SIZES, d=DIMS, some=st.booleans())
def test_variances_of_some_items_are_those_of_all(seed: int, n: int, d: int, some: bool) -> None:
    rng = np.random.default_rng(seed)
    items, cov = rng.normal(size=(n, d)).astype(np.float32), covariances(rng, 1, d)[0]
    rows = rng.integers(n, size=7) if some else None
    found = native.variances_of(items, cov, rows)
    exact = np.einsum("nd,de,ne->n", items.astype(np.float64), cov, items.astype(np.float64))
    np.testing.assert_allclose(found, exact if rows is None else exact[rows], rtol=1e-4, atol=1e-4)


@examples
@given(seed=SEEDS, users=st.integers(1, 5), n=SIZES, k=st.integers(1, 70))
def test_the_same_items_are_chosen(seed: int, users: int, n: int, k: int) -> None:
    """Numbers in steps of 1/8, so that many scores are equal and rounding plays no part."""
    rng = np.random.default_rng(seed)
    given = (rng.integers(8 if seed % 2 else 8_000, size=(users, n)) / 8).astype(np.float32)
    available = rng.random((users, n)) < 0.8
    k = min(k, n)
    available[:, :k] = True

    def chosen(loops: NumpyBackend) -> tuple[np.ndarray, np.ndarray, float]:
        rng = np.random.default_rng(1)
        rows, scores = loops.select_users(given, available, k, lambda: rng)
        return rows, scores, rng.random()

    for found, expected in zip(chosen(native), chosen(plain), strict=True):
        np.testing.assert_array_equal(found, expected)
    rows, scores, _ = chosen(native)
    everything = np.where(available, given, -np.inf)
    np.testing.assert_array_equal(scores, -np.sort(-everything, axis=1)[:, :k])
    np.testing.assert_array_equal(scores, np.take_along_axis(everything, rows, axis=1))
    above = [int((given[0][available[0]] > score).sum()) for score in scores[0]]
    for loops in BACKENDS:
        assert loops.count_above(given[0], available[0], scores[0]).tolist() == above


@pytest.mark.parametrize("model", [random_model(130, 5), two_channel_model(65, 3), ensemble_model(301, 4)])
def test_channels_are_combined_alike(model: Model) -> None:
    rng = np.random.default_rng(0)
    mixture, shape = Mixture.from_model(model), (20, model.n_items)
    z = tuple((40 * rng.normal(size=shape)).astype(np.float32) for _ in model.scored)
    z[0][0, 0], z[-1][0, 1] = 500.0, -500.0
    variances = tuple(rng.random(shape).astype(np.float32) for _ in model.scored)
    found, expected = (
        (loops.expected_rewards(mixture, z), loops.reward_variances(mixture, z, variances)) for loops in BACKENDS
    )
    for ours, theirs in zip(found, expected, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=2e-5, atol=1e-7)


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


@pytest.mark.parametrize("warm", ["fresh", "history", "belief"])
def test_numbers_may_lie_anywhere_in_memory(warm: str) -> None:
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
        reward=model.reward,
    )

    def played(own: Model, mean: np.ndarray, cov: np.ndarray) -> list[tuple[str, float]]:
        belief = Belief(mean, cov).updated(np.ones(6), 1.0, 1.0)
        session = Recommender(own, forgetting=0.9).session(
            [] if warm == "fresh" else [("item-3", 5.0)], belief=belief if warm == "belief" else None
        )
        shown = []
        for value in (1.0, 5.0, 2.0):
            first = session.recommend(2)[0]
            session.observe(first.item_id, value)
            shown.append((first.item_id, first.score))
        return shown

    anywhere = played(scattered, np.repeat(model.prior_mean, 2)[::2], np.asfortranarray(model.prior_cov))
    assert anywhere == played(model, model.prior_mean, model.prior_cov)


@needs_native
def test_arrays_that_do_not_fit_together_are_refused_and_stay_as_they_are() -> None:
    calls = import_module("igcf.online.backend._native")
    numbers, flags = np.ones(6), np.ones(6, dtype=np.bool_)
    floats, rows = np.ones(6, dtype=np.float32), np.zeros(6, dtype=np.int64)
    means, covs = np.ones((1, 2)), np.ones((1, 2, 2))
    pairs = np.ones((3, 2), dtype=np.float32)
    mixture = numbers[:1], flags[:1], flags[:1], np.array([0], np.uint8)
    far_block = numbers[:1], flags[:1], flags[:1], np.array([9], np.uint8)
    one = (1.0,), (pairs,), (numbers[:3],), flags[:1]
    belief, block = (means[0], covs[0]), (0, *one[1:], (pairs,), (0,))
    moments = (floats[:3],), (floats[:3],)
    reaction = numbers[:2], numbers[:1], numbers[:1], flags[:1], numbers[:2], numbers[:1]
    item = np.ones((6, 1), np.float32)
    nowhere, empty = np.ones((3, 0), np.float32), np.ones(0)  # vectors without a dimension
    refused: list[tuple[Callable[..., Any], tuple[Any, ...]]] = [
        (calls.update_beliefs, (means, covs, 1, 1, *reaction)),
        (calls.update_beliefs, (means, covs, 0, 0, *reaction)),
        (calls.update_beliefs, (means, covs, 1, 0, numbers[:2], numbers[:1], numbers[:3], *reaction[3:])),
        (calls.update_beliefs, (means, covs, 1, 0, numbers[:3], numbers[:2], numbers[:2], *reaction[3:])),
        (calls.learn, (*belief, (rows[:1], *one[1:]), rows[:2] - 1, numbers[:2], None)),
        (calls.learn, (*belief, (rows[:1], *one[1:]), rows[:2] + 3, numbers[:2], None)),
        (calls.learn, (*belief, (rows[:1] + 1, *one[1:]), rows[:2], numbers[:2], None)),
        (calls.learn, (*belief, (rows[:1], *one[1:]), rows[:2], numbers[:3], None)),
        (calls.learn, (*belief, (rows[:1], *one[1:]), rows[:2], numbers[:2], numbers[:1])),
        (calls.learn, (*belief, (rows[:1], (), *one[2:]), rows[:2], numbers[:2], None)),
        (calls.multiply, (pairs, floats[:3], floats[:3])),
        (calls.add_information, (pairs, numbers[:3], rows[:2] + 3, numbers[:2], numbers[:2].copy())),
        (calls.add_information, (pairs, numbers[:3], rows[:2], numbers[:3], numbers[:2].copy())),
        (calls.add_information, (pairs, numbers[:2], rows[:2], numbers[:2], numbers[:2].copy())),
        (calls.moments_at, (pairs, rows[:2] + 3, numbers[:2], item, floats[:2], floats[:2])),
        (calls.moments_at, (pairs, rows[:2], numbers[:2], item, floats[:3], floats[:2])),
        (calls.moments_at, (pairs, rows[:2], numbers[:3], item, floats[:2], floats[:2])),
        (calls.observe_and_rescore, (*belief, 0, ((1, *one[1:], (), ()),), one[:1], (), ())),
        (calls.observe_and_rescore, (*belief, 3, ((0, *one[1:], (), ()),), one[:1], (), ())),
        (calls.observe_and_rescore, (*belief, -1, ((0, *one[1:], (), ()),), one[:1], (), ())),
        (calls.observe_and_rescore, (*belief, 0, ((0, *one[1:], (), ()),), (), (), ())),
        (calls.observe_and_rescore, (*belief, 0, (), (), (), ())),
        (calls.observe_and_rescore, (*belief, 0, (block,) * 9, one[:1] * 9, (), ())),
        (calls.observe_and_rescore, (*belief, 0, (block,), one[:1], (floats[:2],), (floats[:3],))),
        (calls.observe_and_rescore, (*belief, 0, (block,), one[:1], (floats[:3],), ())),
        (calls.observe_and_rescore, (*belief, 0, ((*block[:4], (pairs[:2],), (0,)),), one[:1], *moments)),
        (calls.observe_and_rescore, (*belief, 0, ((*block[:4], (), (0,)),), one[:1], *moments)),
        (calls.observe_and_rescore, (*belief, 0, ((*block[:4], (pairs,), (1,)),), one[:1], *moments)),
        (calls.observe_and_rescore, (*belief, 0, ((*block[:4], (pairs,), (-1,)),), one[:1], *moments)),
        (calls.observe_and_rescore, (*belief, 0, ((*block[:4], (pairs, pairs), (0, 0)),), one[:1], *moments)),
        (calls.observe_and_rescore, (*belief, 0, ((0, one[1], (), *block[3:]),), one[:1], *moments)),
        (calls.observe_and_rescore, (*belief, 0, ((0, (floats,), *block[2:]),), one[:1], *moments)),
        (calls.observe_and_rescore, (*belief, 0, (block, (0, (pairs[:2],), *block[2:])), one[:1] * 2, *moments)),
        (calls.observe_and_rescore, (*belief, 0, ((2, (nowhere,), *block[2:4], (nowhere,), (0,)),), one[:1], *moments)),
        (calls.find_mode, ((), (), empty, 1.0, nowhere, floats[:3], *[empty] * 6, 3.0, 1)),
        (calls.rescore_users, (floats, numbers[:2], floats[:5], floats)),
        (calls.rescore_users, (floats[:5], numbers[:2], floats, floats)),
        (calls.select_users, (floats, flags, 7, rows, floats, flags[:1])),
        (calls.select_users, (floats, flags, 1, rows, floats, flags[:1])),
        (calls.select_users, (floats[:5], flags, 1, rows[:1], floats[:1], flags[:1])),
        (calls.count_above, (floats, flags[:5], floats[:1], rows[:1])),
        (calls.count_above, (floats, flags, floats[:2], rows[:1])),
        (calls.combine, (far_block, (floats,), None, floats)),
        (calls.combine, (mixture, (floats[:3],), None, floats)),
        (calls.combine, (mixture, (), None, floats)),
    ]
    for call, arguments in refused:
        with pytest.raises(ValueError, match=r"holds|fit together|select|channel|arrays"):
            call(*arguments)
    for array in (numbers, floats, means, covs):
        np.testing.assert_array_equal(array, np.ones_like(array))


@needs_native
def test_arrays_of_another_type_or_order_are_refused() -> None:
    calls = import_module("igcf.online.backend._native")
    flags, floats, numbers = np.ones(6, dtype=np.bool_), np.ones(6, dtype=np.float32), np.ones(6)
    half_as_many = np.ones(3)  # as many bytes as `floats`
    mixture = numbers[:1], flags[:1], flags[:1], np.array([0], np.uint8)
    refused: list[tuple[Callable[..., Any], tuple[Any, ...], str]] = [
        (calls.count_above, (half_as_many, flags, floats, numbers), "means holds numbers of format 'd', expected 'f'"),
        (calls.count_above, (floats, flags, floats, numbers), "counts holds numbers of format 'd', expected 'q'"),
        (calls.combine, (mixture, (floats,), None, half_as_many), "result holds numbers of format 'd'"),
        (calls.combine, ((floats[:2], *mixture[1:]), (floats,), None, floats), "weights holds numbers of format 'f'"),
        (calls.rescore_users, (floats, floats[:2], floats, floats), "steps holds numbers of format 'f'"),
        (
            calls.select_users,
            (floats, flags, 1, numbers[:1], floats[:1].copy(), flags[:1].copy()),
            "rows holds numbers of format 'd', expected 'q'",
        ),
    ]
    for call, arguments, message in refused:
        with pytest.raises(TypeError, match=message):
            call(*arguments)
    with pytest.raises((ValueError, BufferError), match="contiguous"):
        calls.count_above(np.ones(12, dtype=np.float32)[::2], flags, floats[:1], np.ones(1, np.int64))
    fixed = np.ones(6, dtype=np.float32)
    fixed.setflags(write=False)
    with pytest.raises((ValueError, BufferError), match="read-only"):
        calls.combine(mixture, (floats,), None, fixed)


@pytest.mark.slow
@needs_native
@needs_compiler
@pytest.mark.parametrize("define", ["IGCF_ONE_VERSION", "IGCF_PLAIN_LOOPS"])
def test_other_platforms_and_compilers_get_the_same_numbers(define: str, tmp_path: Path) -> None:
    """One version of each function, as where the C library is not glibc; loops without shuffles of vectors."""
    source = NATIVE / "module.c"
    target, include = tmp_path / "_native.abi3.so", sysconfig.get_paths()["include"]
    build = ["cc", "-O2", "-fPIC", "-shared", f"-D{define}", f"-I{include}", str(source), "-o", str(target), "-lm"]
    subprocess.run(build, check=True, capture_output=True)
    specification = spec_from_file_location("_native", target)
    assert specification is not None
    assert specification.loader is not None
    other = module_from_spec(specification)
    specification.loader.exec_module(other)
    rng = np.random.default_rng(0)
    usual = import_module("igcf.online.backend._native")
    for n_items, d, channels in ((1, 1, 1), (65, 3, 2), (130, 17, 3), (301, 33, 7)):
        vectors = tuple(rng.normal(size=(n_items, d)).astype(np.float32) for _ in range(channels))
        block = 0, vectors, (np.ones(n_items),) * channels, rng.random(channels) < 0.5, vectors[:1], (0,)
        mean, cov = rng.normal(size=d), covariances(rng, 1, d)[0]
        z, variances = vectors[0] @ mean.astype(np.float32), np.full(n_items, 9.0, dtype=np.float32)
        found = []
        for module in (usual, other):
            own = mean.copy(), cov.copy(), z.copy(), variances.copy()
            module.observe_and_rescore(own[0], own[1], 0, (block,), ((1.0,) * channels,), (own[2],), (own[3],))
            found.append(own)
        for one, two in zip(*found, strict=True):
            np.testing.assert_allclose(one, two, rtol=1e-4, atol=1e-4)
        assert not np.array_equal(found[0][2], z)


def test_a_belief_far_from_its_prior_stays_a_covariance() -> None:
    rng = np.random.default_rng(0)
    belief = Belief(np.zeros(9), np.eye(9))
    for _ in range(2_000):
        belief = belief.updated(rng.normal(size=9), 1.0, 1e-3)
    np.testing.assert_array_equal(belief.cov, belief.cov.T)
    assert np.linalg.eigvalsh(belief.cov)[0] > 0
