"""The log that the graph model is trained on, and the way from trained parameters to a model for the online phase."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from igcf.config import GraphConfig
from igcf.data.interactions import Interactions
from igcf.graph import Propagation, build_propagation
from igcf.model import Model, Reward
from igcf.training.variational.objective import curvature
from igcf.training.variational.population import (
    Linear,
    OnlineSettings,
    Vectors,
    logits_as_rewards,
    meta_distribution,
    residual_variances,
    root_mean_square,
)
from igcf.training.variational.training_pairs import TrainingPairs


@dataclass(frozen=True, eq=False)
class GraphTrainingData:
    """A log with its rewards and its user-item graph."""

    data: Interactions
    config: GraphConfig
    reward: Reward
    propagation: Propagation
    training_pairs: TrainingPairs

    @classmethod
    def from_log(cls, data: Interactions, config: GraphConfig, reward: Reward) -> "GraphTrainingData":
        """Compute rewards and graph of a log; users without any reaction are left out."""
        counts = np.bincount(data.user_idx, minlength=data.n_users)
        if not counts.all():
            data = data.only_users(np.flatnonzero(counts))
        is_edge = np.ones(len(data), dtype=np.bool_)
        if config.edges == "satisfied":
            is_edge = reward.is_satisfied(data.values)
        propagation = build_propagation(
            config, data.n_users, data.n_items, data.user_idx[is_edge], data.item_idx[is_edge]
        )
        training_pairs = TrainingPairs(
            n_users=data.n_users,
            n_items=data.n_items,
            user_idx=data.user_idx,
            item_idx=data.item_idx,
            targets=reward.of(data.values).astype(np.float32),
            propagation=propagation,
            fingerprint=data.fingerprint(),
        )
        return cls(data, config, reward, propagation, training_pairs)

    def online_settings(self, vectors: Vectors) -> OnlineSettings:
        """Return noise and gamma of the online phase; noise that is not set is estimated from the log."""
        config = self.config
        if config.feedback == "binary" and config.binary_update == "bound":
            xi = root_mean_square(vectors.users)
            return OnlineSettings(config.online_noise_var or 2 * curvature(xi), config.gamma, xi)
        if config.online_noise_var is not None:
            return OnlineSettings(config.online_noise_var, config.gamma)
        noise = residual_variances(vectors, counts_missing=config.missing == "zero")
        if not config.item_noise:
            return OnlineSettings(float(np.average(noise, weights=vectors.users.counts)), config.gamma)
        return OnlineSettings(noise, config.gamma)

    def online_model(
        self, vectors: Vectors, online: OnlineSettings, *, metadata: dict[str, Any] | None = None
    ) -> Model:
        """Build the model that the online phase starts from."""
        variance = vectors.user_variance if self.config.total_variance else None
        mean, cov = meta_distribution(vectors.users, gamma=online.gamma, user_variance=variance)
        linear = Linear(vectors.items, vectors.item_variances, mean, cov)
        if online.xi is not None:
            linear = logits_as_rewards(linear, online.xi)
        return Model(
            item_vectors=linear.item_vectors,
            item_variances=linear.item_variances,
            prior_mean=linear.prior_mean,
            prior_cov=linear.prior_cov,
            noise_var=online.noise_var,
            item_ids=self.data.item_ids,
            titles=self.data.titles,
            categories=self.data.categories,
            attributes=self.data.attributes,
            reward=self.reward,
            metadata=metadata,
            appeared=self.data.first_appearances(),
        )
