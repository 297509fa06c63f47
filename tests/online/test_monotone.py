"""Monotone learning: over all kinds of models and values, better reactions never leave an item worse off.

`IGCF_CASES=10000 pytest tests/online/test_monotone.py` tries ten thousand random models instead of one thousand.
"""

import os
from dataclasses import replace

import numpy as np
import pytest

from igcf.arrays import FloatArray
from igcf.model import Channel, Model, Reward, Term
from igcf.model.usage import Calibration, Usage
from igcf.online import Recommender, ScoringEngine, Session, learned, prior_belief
from igcf.online.backend import NumpyBackend, loops
from igcf.online.learning import belief_from_history, monotone_learning

CASES = int(os.environ.get("IGCF_CASES", "1000"))
N_ITEMS = 6
TWIN = 5
"""Row of an item whose vectors and noise are those of row 0."""
KINDS = ("experts", "logistic", "satisfied", "linear-many", "implicit", "raw", "scaled")


def random_world(rng: np.random.Generator, kind: str) -> Model:
    """A model of one kind with random vectors, thresholds, prior, objective and calibration."""
    implicit = kind == "implicit"
    grades = [1.0] if implicit else sorted(rng.choice(np.arange(2.0, 8.0), rng.integers(1, 4), replace=False).tolist())
    line = float(rng.choice(grades))
    low, high = (1.0, 1.0) if implicit else (1.0, 7.0)
    size = float(rng.choice([0.1, 1.0, 3.0]))
    wide, deep = int(rng.integers(1, 5)), int(rng.integers(1, 5))
    may_like = not implicit and kind not in ("linear-many", "raw", "scaled")
    liking = float(rng.choice([0, 0.5, 0.9, 1])) if may_like else 0.0

    def channel(of: str, grade: float, width: int, *, logit: bool = False, start: int = 0) -> Channel:
        vectors = (rng.normal(size=(N_ITEMS, width)) * size).astype(np.float32)
        noise = np.exp(rng.normal(size=N_ITEMS)) * rng.choice([0.05, 0.5, 2.0])
        vectors[TWIN], noise[TWIN] = vectors[0], noise[0]
        reward = Reward(of, grade, low, high)  # type: ignore[arg-type]
        return Channel(vectors, noise, reward, "logit" if logit else "identity", start)

    if kind in ("raw", "scaled", "satisfied"):
        channels = [channel(kind, line, wide)]
        terms = [Term(1.0, (0,))]
    else:
        channels, terms = [], [Term(1.0, (0,))]
        if kind != "logistic":
            above = [grade for grade in grades if grade > line]
            channels = [channel("satisfied", line, wide), channel("exposed", line, wide)]
            channels += [channel("satisfied", grade, wide) for grade in above]
        if kind != "linear-many":
            first, start = len(channels), wide if channels else 0
            channels.append(channel("exposed", line, deep, logit=True, start=start))
            order = [line, *(grade for grade in grades if grade != line)]
            channels += [channel("liked", grade, deep, logit=True, start=start) for grade in order]
            seen_and_liked, liked = (first, first + 1), (first + 1,)
            if kind == "logistic":
                terms = [Term(1.0, seen_and_liked if liking == 0 else liked)]
            else:
                half = (1 - liking) / 2
                terms = [Term(half, (0,)), Term(half, seen_and_liked), Term(liking, liked)]
    dim = max(each.start + each.vectors.shape[1] for each in channels)
    root = rng.normal(size=(dim, dim))
    cov = root @ root.T / dim
    block = np.array([max(each.start for each in channels if each.start <= d) for d in range(dim)])
    cov[block[:, None] != block] = 0.0
    calibration = Calibration(float(rng.uniform(0.5, 1.5)), float(rng.normal() * 0.3), float(rng.uniform(0.4, 1.5)))
    kind_of_reward = kind if kind in ("raw", "scaled") else "satisfied"
    return Model(
        channels=channels,
        terms=terms,
        item_ids=[str(row) for row in range(N_ITEMS)],
        prior_mean=rng.normal(size=dim),
        prior_cov=cov,
        reward=Reward(kind_of_reward, line, low, high),  # type: ignore[arg-type]
        usage=Usage(objective="liking" if liking else "hit", calibration=calibration, is_ordered=True),
    )


def outcome(session: Session, row: int) -> FloatArray:
    """Expectation and chance of an item as a session tells them."""
    told = session.explain(session.model.item_ids[row])
    return np.array([told.mean, told.chance])


@pytest.mark.parametrize("kind", KINDS)
def test_a_better_reaction_never_leaves_an_item_worse_off(kind: str) -> None:
    rng = np.random.default_rng(KINDS.index(kind))
    for _ in range(-(-CASES // len(KINDS))):
        model = random_world(rng, kind)
        recommender = Recommender(model)
        row = int(rng.choice([0, 1, TWIN]))
        others_than_it = [each for each in range(N_ITEMS) if each != row]
        past = [
            (
                str(rng.choice(others_than_it)),
                None if rng.random() < 0.2 else float(rng.integers(1, 1 + int(model.reward.high))),
            )
            for _ in range(rng.integers(0, 4))
        ]
        twin = {0: TWIN, TWIN: 0}.get(row, row)
        before = outcome(recommender.session(past), row)
        steps = [0.5, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]
        values = [*(each for each in steps if model.reward.least <= each <= model.reward.high), None]
        own, same, chances = [], [], []
        for value in values:
            session = recommender.session([*past, (str(row), value)])
            own.append(outcome(session, row))
            same.append(outcome(session, twin))
        chances.append(recommender.session([*past, (str(row), values[int(rng.integers(len(values)))])]).chances())
        after, others = np.array(own[:-1]), np.array(same[:-1])
        tolerance = 1e-6 * max(1.0, float(np.abs(own).max()), float(np.abs(before).max()))
        assert (np.diff(after, axis=0) >= -tolerance).all(), "a higher value lowers the item itself"
        assert (np.diff(others, axis=0) >= -tolerance).all(), "a higher value lowers an item with the same vector"
        if model.objective == "liking" and monotone_learning(model) is not None:
            failures = after[np.array(values[:-1]) < model.reward.threshold]
            assert (failures <= before + tolerance).all(), "a failure raises the item"
            assert (own[-1] >= own[0] - tolerance).all(), "no reaction counts more against than the worst reaction"
        for chance, low, high in chances:
            assert ((low >= 0) & (low <= chance) & (chance <= high) & (high <= 1)).all()


@pytest.mark.parametrize("kind", KINDS)
def test_both_backends_count_a_reaction_as_the_same_class(kind: str) -> None:
    rng = np.random.default_rng(100 + KINDS.index(kind))
    for _ in range(60):
        model = random_world(rng, kind)
        monotone = monotone_learning(model)
        if monotone is None:
            continue
        belief = prior_belief(model)
        rows, classes = rng.integers(N_ITEMS, size=8), rng.integers(len(monotone.values) + 1, size=8)
        means, covs = np.tile(belief.mean, (8, 1)), np.tile(belief.cov, (8, 1, 1))
        args = monotone.rules, means, covs, rows, classes
        assert loops.counted_classes(*args).tolist() == NumpyBackend.counted_classes(*args).tolist()


@pytest.mark.parametrize("forgetting", [1.0, 0.9])
@pytest.mark.parametrize("kind", ["experts", "logistic", "satisfied", "linear-many"])
def test_a_history_gives_the_belief_of_its_reactions_one_by_one_also_after_one_is_taken_back(
    kind: str, forgetting: float
) -> None:
    rng = np.random.default_rng(7)
    for _ in range(10):
        model = random_world(rng, kind)
        model = used_for_liking(model)
        recommender = Recommender(model, forgetting=forgetting)
        one_by_one = recommender.session()
        rows = rng.permutation(N_ITEMS)[:12]
        values = [None if rng.random() < 0.2 else float(rng.integers(1, 8)) for _ in rows]
        belief = prior_belief(model)
        for row, value in zip(rows, values, strict=True):
            one_by_one.observe(str(row), value)
            number = np.nan if value is None else value
            belief = learned(belief.decayed(prior_belief(model), forgetting), model, int(row), number)
        at_once = recommender.session([(str(row), value) for row, value in zip(rows, values, strict=True)])
        for found in (at_once.belief, belief):
            np.testing.assert_allclose(found.mean, one_by_one.belief.mean, atol=1e-8)
            np.testing.assert_allclose(found.cov, one_by_one.belief.cov, atol=1e-8)
        one_by_one.undo()
        shorter = recommender.session([(str(row), value) for row, value in zip(rows[:-1], values[:-1], strict=True)])
        np.testing.assert_allclose(one_by_one.belief.mean, shorter.belief.mean, atol=1e-8)


def test_users_in_lock_step_learn_as_each_of_them_alone() -> None:
    rng = np.random.default_rng(3)
    for _ in range(20):
        model = used_for_liking(random_world(rng, "experts"))
        engine = ScoringEngine(model, 5)
        rows = rng.integers(N_ITEMS, size=(6, 5))
        values = rng.choice([np.nan, 1.0, 3.0, 5.0, 7.0], size=(6, 5))
        for own_rows, own_values in zip(rows, values, strict=True):
            engine.observe(own_rows, own_values)
        for user in range(5):
            alone = belief_from_history(model, rows[:, user].tolist(), values[:, user].tolist(), 1.0)
            np.testing.assert_allclose(engine.belief(user).mean, alone.mean, atol=1e-8)
            np.testing.assert_allclose(engine.belief(user).cov, alone.cov, atol=1e-8)


def test_without_the_rule_a_failure_can_raise_an_item() -> None:
    rng = np.random.default_rng(5)
    raised = 0
    for _ in range(50):
        model = used_for_liking(random_world(rng, "experts"))
        engine = ScoringEngine(model, dtype=np.float64)
        engine._monotone = None
        before = float(engine.means[0, 0])
        engine.observe_one(0, 1.0)
        raised += float(engine.means[0, 0]) > before + 1e-6
    assert raised > 0


def used_for_liking(model: Model) -> Model:
    """The same model with the objective liking."""
    return model.changed(usage=replace(model.usage, objective="liking"))
