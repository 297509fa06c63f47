"""Proximal policy optimisation on a log, in one file after CleanRL: `python examples/lab/ppo.py --dataset synthetic`.

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
        ("num-envs", 128, "users in lock-step"),
        ("episodes", 60, "groups of users to train on"),
        ("epochs", 4, "passes over what a group did"),
        ("batch", 512, "steps per update"),
        ("hidden", 128, "width of the network"),
        ("learning-rate", 1e-3, "of Adam"),
        ("gamma", 0.6, "discount"),
        ("trace", 0.9, "lambda of the generalised advantage estimate"),
        ("clip", 0.2, "largest change of a probability by one group"),
        ("entropy", 0.003, "weight of the policy's entropy"),
        ("seed", 0, "of users, network and policy"),
    ):
        parser.add_argument(f"--{name}", default=default, type=type(default), help=f"{what} [default: {default}]")
    return parser.parse_args()


class ActorCritic(nn.Module):
    """Logits of all items, and the value of a state."""

    def __init__(self, n_items: int, hidden: int) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(n_items, hidden), nn.Tanh())
        self.actor, self.critic = nn.Linear(hidden, n_items), nn.Linear(hidden, 1)

    def forward(self, states: torch.Tensor) -> tuple[torch.distributions.Categorical, torch.Tensor]:
        """Return the policy among the items that were not shown, and the values."""
        inner = self.body(states)
        logits = self.actor(inner).masked_fill(states != 0, -1e9)
        return torch.distributions.Categorical(logits=logits), self.critic(inner)[:, 0]


def encoded(observation: dict[str, Any], satisfied: float, n_items: int) -> torch.Tensor:
    """Return the states of all users, (users, items)."""
    rows, values, reacted = (observation[name][:, :, 0] for name in ("rows", "values", "reacted"))
    states = np.zeros((len(rows), n_items + 1), dtype=np.float32)  # the last column takes the rounds to come
    np.put_along_axis(states, rows.astype(np.int64), np.where(reacted & (values >= satisfied), 1.0, -1.0), 1)
    return torch.from_numpy(states[:, :-1])


def play(options: argparse.Namespace, choose: Callable[[torch.Tensor], torch.Tensor]) -> float:
    """Return the successes per user of the test users."""
    shape = {"dataset": options.dataset, "rounds": options.rounds, "split": "test"}
    n_users = gymnasium.make("igcf/ColdStart-v0", **shape).unwrapped.n_users
    envs = gymnasium.make_vec("igcf/ColdStart-v0", num_envs=n_users, **shape)
    observation, _ = envs.reset(options={"users": np.arange(n_users)})
    total = np.zeros(n_users)
    for _ in range(options.rounds):
        with torch.no_grad():
            actions = choose(encoded(observation, envs.task.satisfied, envs.single_action_space.n))
        observation, rewards, *_ = envs.step(actions.numpy())
        total += rewards
    return float(total.mean())


def train(options: argparse.Namespace) -> ActorCritic:
    """Learn from the training users."""
    torch.manual_seed(options.seed)
    rounds, n_envs = options.rounds, options.num_envs
    envs = gymnasium.make_vec(
        "igcf/ColdStart-v0", num_envs=n_envs, dataset=options.dataset, rounds=rounds, split="train"
    )
    n_items, satisfied = int(envs.single_action_space.n), envs.task.satisfied
    network = ActorCritic(n_items, options.hidden)
    optimizer = torch.optim.Adam(network.parameters(), lr=options.learning_rate)
    for episode in range(options.episodes):
        states = torch.zeros(rounds, n_envs, n_items)
        actions = torch.zeros(rounds, n_envs, dtype=torch.int64)
        log_probs, rewards, values = torch.zeros(3, rounds, n_envs)
        observation, _ = envs.reset(seed=options.seed if episode == 0 else None)
        for t in range(rounds):
            states[t] = encoded(observation, satisfied, n_items)
            with torch.no_grad():
                policy, values[t] = network(states[t])
                actions[t] = policy.sample()
                log_probs[t] = policy.log_prob(actions[t])
            observation, gained, *_ = envs.step(actions[t].numpy())
            rewards[t] = torch.from_numpy(gained)

        advantages, trace = torch.zeros(rounds, n_envs), torch.zeros(n_envs)
        for t in reversed(range(rounds)):
            following = values[t + 1] if t + 1 < rounds else torch.zeros(n_envs)
            trace = rewards[t] + options.gamma * following - values[t] + options.gamma * options.trace * trace
            advantages[t] = trace
        returns = advantages + values

        old = [each.flatten(0, 1) for each in (states, actions, log_probs, advantages, returns)]
        for _ in range(options.epochs):
            for rows in torch.randperm(rounds * n_envs).split(options.batch):
                state, action, log_prob, advantage, wanted = (each[rows] for each in old)
                policy, value = network(state)
                ratio = (policy.log_prob(action) - log_prob).exp()
                advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
                clipped = ratio.clamp(1 - options.clip, 1 + options.clip)
                gain = torch.min(ratio * advantage, clipped * advantage).mean()
                loss = 0.5 * (value - wanted).square().mean() - gain - options.entropy * policy.entropy().mean()
                optimizer.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(network.parameters(), 0.5)
                optimizer.step()
        if (episode + 1) % max(1, options.episodes // 10) == 0:
            print(f"group {episode + 1} of {options.episodes}: {rewards.sum(dim=0).mean():.2f} successes per user")
    return network


if __name__ == "__main__":
    options = arguments()
    network = train(options)
    learned = play(options, lambda states: network(states)[0].probs.argmax(dim=1))
    chance = play(options, lambda states: (torch.rand(states.shape) * (states == 0)).argmax(dim=1))
    print(f"test users, {options.rounds} rounds: PPO {learned:.2f}, random {chance:.2f}: {learned / chance:.2f} times")
