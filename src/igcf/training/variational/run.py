"""One call of `pretrain` for the graph model: training, choices on validation users, and the finished model."""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from igcf.arrays import Float32Array, IntArray
from igcf.config import GraphConfig
from igcf.data.interactions import Interactions
from igcf.data.success import success_in
from igcf.graph import build_propagation
from igcf.model import Model, Reward
from igcf.training.calibrating import precision as interactive_precision
from igcf.training.kept import Kept
from igcf.training.progress import Watch
from igcf.training.selection import most_active, validation_table
from igcf.training.variational.objective import curvature
from igcf.training.variational.pairs import TrainingPairs
from igcf.training.variational.population import (
    Linear,
    OnlineSettings,
    Vectors,
    logits_as_rewards,
    meta_distribution,
    residual_variances,
    root_mean_square,
    tuned_online_settings,
)
from igcf.training.variational.train import Fit, Trainer, fit


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

    def online_model(
        self, vectors: Vectors, online: OnlineSettings, *, metadata: dict[str, Any] | None = None
    ) -> Model:
        """Build the model that the online phase starts from."""
        mean, cov = meta_distribution(vectors.users, gamma=online.gamma)
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


def fit_graph(
    data: Interactions,
    config: GraphConfig,
    *,
    validation: Interactions | None,
    kept: Kept,
    progress: Watch,
) -> Model:
    """Learn the graph model; choices are made on validation users, or on the most active users held out.

    Its state is kept, and an existing state is resumed.
    """
    begun = time.perf_counter()
    reward = Reward.from_log(data.values, config.reward, success_in(data, config.satisfied).threshold)
    training = _Training(config, reward, kept, progress)
    if validation is not None:
        trained = training.select(data, validation_table(validation, data))
    else:
        held_out = most_active(np.bincount(data.user_idx, minlength=data.n_users), config.holdout)
        trained = training.select_and_refit(data, held_out) if len(held_out) else training.train(data)
    return trained.model(seconds=time.perf_counter() - begun)


@dataclass(frozen=True, eq=False)
class Trained:
    """A finished training with the settings of the online phase that were chosen."""

    training_data: GraphTrainingData
    result: Fit
    online: OnlineSettings
    precision: float | None
    """Successes per validation user."""

    def model(self, *, seconds: float) -> Model:
        """Build the model with item variances and the record of how it was trained."""
        data, config, state = self.training_data.data, self.training_data.config, self.result.state
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
            "online": {"mean_noise_var": float(np.mean(self.online.noise_var)), "gamma": self.online.gamma},
            "metrics": {
                "epochs": state.best_epoch,
                "loss": last.get("loss"),
                "kl": last.get("kl"),
                "validation_precision": self.precision,
                "validation_rounds": config.validate_rounds,
            },
            "seconds": round(seconds, 3),
        }
        vectors = self.result.trainer.vectors(self.result.trainer.best, with_variances=True)
        return self.training_data.online_model(vectors, self.online, metadata=metadata)


@dataclass(frozen=True, eq=False)
class _Training:
    """The trainings of one run."""

    config: GraphConfig
    reward: Reward
    kept: Kept
    progress: Watch

    def train(self, data: Interactions, *, epochs: int | None = None, online: OnlineSettings | None = None) -> Trained:
        """Train without validation users."""
        training_data = GraphTrainingData.from_log(data, self.config, self.reward)
        result = self._fit(training_data, "final", epochs=epochs)
        online = online or training_data.online_settings(result.trainer.vectors(result.trainer.best))
        return Trained(training_data, result, online, None)

    def select(self, data: Interactions, truth: Float32Array) -> Trained:
        """Train, and take the parameters and the online settings that are best on the validation users."""
        config = self.config
        training_data = GraphTrainingData.from_log(data, config, self.reward)

        def precision(vectors: Vectors, online: OnlineSettings) -> float:
            return interactive_precision(training_data.online_model(vectors, online), truth, config.validate_rounds)

        def score(trainer: Trainer) -> float:
            vectors = trainer.vectors(trainer.parameters)
            return precision(vectors, training_data.online_settings(vectors))

        result = self._fit(training_data, "selection", score=score)
        vectors = result.trainer.vectors(result.trainer.best)
        online, best = training_data.online_settings(vectors), result.state.best_score
        if config.tune:
            online, best = tuned_online_settings(online, lambda candidate: precision(vectors, candidate), config)
        return Trained(training_data, result, online, best)

    def select_and_refit(self, data: Interactions, held_out: IntArray) -> Trained:
        """Choose on held-out users, then train on all users for as many epochs."""
        is_held_out = np.zeros(data.n_users, dtype=np.bool_)
        is_held_out[held_out] = True
        rest = data.subset(~is_held_out[data.user_idx])
        if len(rest) == 0:
            return self.train(data)
        selected = self.select(rest, data.only_users(held_out).dense())
        final = self.train(data, epochs=selected.result.state.best_epoch, online=selected.online)
        return replace(final, precision=selected.precision)

    def _fit(
        self,
        training_data: GraphTrainingData,
        name: str,
        *,
        epochs: int | None = None,
        score: Callable[[Trainer], float] | None = None,
    ) -> Fit:
        return fit(
            training_data.training_pairs,
            self.config,
            epochs=epochs,
            score=score,
            kept=self.kept,
            stage=name,
            progress=self.progress,
        )
