"""One call of `pretrain` for the graph model: training, choices on validation users, and the finished model."""

import time
from dataclasses import dataclass
from typing import Any

import numpy as np

from igcf.arrays import Float32Array
from igcf.config import GraphConfig
from igcf.data.interactions import Interactions
from igcf.data.success import success_in
from igcf.graph import build_propagation
from igcf.model import Model, Reward
from igcf.training.calibrating import precision as interactive_precision
from igcf.training.checkpoint import Checkpoint
from igcf.training.progress import Watch
from igcf.training.selection import most_active, validation_table
from igcf.training.variational.objective import curvature
from igcf.training.variational.pairs import TrainingPairs
from igcf.training.variational.population import (
    OnlineSettings,
    Vectors,
    logits_as_rewards,
    meta_distribution,
    residual_variances,
    root_mean_square,
    tuned_online_settings,
)
from igcf.training.variational.train import Fit, fit


@dataclass(frozen=True, eq=False)
class GraphTrainingData:
    """A log with its rewards and its user-item graph."""

    data: Interactions
    config: GraphConfig
    reward: Reward
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
        )
        return cls(data, config, reward, training_pairs)

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

    def precision(self, vectors: Vectors, online: OnlineSettings | None, truth: Float32Array) -> float:
        """Return the successes per user of `truth`, played as new users; None: settings that follow from the log."""
        model = self.online_model(vectors, online or self.online_settings(vectors))
        return interactive_precision(model, truth, self.config.validate_rounds)

    def online_model(
        self, vectors: Vectors, online: OnlineSettings, *, metadata: dict[str, Any] | None = None
    ) -> Model:
        """Build the model that the online phase starts from."""
        mean, cov = meta_distribution(vectors.users, gamma=online.gamma)
        if online.xi is not None:
            vectors, mean, cov = logits_as_rewards(vectors, mean, cov, online.xi)
        return Model(
            item_vectors=vectors.items,
            item_variances=vectors.item_variances,
            prior_mean=mean,
            prior_cov=cov,
            noise_var=online.noise_var,
            item_ids=self.data.item_ids,
            titles=self.data.titles,
            categories=self.data.categories,
            attributes=self.data.attributes,
            reward=self.reward,
            metadata=metadata,
            appeared=self.data.first_appearances(),
        )


def fit_graph(
    data: Interactions,
    config: GraphConfig,
    *,
    validation: Interactions | None,
    checkpoint: Checkpoint,
    progress: Watch,
) -> Model:
    """Learn the graph model; choices are made on validation users, or on the most active users held out.

    The final model is refitted on all users, held-out ones included, for as many epochs. Its state is checkpointed,
    and an existing checkpoint is resumed.
    """
    begun = time.perf_counter()
    reward = Reward.from_log(data.values, config.reward, success_in(data, config.satisfied).threshold)
    rest, truth = _divided(data, config, validation)
    online, precision, epochs = None, None, None
    if truth is not None:
        world = GraphTrainingData.from_log(rest, config, reward)
        result = fit(
            world.training_pairs,
            config,
            score=lambda trainer: world.precision(trainer.vectors(trainer.parameters), None, truth),
            checkpoint=checkpoint,
            stage="selection",
            progress=progress,
        )
        vectors = result.trainer.vectors(result.trainer.best)
        online, precision, epochs = world.online_settings(vectors), result.state.best_score, result.state.best_epoch
        if config.tune:
            online, precision = tuned_online_settings(
                online, lambda candidate: world.precision(vectors, candidate, truth), config
            )
    if truth is None or rest is not data:
        world = GraphTrainingData.from_log(data, config, reward)
        result = fit(
            world.training_pairs, config, epochs=epochs, checkpoint=checkpoint, stage="final", progress=progress
        )
    online = online or world.online_settings(result.trainer.vectors(result.trainer.best))
    return _model(world, result, online, precision, time.perf_counter() - begun)


def _divided(
    data: Interactions, config: GraphConfig, validation: Interactions | None
) -> tuple[Interactions, Float32Array | None]:
    """Return the log to choose with, and the reactions of the users to choose on; None where nobody is set aside."""
    if validation is not None:
        return data, validation_table(validation, data)
    held_out = most_active(np.bincount(data.user_idx, minlength=data.n_users), config.holdout)
    rest = data.subset(~np.isin(data.user_idx, held_out))
    if not len(held_out) or not len(rest):
        return data, None
    return rest, data.only_users(held_out).dense()


def _model(
    world: GraphTrainingData, result: Fit, online: OnlineSettings, precision: float | None, seconds: float
) -> Model:
    """Build the model with item variances and the record of how it was trained."""
    data, config, state = world.data, world.config, result.state
    last = state.history[-1] if state.history else {}
    metadata = {
        "settings": config.as_dict(),
        "data": {
            "name": data.name,
            "fingerprint": data.fingerprint(),
            "users": data.n_users,
            "items": data.n_items,
            "reactions": len(data),
        },
        "online": {"mean_noise_var": float(np.mean(online.noise_var)), "gamma": online.gamma},
        "metrics": {
            "epochs": state.best_epoch,
            "loss": last.get("loss"),
            "kl": last.get("kl"),
            "validation_precision": precision,
            "validation_rounds": config.validate_rounds,
        },
        "seconds": round(seconds, 3),
    }
    vectors = result.trainer.vectors(result.trainer.best, with_variances=True)
    return world.online_model(vectors, online, metadata=metadata)
