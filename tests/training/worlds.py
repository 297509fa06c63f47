"""Small logs whose right answer is known, and the pieces that training tests share."""

from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import aslinearoperator

from igcf.config import GraphConfig
from igcf.data.interactions import Interactions
from igcf.data.splits import ColdStart
from igcf.data.success import success_in
from igcf.model import Model, Reward
from igcf.online import ModelLearner, Policy, replay
from igcf.training.variational.run import GraphTrainingData


def checkerboard(n_users: int = 60, n_items: int = 40, *, share: float = 0.6, seed: int = 0) -> Interactions:
    """Even users give even items 5 and odd items 1, odd users the other way round; a share of all pairs is seen."""
    users, items = np.nonzero(np.random.default_rng(seed).random((n_users, n_items)) < share)
    return log_of(users, items, np.where((users + items) % 2 == 0, 5.0, 1.0), n_users, n_items)


def log_of(users: Any, items: Any, values: Any, n_users: int, n_items: int) -> Interactions:
    return Interactions(
        user_ids=tuple(f"u{user}" for user in range(n_users)),
        item_ids=tuple(f"i{item}" for item in range(n_items)),
        user_idx=np.asarray(users, dtype=np.int32),
        item_idx=np.asarray(items, dtype=np.int32),
        values=np.asarray(values, dtype=np.float32),
    )


def small_world(config: GraphConfig, n_users: int = 12, n_items: int = 9, seed: int = 0) -> GraphTrainingData:
    return GraphTrainingData.from_log(
        (log := checkerboard(n_users, n_items, share=0.5, seed=seed)),
        config,
        Reward.from_log(log.values, config.reward, success_in(log).threshold),
    )


def hits(model: Model, policy: Policy, users: Interactions, rounds: int) -> float:
    """Mean number of successes when the users are played as new ones."""
    shown = replay(ModelLearner(model, policy), users.dense(), rounds=rounds, rng=np.random.default_rng(0))
    return float(model.reward.is_satisfied(shown.values).sum(axis=(1, 2)).mean())


def popular_hits(split: ColdStart, rounds: int, satisfied: float = 4.0) -> float:
    """The same for showing everybody what most training users reacted to."""
    counts = np.bincount(split.train.item_idx, minlength=split.train.n_items)
    return float((split.test.dense()[:, np.argsort(-counts)[:rounds]] >= satisfied).sum(axis=1).mean())


def two_steps(adjacency: Any, config: GraphConfig) -> Any:
    """A graph of one's own: each node keeps half of itself and gets half from two steps away, as a linear operator."""
    return 0.5 * aslinearoperator(sp.eye_array(adjacency.shape[0])) + 0.5 * aslinearoperator(adjacency) ** 2
