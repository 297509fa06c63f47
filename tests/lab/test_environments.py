"""The environments behave as gymnasium asks, and as the protocols say."""

from dataclasses import replace
from functools import cache
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from igcf.data import Interactions, synthetic_catalogue
from igcf.errors import ConfigError
from igcf.lab.baselines import method_named
from igcf.lab.environments import KINDS, LogVectorEnv
from igcf.lab.evaluate import evaluate, setup_for
from igcf.lab.evaluate.protocols import Job

SIZES: dict[str, dict[str, int]] = {"Slate": {"rounds": 4}, "Observed": {"rounds": 4}}


@cache
def log() -> Interactions:
    return replace(synthetic_catalogue(n_users=450, n_items=60), name="small")


def options(kind: str) -> dict[str, Any]:
    return {"dataset": log(), "rounds": 6, **SIZES.get(kind, {})}


def vector(kind: str, n: int, **more: Any) -> LogVectorEnv:
    return LogVectorEnv(n, kind=kind, **{**options(kind), **more})


@pytest.mark.parametrize("split", ["train", "validation", "test"])
@pytest.mark.parametrize("kind", KINDS)
def test_gymnasium_s_own_check_passes(kind: str, split: str) -> None:
    check_env(gymnasium.make(f"igcf/{kind}-v0", split=split, **options(kind)).unwrapped)


@pytest.mark.parametrize("kind", KINDS)
def test_make_vec_is_native_and_its_observations_lie_in_their_space(kind: str) -> None:
    envs = gymnasium.make_vec(f"igcf/{kind}-v0", num_envs=5, split="test", **options(kind))
    assert isinstance(envs, LogVectorEnv)
    observation, info = envs.reset(seed=1)
    assert observation in envs.observation_space
    assert len(set(info["user"].tolist())) == 5
    while True:
        action = info["available"].argmax(axis=1)
        slate = envs.setup.sessions[0].slate
        actions = action if slate == 1 else np.argsort(~info["available"], axis=1, kind="stable")[:, :slate]
        observation, reward, over, truncated, info = envs.step(actions)
        assert observation in envs.observation_space
        assert not truncated.any()
        assert ((reward > 0) == info["satisfied"].any(axis=1)).all()
        if over.all():
            break
    assert (observation["rows"] >= 0).all()
    observation, reward, over, _, info = envs.step(actions)  # the next step is a reset
    assert (observation["rows"] == -1).all()
    assert not reward.any()
    assert not over.any()
    assert info["round"].tolist() == [0] * 5


def test_one_user_alone_is_the_same_as_among_others() -> None:
    envs, one = vector("ColdStart", 4, split="test"), gymnasium.make("igcf/ColdStart-v0", split="test", **options(""))
    users, rng = [3, 0, 5, 2], np.random.default_rng(0)
    actions = rng.permuted(np.tile(np.arange(60), (4, 1)), axis=1)[:, :6]
    envs.reset(options={"users": users})
    together = np.array([envs.step(actions[:, t])[1] for t in range(6)]).T
    for place, user in enumerate(users):
        one.reset(options={"user": user})
        np.testing.assert_array_equal(together[place], [one.step(int(actions[place, t]))[1] for t in range(6)])


def test_a_seed_fixes_the_users_and_everybody_comes_before_anybody_comes_twice() -> None:
    n = vector("ColdStart", 1, split="test").n_users
    envs = vector("ColdStart", n, split="test")
    first, again = (envs.reset(seed=7)[1]["user"] for _ in range(2))
    np.testing.assert_array_equal(first, again)
    assert sorted(first.tolist()) == list(range(n))
    assert envs.reset(seed=8)[1]["user"].tolist() != first.tolist()


def test_what_was_shown_or_stands_twice_in_a_slate_draws_no_reaction() -> None:
    envs = vector("Slate", 3, split="test")
    _, info = envs.reset(seed=0)
    rows = np.argsort(-np.nan_to_num(envs.task.train.dense()).sum(axis=0))[:3]
    envs.step(np.tile(rows, (3, 1)))
    observation, reward, *_ = envs.step(np.tile(rows, (3, 1)))
    assert not reward.any()
    assert not observation["reacted"][:, 1].any()
    observation, *_, info = envs.step(np.full((3, 3), 40))
    assert not observation["reacted"][:, 2, 1:].any()
    assert not info["available"][:, 40].any()


def test_only_what_a_user_reacted_to_is_available_where_only_that_is_observed() -> None:
    envs = vector("Observed", 4, split="test")
    _, info = envs.reset(seed=0)
    for _ in range(4):
        observation, *_, info = envs.step(info["available"].argmax(axis=1))
    assert observation["reacted"].all()


def test_nothing_is_given_of_new_items_and_train_are_the_users_who_arrive() -> None:
    envs = vector("NewItems", 1, split="train")
    test = setup_for(log(), "new-items", rounds=6)
    case = test.protocol.prepare(log(), test, 0, "test")
    is_new = case.is_new  # type: ignore[attr-defined]
    assert not is_new[envs.task.train.item_idx].any()
    assert envs.task.train.n_items == 60
    assert envs.n_users == case.arriving.n_users  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("kind", "protocol"), [(kind, name) for kind, (name, _) in KINDS.items() if kind != "NewItems"]
)
def test_a_table_is_equal_to_the_last_digit_when_it_is_remade_step_by_step(kind: str, protocol: str) -> None:
    """`pca-gp` through gymnasium's interface, beside `igcf evaluate`."""
    shape = {name: value for name, value in options(kind).items() if name != "dataset"}
    setup = setup_for(log(), protocol, slate=KINDS[kind][1], **shape)
    method = method_named("pca-gp")
    row = evaluate(log(), setup, ["pca-gp"]).rows[0]
    envs = vector(kind, len(row.outcome.user_ids), split="test")
    rng = setup.protocol.rng
    job = Job("pca-gp", setup, 0, ())
    learner = method.build(envs.task.refitted(), row.outcome.settings, rng(job, 1))
    learner.begin(envs.num_envs, rng=rng(job, 2))
    observation, info = envs.reset(options={"users": np.arange(envs.num_envs)})
    total = np.zeros(envs.num_envs)
    for t in range(setup.sessions[0].rounds):
        chosen = learner.select(info["available"], setup.sessions[0].slate)
        observation, reward, *_, info = envs.step(chosen if chosen.shape[1] > 1 else chosen[:, 0])
        values = np.where(observation["reacted"][:, t], observation["values"][:, t], np.nan).astype(np.float32)
        learner.observe(chosen, values)
        total += reward
    np.testing.assert_array_equal(observation["rows"], row.outcome.shown.rows)
    curve, last = setup.protocol.target(setup.sessions[0])
    np.testing.assert_array_equal(total, row.curves[curve][:, last - 1])


def test_mistakes_are_told() -> None:
    with pytest.raises(ConfigError, match="unknown split 'dev'; expected train, validation or test"):
        vector("ColdStart", 1, split="dev")
    with pytest.raises(ConfigError, match="expected 2 rows below"):
        vector("ColdStart", 2, split="test").reset(options={"users": [0, 100_000]})
