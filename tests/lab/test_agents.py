"""Agents: every method behind one interface, in gymnasium and in experiments alike."""

from typing import Any

import numpy as np
import pytest

from igcf.arrays import IntArray
from igcf.data import synthetic_catalogue
from igcf.lab.agents import AGENTS, Agent, MethodAgent, agent_named
from igcf.lab.baselines.bandits import k_means
from igcf.lab.environments import LogVectorEnv
from igcf.lab.evaluate import evaluate, setup_for
from igcf.online import Environment
from tests.lab.baselines.test_contract import QUICK
from tests.lab.baselines.worlds import complete_truth, task

PLAIN = ("random", "pop", "pca-gp", "linucb-hybrid", "latent-bandit", "egreedy-ease", "igcf")


class Remembering(Agent):
    """Shows what satisfied most users so far, itself included in what it learns."""

    def fit(self, task: Any, *, rng: np.random.Generator) -> None:
        self.counts = np.bincount(task.train.item_idx, minlength=task.train.n_items).astype(float)

    def act(self, observation: dict[str, Any], info: dict[str, Any]) -> IntArray:
        order = np.argsort(-np.where(info["available"], self.counts, -1.0), axis=1, kind="stable")
        return order[:, : observation["rows"].shape[2]]

    def observe(self, observation: dict[str, Any], actions: IntArray, rewards: Any, info: dict[str, Any]) -> None:
        np.add.at(self.counts, actions, rewards[:, None])


@pytest.mark.parametrize("name", PLAIN)
def test_an_agent_shows_what_the_method_shows_in_an_experiment(name: str) -> None:
    agent, method = agent_named(name, **QUICK.get(name, {})), agent_named(name).method  # type: ignore[attr-defined]
    agent.fit(task(), rng=np.random.default_rng(1))
    world = Environment(complete_truth(), rounds=6, slate=2)
    world.reset(np.arange(10))
    agent.begin(10, rng=np.random.default_rng(2))
    for _ in range(6):
        actions = agent.act(world.observation(), world.info(4.0))
        world.step(actions)
        agent.observe(world.observation(), actions, None, world.info(4.0))
    fitted = task().refitted() if method.is_refitted else task()
    learner = method.build(fitted, method.settings(QUICK.get(name, {})), np.random.default_rng(1))
    shown = Environment(complete_truth(), rounds=6, slate=2).play(learner, rng=np.random.default_rng(2))
    np.testing.assert_array_equal(world.rows, shown.rows)


def test_a_class_of_one_s_own_is_a_method_of_experiments_under_every_kind_of_environment() -> None:
    path = f"{__name__}:Remembering"
    assert isinstance(agent_named(path), Remembering)
    data = synthetic_catalogue(n_users=200, n_items=50)
    for protocol in ("cold-start", "top-k", "new-items"):
        setup = setup_for(data, protocol, rounds=5, min_reactions=12, n_users=20)
        rows = {row.method: row for row in evaluate(data, setup, [path, "random"]).rows}
        assert rows[path].figures["precision"]["5"] > rows["random"].figures["precision"]["5"], protocol


def test_an_agent_may_learn_new_items_from_the_users_who_arrive() -> None:
    data = synthetic_catalogue(n_users=300, n_items=50)
    setup = setup_for(data, "new-items", rounds=20, min_reactions=12, n_users=20)
    row, still = evaluate(data, setup, [f"{__name__}:Remembering", "pop"]).rows
    assert row.figures["new"]["20"] >= still.figures["new"]["20"]


def test_all_methods_are_agents_and_play_in_gymnasium() -> None:
    assert len(AGENTS) >= 14
    envs = LogVectorEnv(3, kind="Slate", dataset=synthetic_catalogue(n_users=200, n_items=50), split="test", rounds=3,
                        min_reactions=12)  # fmt: skip
    agent = MethodAgent(agent_named("pca-gp").method, dim=4)  # type: ignore[attr-defined]
    agent.fit(envs.task, rng=np.random.default_rng(0))
    agent.begin(3, rng=np.random.default_rng(0))
    observation, info = envs.reset(seed=0)
    for _ in range(3):
        actions = agent.act(observation, info)
        observation, rewards, *_, info = envs.step(actions)
        agent.observe(observation, actions, rewards, info)
    assert len(set(observation["rows"][0].ravel().tolist())) == 9


def test_clusters_are_found_where_there_are_some() -> None:
    rng = np.random.default_rng(0)
    points = np.concatenate([rng.normal(0, 0.1, (20, 2)), rng.normal(5, 0.1, (30, 2))])
    own = k_means(points, 2, rng=rng)
    assert len(set(own[:20].tolist())) == len(set(own[20:].tolist())) == 1
    assert own[0] != own[-1]
