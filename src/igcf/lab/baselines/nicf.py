"""`nicf`: neural interactive collaborative filtering by Q-learning, as a learner."""

from functools import partial

import numpy as np
import torch

from igcf.arrays import BoolArray, Float32Array, IntArray
from igcf.lab.baselines.nicf_network import LEVELS, QNetwork
from igcf.lab.baselines.nicf_training import rating_levels, train_nicf
from igcf.lab.baselines.task import Settings, Task
from igcf.model import Reward
from igcf.online import replay, top_k
from igcf.threads import at_most_threads

one_torch_thread = partial(at_most_threads, 1, ("torch",))
"""Context manager for small products: threads that wait for each other would take many times as long."""


class Nicf:
    """Learner that shows the items with the largest learned values."""

    def __init__(self, network: QNetwork, reward: Reward) -> None:
        self.network, self.reward = network, reward

    def begin(self, n_users: int, *, rng: np.random.Generator) -> None:
        """Start empty sessions."""
        self._rng = rng
        self._items = np.zeros((n_users, 0), dtype=np.int64)
        self._levels = np.zeros((n_users, 0), dtype=np.int64)
        self._last = np.zeros((n_users, LEVELS), dtype=np.int64)

    def select(self, available: BoolArray, k: int) -> IntArray:
        """Select the items with the largest values."""
        with torch.inference_mode(), one_torch_thread():
            if self.network.blocks:
                values = self.network(torch.from_numpy(self._items), torch.from_numpy(self._levels))
            else:
                values = self.network.values(self.network.last_encoded(torch.from_numpy(self._last)))
        return top_k(values.numpy()[:, 1:].astype(np.float64), available, k, rng=self._rng)

    def observe(self, rows: IntArray, values: Float32Array) -> None:
        """Append the reactions, best slot first."""
        items, levels = rows.astype(np.int64) + 1, rating_levels(values, self.reward)
        self._items = np.concatenate([self._items, items], axis=1)
        self._levels = np.concatenate([self._levels, levels], axis=1)
        for slot in range(items.shape[1]):
            self._last[np.arange(len(items)), levels[:, slot]] = items[:, slot]


def fit_nicf(task: Task, settings: Settings, rng: np.random.Generator) -> Nicf:
    """Train on the training users; the checkpoint with the most successes on validation users is taken."""
    train, reward = task.train, task.reward_of("raw")
    generator = torch.Generator().manual_seed(int(rng.integers(2**31)))
    torch.manual_seed(int(rng.integers(2**31)))  # dropout draws from the global generator
    network = QNetwork(
        train.n_items,
        settings["dim"],
        n_blocks=settings["blocks"],
        attention=settings["attention"],
        dropout=settings["dropout"],
        generator=generator,
    )
    truth = np.zeros((train.n_users, train.n_items + 1), dtype=np.uint8)
    truth[train.user_idx, train.item_idx + 1] = rating_levels(train.values, reward)
    rounds = min(task.rounds * task.slate, train.n_items)
    tables, check_rng_seed = task.validation_truth(), int(rng.integers(2**31))

    def score(candidate: QNetwork) -> float:
        rng = np.random.default_rng(check_rng_seed)
        shown = replay(Nicf(candidate, reward), tables, rounds=task.rounds, slate=task.slate, rng=rng)
        return float(reward.is_satisfied(shown.values).sum() / len(shown.values))

    with one_torch_thread():
        train_nicf(
            network,
            truth,
            settings,
            rounds=rounds,
            score=score if tables and len(tables[0]) else None,
            rng=rng,
        )
    return Nicf(network, reward)
