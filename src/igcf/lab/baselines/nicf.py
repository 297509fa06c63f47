"""`nicf`: neural interactive collaborative filtering by Q-learning (Zou et al., 2020), as the authors' code does it.

A state is the session so far: item numbers 1..N (0: nothing) and rating levels 0..5, both (batch, rounds). The released
network sees the last item of each level only.
"""

import math
from collections.abc import Callable
from functools import partial

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from igcf.arrays import BoolArray, Float32Array, IntArray
from igcf.errors import TrainingDivergedError
from igcf.lab.baselines.task import Settings, Task
from igcf.model import Reward
from igcf.online import replay, top_k
from igcf.threads import at_most_threads

LEVELS, SATISFIED_LEVEL = 6, 4
SMALL = 1e-8
RELEASED_EPOCHS = 3000  # number of epochs that the schedules are made for; shorter runs compress them
BATCH, CAPACITY, USERS = 128, 50_000, 50
one_torch_thread = partial(at_most_threads, 1, ("torch",))
"""Context manager for small products: threads that wait for each other would take many times as long."""


class QNetwork(nn.Module):
    """Network of the values of all items: six level embeddings -> layer norm -> one hidden layer -> (batch, N + 1)."""

    def __init__(self, n_items: int, dim: int, generator: torch.Generator) -> None:
        super().__init__()

        def uniform(*shape: int, bound: float) -> nn.Parameter:
            return nn.Parameter((torch.rand(*shape, generator=generator) * 2 - 1) * bound)

        def glorot(*shape: int) -> nn.Parameter:
            return uniform(*shape, bound=math.sqrt(6 / (shape[-2] + shape[-1])))

        self.embeddings = uniform(LEVELS, n_items + 1, dim, bound=0.01)
        self.gain, self.bias = nn.Parameter(torch.ones(LEVELS, dim)), nn.Parameter(torch.zeros(LEVELS, dim))
        self.hidden, self.hidden_bias = glorot(LEVELS * dim, dim), nn.Parameter(torch.zeros(dim))
        self.out, self.out_bias = glorot(dim, n_items + 1), nn.Parameter(torch.zeros(n_items + 1))
        self.level = torch.arange(LEVELS)

    def forward(self, last: Tensor) -> Tensor:
        """Return the values of all items, (batch, N + 1), from the last item of each level, (batch, levels)."""
        return torch.addmm(self.out_bias, self._hidden_layer(last), self.out)

    def values_of(self, last: Tensor, items: Tensor) -> Tensor:
        """Return the value of one item in each state, (batch,)."""
        return (self._hidden_layer(last) * self.out[:, items].T).sum(1) + self.out_bias[items]

    def frozen(self) -> Callable[[IntArray], Float32Array]:
        """Return `forward` of today's parameters, with a table of what each item adds to the hidden layer."""
        with torch.inference_mode():
            encoded = self._encoded(self.embeddings.transpose(0, 1)).transpose(0, 1)  # (levels, N + 1, dim)
            table = torch.bmm(encoded, self.hidden.view(LEVELS, -1, self.hidden.shape[1])).numpy()
        levels = self.level.numpy()
        fixed = (self.hidden_bias, self.out, self.out_bias)
        hidden_bias, out, out_bias = (part.detach().numpy().copy() for part in fixed)

        def values(last: IntArray) -> Float32Array:
            hidden = np.maximum(table[levels, last].sum(axis=1) + hidden_bias, 0.0)
            found: Float32Array = hidden @ out
            found += out_bias
            return found

        return values

    def _encoded(self, x: Tensor) -> Tensor:
        centred = x - x.mean(-1, keepdim=True)
        return centred * torch.rsqrt((centred * centred).mean(-1, keepdim=True) + SMALL) * self.gain + self.bias

    def _hidden_layer(self, last: Tensor) -> Tensor:
        encoded = self._encoded(self.embeddings[self.level, last])
        return torch.relu(torch.addmm(self.hidden_bias, encoded.flatten(1), self.hidden))


def last_items(items: Tensor, levels: Tensor) -> Tensor:
    """Return the most recent item of each level, 0 if there is no such item: (batch, rounds) -> (batch, levels)."""
    place = torch.arange(1, items.shape[1] + 1)
    latest = ((levels[:, None] == torch.arange(LEVELS)[:, None]) * place).amax(-1)
    padded = torch.cat([torch.zeros(len(items), 1, dtype=torch.long), items], dim=1)
    return torch.gather(padded, 1, latest)


class Nicf:
    """Learner that shows the items with the largest learned values."""

    def __init__(self, network: QNetwork, reward: Reward) -> None:
        self._values, self.reward = network.frozen(), reward

    def begin(self, n_users: int, *, rng: np.random.Generator) -> None:
        """Start empty sessions."""
        self._rng = rng
        self._last = np.zeros((n_users, LEVELS), dtype=np.int64)

    def select(self, available: BoolArray, k: int) -> IntArray:
        """Select the items with the largest values."""
        return top_k(self._values(self._last)[:, 1:].astype(np.float64), available, k, rng=self._rng)

    def observe(self, rows: IntArray, values: Float32Array) -> None:
        """Take over the reactions, best slot first."""
        items, levels = rows.astype(np.int64) + 1, rating_levels(values, self.reward)
        for slot in range(items.shape[1]):
            self._last[np.arange(len(items)), levels[:, slot]] = items[:, slot]


def rating_levels(values: Float32Array, reward: Reward) -> npt.NDArray[np.int64]:
    """Map values to levels: 0 no reaction, 1..3 not satisfied in equal steps, 4 and 5 satisfied; stars stay."""
    low_step = max((reward.threshold - reward.low) / 3, 1e-12)
    unsatisfied = 1 + np.clip(np.floor((np.nan_to_num(values) - reward.low) / low_step + 1e-6), 0, 2)
    satisfied = np.where(values >= (reward.threshold + reward.high) / 2, 5, 4)
    levels = np.where(values >= reward.threshold, satisfied, unsatisfied)
    return np.where(np.isnan(values), 0, levels).astype(np.int64)


def exploration(epoch: float) -> float:
    """Return the probability eps_e of a random item."""
    return min(1.0, 1500 / (300 + 5 * epoch))


def discount(epoch: float) -> float:
    """Return the discount gamma_e: a power law from 0 to 0.8."""

    def f(x: float) -> float:
        return 2.0 / (1.0 + math.pow(50.0 + x, 0.2))

    x = max(RELEASED_EPOCHS - epoch, 0) + 1
    return float(min(0.8, (f(x) - f(RELEASED_EPOCHS)) / (f(0) - f(RELEASED_EPOCHS))))


class Episodes:
    """Replay memory of the last sessions: rings of item numbers and levels, shape (sessions, rounds)."""

    def __init__(self, rounds: int, capacity: int = CAPACITY) -> None:
        """Make room for as many whole sessions as hold `capacity` transitions."""
        shape = max(capacity // rounds, USERS), rounds
        self.items, self.levels = (torch.zeros(shape, dtype=torch.long) for _ in range(2))
        self.n_seen = 0

    def add(self, items: IntArray, levels: IntArray) -> None:
        """Store sessions in the place of the oldest."""
        where = (self.n_seen + np.arange(len(items))) % len(self.items)
        self.items[where], self.levels[where] = torch.from_numpy(items), torch.from_numpy(levels)
        self.n_seen += len(items)

    def sample(self, n: int, rng: np.random.Generator) -> tuple[Tensor, Tensor, IntArray]:
        """Draw sessions with replacement, and the round of one transition in each."""
        which = rng.integers(min(self.n_seen, len(self.items)), size=n)
        return self.items[which], self.levels[which], rng.integers(self.items.shape[1], size=n)


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
        value = network(last_items(items, after))
        value[:, 0] = -torch.inf
        if mask_target:
            value.scatter_(1, torch.where(after >= 0, items, 0), -torch.inf)
        reward = (levels[row, now] >= SATISFIED_LEVEL).float()
        not_done = (now < items.shape[1] - 1).float()
        target = reward + not_done * gamma * value.amax(1)
    loss: Tensor = (network.values_of(last_items(items, before), items[row, now]) - target).square().mean()
    return loss


def play_sessions(
    network: QNetwork, truth: IntArray, rounds: int, epsilon: float, rng: np.random.Generator
) -> tuple[IntArray, IntArray]:
    """Play one session of every row of `truth` (users, N + 1 levels); return items and levels, (users, rounds)."""
    n_users, n_numbers = len(truth), truth.shape[1]
    items, levels = (np.zeros((n_users, rounds), dtype=np.int64) for _ in range(2))
    values = network.frozen()
    shown = np.zeros((n_users, n_numbers), dtype=np.float32)  # added to values: minus infinity where an item was shown
    shown[:, 0] = -np.inf
    last = np.zeros((n_users, LEVELS), dtype=np.int64)
    row = np.arange(n_users)
    for t in range(rounds):
        chosen = rng.integers(1, n_numbers, size=n_users)
        while (again := np.flatnonzero(shown[row, chosen])).size:  # drawn again where an item was shown
            chosen[again] = rng.integers(1, n_numbers, size=again.size)
        greedy = np.flatnonzero(rng.random(n_users) >= epsilon)
        if len(greedy):
            chosen[greedy] = (values(last[greedy]) + shown[greedy]).argmax(1)
        level = truth[row, chosen]
        shown[row, chosen], last[row, level] = -np.inf, chosen
        items[:, t], levels[:, t] = chosen, level
    return items, levels


def train_nicf(
    network: QNetwork,
    truth: npt.NDArray[np.uint8],
    settings: Settings,
    rounds: int,
    score: Callable[[QNetwork], float] | None,
    rng: np.random.Generator,
) -> None:
    """Train in place and leave the network at its best checkpoint.

    Args:
        network: Network to train.
        truth: Levels of the training users, shape (users, N + 1), column 0 unused.
        settings: `epochs`, with the sessions of 50 users each and then `steps` gradient steps (the
            released code takes one in each of 3000 epochs); the `learning_rate` of Adam; `mask_target` leaves shown
            items out of the target's maximum; `check_every` epochs the network is scored, and training stops after
            `patience` checks without a new best.
        rounds: Length of a session.
        score: Number on validation users that is largest for the best checkpoint; None takes the last one.
        rng: Random numbers for users, exploration and replay.
    """
    epochs, mask_target = settings["epochs"], settings["mask_target"]
    optimiser = torch.optim.Adam(network.parameters(), lr=settings["learning_rate"], fused=True)
    episodes = Episodes(rounds)
    best, best_state, n_worse = -np.inf, None, 0
    for number in range(epochs):
        epoch = number * RELEASED_EPOCHS / epochs
        users = rng.integers(len(truth), size=USERS)
        episodes.add(*play_sessions(network, truth[users], rounds, exploration(epoch), rng))
        for _ in range(settings["steps"]):
            items, levels, t = episodes.sample(BATCH, rng)
            loss = batch_loss(network, items, levels, t, discount(epoch), mask_target=mask_target)
            optimiser.zero_grad(set_to_none=True)
            loss.backward()  # type: ignore[no-untyped-call]
            optimiser.step()
        if not torch.isfinite(loss):
            raise TrainingDivergedError(f"the loss of nicf is {loss.item()} at epoch {number}; lower learning_rate")
        if score is not None and (number + 1) % settings["check_every"] == 0:
            found = score(network)
            n_worse += 1
            if found > best:
                best, n_worse = found, 0
                best_state = {name: part.clone() for name, part in network.state_dict().items()}
            if n_worse >= settings["patience"]:
                break
    if best_state is not None:
        network.load_state_dict(best_state)


def fit_nicf(task: Task, settings: Settings, rng: np.random.Generator) -> Nicf:
    """Train on the training users; the checkpoint with the most successes on validation users is taken."""
    train, reward = task.train, task.reward_of("raw")
    network = QNetwork(train.n_items, settings["dim"], torch.Generator().manual_seed(int(rng.integers(2**31))))
    rng.integers(2**31)  # published rows were drawn after one more number
    truth = np.zeros((train.n_users, train.n_items + 1), dtype=np.uint8)
    truth[train.user_idx, train.item_idx + 1] = rating_levels(train.values, reward)
    rounds = min(task.rounds * task.slate, train.n_items)
    tables, check_rng_seed = task.validation_truth(), int(rng.integers(2**31))

    def score(candidate: QNetwork) -> float:
        rng = np.random.default_rng(check_rng_seed)
        shown = replay(Nicf(candidate, reward), tables, rounds=task.rounds, slate=task.slate, rng=rng)
        return float(reward.is_satisfied(shown.values).sum() / len(shown.values))

    with one_torch_thread():
        train_nicf(network, truth, settings, rounds, score if tables and len(tables[0]) else None, rng)
    return Nicf(network, reward)
