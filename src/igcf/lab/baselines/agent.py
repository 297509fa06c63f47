"""Agents: what `igcf.lab.environments` and `igcf lab run` play, one small interface over everything that recommends."""

from typing import Any

import numpy as np

from igcf.arrays import BoolArray, Float32Array, IntArray
from igcf.lab.baselines.task import Method, Settings, Task
from igcf.online import Environment
from igcf.online.environment import rewards


class Agent:
    """Base of agents. Users are played in lock-step; only `act` is required."""

    def fit(self, task: Task, *, rng: np.random.Generator) -> None:
        """Learn from the log of the training users, `task.train`; choose on `task.validation`."""

    def begin(self, n_users: int, *, rng: np.random.Generator) -> None:
        """Start `n_users` new users. An agent may keep what it learned about items."""

    def act(self, observation: dict[str, Any], info: dict[str, Any]) -> IntArray:
        """Return the item row for each user, (users,), or the slate, (users, slate), out of `info["available"]`.

        Args:
            observation: `rows`, `values` and `reacted`, each (users, rounds, slate): -1, 0 and False in rounds to come.
            info: `available` (users, items), `satisfied` (users, slate) by the last items, `round` (users,).
        """
        raise NotImplementedError

    def observe(self, observation: dict[str, Any], actions: IntArray, rewards: Any, info: dict[str, Any]) -> None:
        """Learn from the rewards, (users,), of the last actions; `observation` and `info` are those after them."""


class AgentLearner:
    """An agent as a learner, so that it is played, counted and compared like every method."""

    remembers_items = True

    def __init__(self, agent: Agent, satisfied: float) -> None:
        self.agent, self._satisfied = agent, satisfied

    def attach(self, environment: Environment) -> None:
        """Take observations from this environment."""
        self._environment, self._now = environment, self._seen(environment)

    def _seen(self, environment: Environment) -> tuple[dict[str, Any], dict[str, Any]]:
        return environment.observation(), environment.info(self._satisfied)

    def begin(self, n_users: int, *, rng: np.random.Generator) -> None:
        """Start new users."""
        self.agent.begin(n_users, rng=rng)

    def select(self, available: BoolArray, k: int) -> IntArray:
        """Let the agent act."""
        self._actions = np.asarray(self.agent.act(*self._now))
        return self._actions.reshape(len(available), -1)

    def observe(self, rows: IntArray, values: Float32Array) -> None:
        """Let the agent learn."""
        observation, info = self._now = self._seen(self._environment)
        self.agent.observe(observation, self._actions, rewards(info["satisfied"]), info)


def agent_method(kind: type[Agent], name: str) -> Method:
    """Return an agent as a method."""

    def fit(task: Task, settings: Settings, rng: np.random.Generator) -> AgentLearner:
        agent = kind(**settings)
        agent.fit(task, rng=rng)
        return AgentLearner(agent, task.satisfied)

    return Method(name, fit, lambda learner, settings: learner)


class MethodAgent(Agent):
    """A method as an agent: `MethodAgent(method_named("pca-gp"), nu=0.1)`."""

    def __init__(self, method: Method, **settings: Any) -> None:
        self.method, self.settings = method, method.settings(settings)

    def fit(self, task: Task, *, rng: np.random.Generator) -> None:
        """Fit as `igcf evaluate` does: with the validation users too where the method chooses nothing on them."""
        self._learner = self.method.build(task.refitted() if self.method.is_refitted else task, self.settings, rng)

    def begin(self, n_users: int, *, rng: np.random.Generator) -> None:
        """Start new users."""
        self._learner.begin(n_users, rng=rng)

    def act(self, observation: dict[str, Any], info: dict[str, Any]) -> IntArray:
        """Select as many items as a slate has."""
        chosen = self._learner.select(info["available"], observation["rows"].shape[2])
        return chosen if chosen.shape[1] > 1 else chosen[:, 0]

    def observe(self, observation: dict[str, Any], actions: IntArray, rewards: Any, info: dict[str, Any]) -> None:
        """Learn from the values of the last round."""
        last = int(info["round"][0]) - 1
        values = np.where(observation["reacted"][:, last], observation["values"][:, last], np.float32(np.nan))
        self._learner.observe(observation["rows"][:, last], values)
