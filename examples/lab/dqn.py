"""Deep Q-learning on a log, in one file after CleanRL: `python examples/lab/dqn.py --dataset synthetic`.

The state of a user is +1 for every item that satisfied them, -1 for every other one that they were shown and 0 for the
rest. It trains on the users of `split="train"`, then plays those of `split="test"`, beside random recommendations.
"""

import argparse
from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
import torch
from torch import nn

import igcf.lab.environments  # noqa: F401  (registers igcf/ColdStart-v0)


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default, what in (
        ("dataset", "synthetic", "name or path of a log"),
        ("rounds", 40, "items shown to each user"),
        ("num-envs", 64, "users in lock-step"),
        ("episodes", 100, "groups of users to train on"),
        ("buffer", 50_000, "steps that are remembered"),
        ("batch", 128, "steps per update"),
        ("hidden", 128, "width of the network"),
        ("learning-rate", 1e-3, "of Adam"),
        ("gamma", 0.6, "discount"),
        ("tau", 0.02, "share of the network that its target follows by"),
        ("epsilon", 0.05, "share of random items at the end; 1 at the start"),
        ("seed", 0, "of users, network and exploration"),
    ):
        parser.add_argument(f"--{name}", default=default, type=type(default), help=f"{what} [default: {default}]")
    return parser.parse_args()


class QNetwork(nn.Sequential):
    """Expected return of every item."""

    def __init__(self, n_items: int, hidden: int) -> None:
        super().__init__(nn.Linear(n_items, hidden), nn.ReLU(), nn.Linear(hidden, n_items))


def encoded(observation: dict[str, Any], satisfied: float, n_items: int) -> np.ndarray:
    """Return the states of all users, (users, items)."""
    rows, values, reacted = (observation[name][:, :, 0] for name in ("rows", "values", "reacted"))
    states = np.zeros((len(rows), n_items + 1), dtype=np.int8)  # the last column takes the rounds to come
    np.put_along_axis(states, rows.astype(np.int64), np.where(reacted & (values >= satisfied), 1, -1), 1)
    return states[:, :-1]


def best(q: QNetwork, states: np.ndarray, available: np.ndarray) -> np.ndarray:
    """Return the item of the largest value for each user."""
    with torch.no_grad():
        values = q(torch.from_numpy(states).float()).numpy()
    return np.where(available, values, -np.inf).argmax(axis=1)


def play(options: argparse.Namespace, choose: Callable[[np.ndarray, np.ndarray], np.ndarray]) -> float:
    """Return the successes per user of the test users."""
    shape = {"dataset": options.dataset, "rounds": options.rounds, "split": "test"}
    n_users = gymnasium.make("igcf/ColdStart-v0", **shape).unwrapped.n_users
    envs = gymnasium.make_vec("igcf/ColdStart-v0", num_envs=n_users, **shape)
    observation, info = envs.reset(options={"users": np.arange(n_users)})
    total = np.zeros(n_users)
    for _ in range(options.rounds):
        states = encoded(observation, envs.task.satisfied, envs.single_action_space.n)
        observation, rewards, _, _, info = envs.step(choose(states, info["available"]))
        total += rewards
    return float(total.mean())


def train(options: argparse.Namespace) -> QNetwork:
    """Learn from the training users."""
    rng = np.random.default_rng(options.seed)
    torch.manual_seed(options.seed)
    envs = gymnasium.make_vec(
        "igcf/ColdStart-v0", num_envs=options.num_envs, dataset=options.dataset, rounds=options.rounds, split="train"
    )
    n_items, satisfied = int(envs.single_action_space.n), envs.task.satisfied
    q, target = QNetwork(n_items, options.hidden), QNetwork(n_items, options.hidden)
    target.load_state_dict(q.state_dict())
    optimizer = torch.optim.Adam(q.parameters(), lr=options.learning_rate)
    states, later = (np.zeros((options.buffer, n_items), dtype=np.int8) for _ in range(2))
    chosen, gained, is_over = np.zeros(options.buffer, dtype=np.int64), *np.zeros((2, options.buffer), dtype=np.float32)
    n_seen, steps = 0, options.episodes * options.rounds
    observation, info = envs.reset(seed=options.seed)
    for step in range(steps):
        if step and step % options.rounds == 0:
            observation, info = envs.reset()
        state, available = encoded(observation, satisfied, n_items), info["available"]
        epsilon = max(options.epsilon, 1 - 2 * step / steps)
        explores = rng.random(len(state)) < epsilon
        actions = np.where(explores, by_chance(available, rng), best(q, state, available))
        observation, rewards, over, _, info = envs.step(actions)
        places = (n_seen + np.arange(len(state))) % options.buffer
        states[places], later[places] = state, encoded(observation, satisfied, n_items)
        chosen[places], gained[places], is_over[places] = actions, rewards, over
        n_seen += len(state)

        sample = rng.integers(0, min(n_seen, options.buffer), options.batch)
        now, after = (torch.from_numpy(each[sample]).float() for each in (states, later))
        with torch.no_grad():  # double Q-learning: the network chooses, its target values
            following = q(after).masked_fill(after != 0, -torch.inf).argmax(dim=1, keepdim=True)
            value = target(after).gather(1, following)[:, 0] * torch.from_numpy(1 - is_over[sample])
            wanted = torch.from_numpy(gained[sample]) + options.gamma * value
        found = q(now).gather(1, torch.from_numpy(chosen[sample])[:, None])[:, 0]
        loss = nn.functional.smooth_l1_loss(found, wanted)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        with torch.no_grad():
            for old, new in zip(target.parameters(), q.parameters(), strict=True):
                old.lerp_(new, options.tau)
        if (step + 1) % (steps // 10) == 0:
            print(f"step {step + 1:,} of {steps:,}: loss {loss.item():.4f}, mean reward {gained[places].mean():.3f}")
    return q


def by_chance(available: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return any available item for each user."""
    return np.where(available, rng.random(available.shape), -1.0).argmax(axis=1)


if __name__ == "__main__":
    options = arguments()
    network, rng = train(options), np.random.default_rng(options.seed)
    learned = play(options, lambda states, available: best(network, states, available))
    chance = play(options, lambda states, available: by_chance(available, rng))
    print(f"test users, {options.rounds} rounds: DQN {learned:.2f}, random {chance:.2f}: {learned / chance:.2f} times")
