"""Gymnasium environments of real logs: importing this module registers `igcf/ColdStart-v0` and the others.

`gymnasium.make` gives one user at a time, `gymnasium.make_vec` many in lock-step, both on the environment that
`igcf evaluate` plays on (`igcf.online.Environment`): the protocols are those of docs/protocols.md.
"""

from copy import copy
from dataclasses import replace
from functools import lru_cache
from typing import Any, Literal, NamedTuple

import numpy as np

from igcf.arrays import BoolArray, FloatArray, IntArray
from igcf.data import Interactions, load_dataset
from igcf.errors import ConfigError
from igcf.lab.baselines import Task
from igcf.lab.evaluate.protocols import Setup, setup_for
from igcf.online import Environment
from igcf.online.environment import rewards

try:
    import gymnasium
    from gymnasium import spaces
    from gymnasium.vector import AutoresetMode, VectorEnv
    from gymnasium.vector.utils import batch_space
except ImportError as error:
    raise ConfigError("the environments need gymnasium; install it with `pip install 'igcf[lab]'`") from error

Split = Literal["train", "validation", "test"]
Step = tuple[dict[str, Any], FloatArray, BoolArray, BoolArray, dict[str, Any]]
KINDS: dict[str, tuple[str, int | None]] = {
    "ColdStart": ("cold-start", None),
    "Drift": ("taste-drift", None),
    "Slate": ("top-k", 3),
    "Observed": ("observed", None),
    "NewItems": ("new-items", None),
}
"""Protocol of each kind of environment, and the items per round where the protocol has several numbers of them."""


class World(NamedTuple):
    """Users of one split, what an agent may learn from, and the experiment that they belong to."""

    environment: Environment
    task: Task
    setup: Setup


def world(
    kind: str,
    dataset: str | Interactions = "synthetic",
    split: Split = "train",
    *,
    slate: int | None = None,
    split_seed: int = 0,
    **sizes: Any,
) -> World:
    """Return the environment of a kind on a log, without gymnasium.

    Args:
        kind: one of `KINDS`.
        dataset: a log, or the name or path of one.
        split: the users to play. Train on `train`, choose on `validation`, report `test`.
        slate: items per round [default: the protocol's].
        split_seed: draws the users of each split, where the protocol draws them.
        **sizes: `rounds`, `n_users` and `min_reactions` that differ from what the protocol would take.
    """
    if split not in ("train", "validation", "test"):
        raise ConfigError(f"unknown split {split!r}; expected train, validation or test")
    build = _world if isinstance(dataset, Interactions) else _kept
    return build(kind, dataset, split, slate, split_seed, **sizes)


def _world(kind: str, dataset: Any, split: Split, slate: int | None, split_seed: int, **sizes: int) -> World:
    data = dataset if isinstance(dataset, Interactions) else load_dataset(dataset)
    protocol, own_slate = KINDS[kind]
    setup = setup_for(data, protocol, slate=slate or own_slate, **sizes)
    how, session = setup.protocol, setup.sessions[0]
    case = how.prepare(data, setup, split_seed, "test" if split == "train" else split)
    task = how.given(case)
    if split == "train":
        case = replace(case, truth=how.training_truth(case, session))
    return World(how.environment(case, session), task, setup)


_kept = lru_cache(maxsize=4)(_world)


class LogVectorEnv(VectorEnv[dict[str, Any], IntArray, Any]):
    """Users in lock-step. Every episode has the same number of rounds, so that all end and begin together.

    `reset(seed=)` draws the users, none twice while there are enough; `options={"users": rows}` names them.
    """

    metadata = {"autoreset_mode": AutoresetMode.NEXT_STEP, "render_modes": []}  # noqa: RUF012

    def __init__(self, num_envs: int = 1, *, kind: str, **options: Any) -> None:
        found, self.task, self.setup = world(kind, **options)
        self._world = copy(found)  # `world` keeps what it returns: the tables are shared, the state is not
        if not found.n_users:
            raise ConfigError(f"igcf/{kind}-v0 has no such user in this log; lower rounds= or min_reactions=")
        self.num_envs, self.n_users = num_envs, found.n_users
        shape, n_items = (found.rounds, found.slate), found.n_items
        known = [table[~np.isnan(table)] for table in found.truth]
        low, high = min(0.0, *(each.min(initial=0) for each in known)), max(each.max(initial=0) for each in known)
        rows, values = spaces.Box(-1, n_items - 1, shape, np.int32), spaces.Box(low, high, shape, np.float32)
        reacted = spaces.MultiBinary(shape)
        self.single_observation_space = spaces.Dict({"rows": rows, "values": values, "reacted": reacted})
        slate = spaces.MultiDiscrete([n_items] * found.slate)
        self.single_action_space = spaces.Discrete(n_items) if found.slate == 1 else slate
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """Start new users: those that `options` names, or drawn at random."""
        super().reset(seed=seed)
        users = (options or {}).get("users")
        self._world.reset(self._drawn() if users is None else self._checked(users))
        return self._world.observation(), self._info()

    def step(self, actions: IntArray) -> Step:
        """Show an item row, or a slate of them, to every user; after the last round the next step is a reset."""
        if self._world.round == self._world.rounds:
            observation, info = self.reset()
            nothing = np.zeros(self.num_envs, dtype=np.bool_)
            return observation, np.zeros(self.num_envs), nothing, nothing.copy(), info
        self._world.step(np.asarray(actions, dtype=np.int64).reshape(self.num_envs, -1))
        info = self._info()
        is_over = np.full(self.num_envs, self._world.round == self._world.rounds)
        return self._world.observation(), rewards(info["satisfied"]), is_over, np.zeros_like(is_over), info

    def _info(self) -> dict[str, Any]:
        return {**self._world.info(self.task.satisfied), "user": self._world.users.copy()}

    def _drawn(self) -> IntArray:
        """Draw users, each once before anybody comes twice."""
        turns = -(-self.num_envs // self.n_users)
        drawn = np.concatenate([self.np_random.permutation(self.n_users) for _ in range(turns)])
        return drawn[: self.num_envs]

    def _checked(self, users: Any) -> IntArray:
        rows = np.asarray(users, dtype=np.int64)
        if rows.shape != (self.num_envs,) or rows.min() < 0 or rows.max() >= self.n_users:
            raise ConfigError(
                f"options['users'] has shape {rows.shape}; expected {self.num_envs} rows below {self.n_users}"
            )
        return rows


class LogEnv(gymnasium.Env[dict[str, Any], Any]):
    """One user: the first and only one of a `LogVectorEnv`."""

    metadata = {"render_modes": []}  # noqa: RUF012

    def __init__(self, *, kind: str, **options: Any) -> None:
        self._many = LogVectorEnv(1, kind=kind, **options)
        self.task, self.setup, self.n_users = self._many.task, self._many.setup, self._many.n_users
        self.observation_space, self.action_space = self._many.single_observation_space, self._many.single_action_space

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """Start a new user: `options={"user": row}`, or one drawn at random."""
        super().reset(seed=seed)
        self._many.np_random = self.np_random
        user = (options or {}).get("user")
        observation, info = self._many.reset(options=None if user is None else {"users": [user]})
        return _only(observation), _only(info)

    def step(self, action: Any) -> tuple[dict[str, Any], float, bool, bool, dict[str, Any]]:
        """Show an item row, or a slate of them."""
        observation, reward, is_over, _, info = self._many.step(np.asarray([action]))
        return _only(observation), float(reward[0]), bool(is_over[0]), False, _only(info)


def _only(batch: dict[str, Any]) -> dict[str, Any]:
    return {name: each[0] for name, each in batch.items()}


for _kind in KINDS:
    gymnasium.register(
        f"igcf/{_kind}-v0",
        "igcf.lab.environments:LogEnv",
        vector_entry_point="igcf.lab.environments:LogVectorEnv",
        kwargs={"kind": _kind},
    )
