"""The environments behave as gymnasium asks, and as the protocols say."""

from dataclasses import replace
from functools import cache
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from igcf.arrays import IntArray
from igcf.data import Interactions, load_dataset, synthetic_catalogue
from igcf.errors import ConfigError
from igcf.lab.agents import Agent, agent_named
from igcf.lab.environments import KINDS, LogVectorEnv, world
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


def play(agent: Agent, kind: str, users: IntArray, rng: np.random.Generator, **options: Any) -> tuple[Any, Any]:
    """Play these users of a split in gymnasium; return the last observation and the sum of rewards."""
    envs = gymnasium.make_vec(f"igcf/{kind}-v0", num_envs=len(users), **options)
    agent.begin(len(users), rng=rng)
    observation, info = envs.reset(options={"users": users})
    total, over = np.zeros(len(users)), np.zeros(len(users), dtype=np.bool_)
    while not over.all():
        actions = agent.act(observation, info)
        observation, reward, over, _, info = envs.step(actions)
        agent.observe(observation, actions, reward, info)
        total += reward
    return observation, total


def check_remade(kind: str, data: Interactions, name: str, **sizes: int) -> float:
    """Play an agent in gymnasium; compare everything shown and every figure with `igcf evaluate`."""
    protocol, slate = KINDS[kind]
    setup = setup_for(data, protocol, slate=slate, **sizes)
    row, rng, job = evaluate(data, setup, [name]).rows[0], setup.protocol.rng, Job(name, setup, 0, ())
    here = world(kind, data, "test", **sizes)
    agent = agent_named(name, **row.outcome.settings)
    agent.fit(here.task, rng=rng(job, 1))
    draws = rng(job, 2)
    if kind == "NewItems":
        arriving = np.arange(world(kind, data, "train", **sizes).environment.n_users)
        for users in np.split(arriving, range(100, len(arriving), 100)):
            play(agent, kind, users, draws, dataset=data, split="train", **sizes)
    users = np.arange(here.environment.n_users)
    observation, total = play(agent, kind, users, draws, dataset=data, split="test", **sizes)
    np.testing.assert_array_equal(observation["rows"], row.outcome.shown.rows)
    curve, last = setup.protocol.target(setup.sessions[0])
    np.testing.assert_array_equal(total, row.curves[curve][:, last - 1])
    assert total.mean() == row.figures[curve][str(last)]
    return float(total.mean())


REMEMBERING = "tests.lab.test_agents:Remembering"
"""An agent that learns new items from the users who arrive, which methods do not."""


PLAYED = [*((kind, REMEMBERING) for kind in KINDS), *((kind, "pca-gp") for kind in KINDS if kind != "NewItems")]


@pytest.mark.parametrize(("kind", "agent"), PLAYED)
def test_a_table_is_equal_to_the_last_digit_when_it_is_remade_step_by_step(kind: str, agent: str) -> None:
    check_remade(kind, log(), agent, **{"rounds": 6, **SIZES.get(kind, {})})


@pytest.mark.realdata
@pytest.mark.parametrize("method", ["random", "pop", "mf", "icf-ucb", "icf-ts", "pca-gp", "igcf"])
@pytest.mark.parametrize("dataset", ["ml-100k", "ml-1m"])
def test_the_cold_start_of_movielens_is_equal_to_the_last_digit(dataset: str, method: str) -> None:
    print(dataset, method, check_remade("ColdStart", load_dataset(dataset), method))


def test_mistakes_are_told() -> None:
    with pytest.raises(ConfigError, match="unknown split 'dev'; expected train, validation or test"):
        vector("ColdStart", 1, split="dev")
    with pytest.raises(ConfigError, match="expected 2 rows below"):
        vector("ColdStart", 2, split="test").reset(options={"users": [0, 100_000]})
    envs = vector("Slate", 2, split="test")
    envs.reset()
    for actions in (np.zeros((2, 2), dtype=np.int64), np.full((2, 3), -1), np.full((2, 3), 60)):
        with pytest.raises(ConfigError, match=r"expected shape \(2, 3\) \(users, slate\), rows 0 to 59"):
            envs.step(actions)
