"""Q-learning of NICF: episodes of many training users in lock-step, replay, schedules, checkpoints."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from igcf.arrays import Float32Array, IntArray
from igcf.errors import TrainingDivergedError
from igcf.lab.baselines.nicf_network import LEVELS, QNetwork
from igcf.lab.baselines.task import Settings
from igcf.model import Reward

RELEASED_EPOCHS = 3000
"""Number of epochs that the schedules are made for; shorter runs compress them."""
SATISFIED_LEVEL = 4
BATCH, CAPACITY, USERS = 128, 50_000, 50


def exploration(epoch: float) -> float:
    """Return the probability eps_e of a random item."""
    return min(1.0, 1500 / (300 + 5 * epoch))


def discount(epoch: float) -> float:
    """Return the discount gamma_e: a power law from 0 to 0.8."""

    def f(x: float) -> float:
        return 2.0 / (1.0 + math.pow(50.0 + x, 0.2))

    x = max(RELEASED_EPOCHS - epoch, 0) + 1
    return float(min(0.8, (f(x) - f(RELEASED_EPOCHS)) / (f(0) - f(RELEASED_EPOCHS))))


def rating_levels(values: Float32Array, reward: Reward) -> npt.NDArray[np.int64]:
    """Map values to levels: 0 no reaction, 1..3 not satisfied in equal steps, 4 and 5 satisfied; stars stay."""
    low_step = max((reward.threshold - reward.low) / 3, 1e-12)
    unsatisfied = 1 + np.clip(np.floor((np.nan_to_num(values) - reward.low) / low_step + 1e-6), 0, 2)
    satisfied = np.where(values >= (reward.threshold + reward.high) / 2, 5, 4)
    levels = np.where(values >= reward.threshold, satisfied, unsatisfied)
    return np.where(np.isnan(values), 0, levels).astype(np.int64)


@dataclass
class Episodes:
    """Replay memory of the last sessions: rings of item numbers and levels, shape (sessions, rounds)."""

    rounds: int
    capacity: int = CAPACITY
    items: Tensor = field(init=False)
    levels: Tensor = field(init=False)
    n_seen: int = 0

    def __post_init__(self) -> None:
        """Make room for as many whole sessions as hold `capacity` transitions."""
        n = max(self.capacity // self.rounds, USERS)
        self.items = torch.zeros(n, self.rounds, dtype=torch.long)
        self.levels = torch.zeros(n, self.rounds, dtype=torch.long)

    def add(self, items: IntArray, levels: IntArray) -> None:
        """Store sessions in the place of the oldest."""
        where = (self.n_seen + np.arange(len(items))) % len(self.items)
        self.items[where], self.levels[where] = torch.from_numpy(items), torch.from_numpy(levels)
        self.n_seen += len(items)

    def sample(self, n: int, rng: np.random.Generator) -> tuple[Tensor, Tensor, IntArray]:
        """Draw sessions with replacement, and the round of one transition in each."""
        which = rng.integers(min(self.n_seen, len(self.items)), size=n)
        return self.items[which], self.levels[which], rng.integers(self.rounds, size=n)


def batch_loss(
    network: QNetwork, items: Tensor, levels: Tensor, t: IntArray, gamma: float, *, mask_target: bool
) -> Tensor:
    """Return the mean of (Q(s, a) - y)^2 with y = r + gamma max Q(s', a), without a target network, as released.

    The maximum runs over all items; with `mask_target` over those that are still to be shown.
    """
    row, now = torch.arange(len(items)), torch.from_numpy(t)
    place = torch.arange(items.shape[1])
    before = torch.where(place < now[:, None], levels, -1)
    after = torch.where(place <= now[:, None], levels, -1)
    with torch.no_grad():
        value = network(items, after)
        value[:, 0] = -torch.inf
        if mask_target:
            value.scatter_(1, torch.where(after >= 0, items, 0), -torch.inf)
        reward = (levels[row, now] >= SATISFIED_LEVEL).float()
        not_done = (now < items.shape[1] - 1).float()
        target = reward + not_done * gamma * value.amax(1)
    loss: Tensor = (network(items, before)[row, items[row, now]] - target).square().mean()
    return loss


def play_sessions(
    network: QNetwork, truth: IntArray, rounds: int, epsilon: float, rng: np.random.Generator
) -> tuple[IntArray, IntArray]:
    """Play one session of every row of `truth` (users, N + 1 levels); return items and levels, (users, rounds)."""
    n_users = len(truth)
    items, levels = (np.zeros((n_users, rounds), dtype=np.int64) for _ in range(2))
    used = np.zeros(truth.shape, dtype=np.bool_)
    used[:, 0] = True
    last = np.zeros((n_users, LEVELS), dtype=np.int64)
    row = np.arange(n_users)
    for t in range(rounds):
        chosen = _unused(used, rng)
        greedy = np.flatnonzero(rng.random(n_users) >= epsilon)
        if len(greedy):
            with torch.inference_mode():
                if network.blocks:
                    past = torch.from_numpy(items[greedy, :t]), torch.from_numpy(levels[greedy, :t])
                    value = network(*past).numpy()
                else:
                    value = network.values(network.last_encoded(torch.from_numpy(last[greedy]))).numpy()
            value[used[greedy]] = -np.inf
            chosen[greedy] = value.argmax(1)
        level = truth[row, chosen]
        used[row, chosen], last[row, level] = True, chosen
        items[:, t], levels[:, t] = chosen, level
    return items, levels


def _unused(used: npt.NDArray[np.bool_], rng: np.random.Generator) -> npt.NDArray[np.int64]:
    """Draw uniformly among the unused items of each row, by drawing again where an item was used."""
    chosen = rng.integers(1, used.shape[1], size=len(used))
    row = np.arange(len(used))
    while (again := np.flatnonzero(used[row, chosen])).size:
        chosen[again] = rng.integers(1, used.shape[1], size=again.size)
    return chosen


def train_nicf(
    network: QNetwork,
    truth: npt.NDArray[np.uint8],
    settings: Settings,
    *,
    rounds: int,
    score: Callable[[QNetwork], float] | None,
    rng: np.random.Generator,
) -> dict[str, float]:
    """Train in place and leave the network at its best checkpoint.

    Args:
        network: Network to train.
        truth: Levels of the training users, shape (users, N + 1), column 0 unused.
        settings: `epochs`, each of which plays the sessions of 50 users and then takes `steps` gradient steps (the
            released code takes one in each of 3000 epochs); the `learning_rate` of Adam; `mask_target` leaves shown
            items out of the target's maximum; `check_every` epochs the network is scored, and training stops after
            `patience` checks without a new best.
        rounds: Length of a session.
        score: Number on validation users that is largest for the best checkpoint; None takes the last one.
        rng: Random numbers for users, exploration and replay.
    """
    epochs, steps, mask_target = settings["epochs"], settings["steps"], settings["mask_target"]
    optimiser = torch.optim.Adam(network.parameters(), lr=settings["learning_rate"])
    episodes = Episodes(rounds)
    best, best_state, best_epoch, n_worse = -np.inf, None, 0, 0
    for number in range(epochs):
        epoch = number * RELEASED_EPOCHS / epochs
        users = rng.integers(len(truth), size=USERS)
        network.eval()
        episodes.add(*play_sessions(network, truth[users], rounds, exploration(epoch), rng))
        network.train()
        for _ in range(steps):
            items, levels, t = episodes.sample(BATCH, rng)
            loss = batch_loss(network, items, levels, t, discount(epoch), mask_target=mask_target)
            optimiser.zero_grad(set_to_none=True)
            loss.backward()  # type: ignore[no-untyped-call]
            optimiser.step()
        if not torch.isfinite(loss):
            raise TrainingDivergedError(f"the loss of nicf is {loss.item()} at epoch {number}; lower learning_rate")
        if score is not None and (number + 1) % settings["check_every"] == 0:
            network.eval()
            found = score(network)
            n_worse += 1
            if found > best:
                best, best_epoch, n_worse = found, number + 1, 0
                best_state = {name: part.clone() for name, part in network.state_dict().items()}
            if n_worse >= settings["patience"]:
                break
    if best_state is not None:
        network.load_state_dict(best_state)
    network.eval()
    return {"epochs": number + 1, "best_epoch": best_epoch, "best_score": float(best)}
