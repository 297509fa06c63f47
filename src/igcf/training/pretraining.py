"""From an interaction log to a model: the one function that the library and the command line call."""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from igcf.arrays import Float32Array
from igcf.config import ExpertsConfig, PretrainConfig, configured
from igcf.data.interactions import Interactions
from igcf.errors import ConfigError, DataError, WorkerLostError
from igcf.model import Model, Reward
from igcf.training.experts import fit_experts
from igcf.training.graph.population import OnlineSettings, Vectors
from igcf.training.graph.shard import Shard, Which
from igcf.training.graph.train import Fit, Progress, fit
from igcf.training.graph.training_data import World
from igcf.training.selection import held_out_users, interactive_precision, tuned, validation_table
from igcf.training.sharded.engines import Engine, Workers, team_of
from igcf.training.sharded.team import Team


def pretrain(
    data: Interactions,
    config: PretrainConfig | ExpertsConfig | None = None,
    *,
    validation: Interactions | None = None,
    checkpoint: str | Path | None = None,
    resume: bool = False,
    progress: Callable[[Progress], None] | None = None,
    shards: int | None = None,
    engine: Engine | None = None,
    address: str | None = None,
    **settings: Any,
) -> Model:
    """Learn a model from a log: by default the experts, or the paper's variational graph model (alg:pretrain).

    Any setting of the graph model (`dim`, `graph`, `layers`, `feedback`, `missing`, ...) asks for it; so does
    `method="graph"`. Both methods choose what is left open on validation users.

    Validation users have the same items in the same order and are not in `data`. On them the graph model's training
    stops when their interactive precision no longer grows, and its online noise and gamma are chosen. Without, a few of
    the most active users are held out for such choices, and the model is then learned once more from everybody.

    Args:
        data: The log.
        config: All settings, an `ExpertsConfig` or a `PretrainConfig`; the defaults if left out.
        validation: Reactions of users that are not in `data`.
        checkpoint: A folder for checkpoints, written at every look at the validation users.
        resume: Continue from the checkpoints in that folder, to the same result as without interruption.
        progress: Called after every epoch.
        shards: Over how many workers the graph model's columns are split; the result does not depend on it.
        engine: What runs them: processes of this machine (`local`), of `torchrun`, or actors of a `ray` cluster.
        address: Of the Ray cluster; without, one is started on this machine.
        **settings: Fields of the configuration that differ from `config`, for instance `dim=32, seed=1`.
    """
    workers = Workers(shards, engine, address)
    if config is None and workers.are_asked_for:
        settings = {"method": "graph"} | settings
    config = configured(config, settings)
    if len(data) == 0:
        raise DataError(f"the log {data.name!r} holds no reaction to learn from")
    if resume and checkpoint is None:
        raise ConfigError("resume needs the checkpoint folder of the run to continue")
    if isinstance(config, ExpertsConfig):
        if checkpoint is not None:
            raise ConfigError("checkpoints are for method=graph; the experts are learned anew in about a minute")
        if workers.are_asked_for:
            raise ConfigError("several workers are for method=graph; the experts are learned in one process")
        return fit_experts(data, config, validation=validation, progress=progress)
    workers.check(config)
    begun = time.perf_counter()
    reward = Reward.from_log(data.values, config.reward, config.satisfied)
    folder = None if checkpoint is None else Path(checkpoint)
    try:
        with team_of(workers) as team:
            run = Run(config, reward, folder, resume, progress, team)
            if validation is not None:
                trained = run.select(data, validation_table(validation, data))
            else:
                held_out = held_out_users(data, config.holdout)
                trained = run.select_and_refit(data, held_out) if len(held_out) else run.train(data)
            return trained.model(seconds=time.perf_counter() - begun)
    except WorkerLostError as error:
        advice = "give a checkpoint folder to be able to resume" if folder is None else f"resume goes on from {folder}"
        raise WorkerLostError(f"training ended: {error}; {advice}") from error


@dataclass(frozen=True, eq=False)
class Run:
    """One call of `pretrain`: its settings and where it reports to."""

    config: PretrainConfig
    reward: Reward
    folder: Path | None
    resume: bool
    progress: Callable[[Progress], None] | None
    team: Team

    def train(
        self, data: Interactions, *, epochs: int | None = None, online: OnlineSettings | None = None
    ) -> "Trained":
        """Train without validation users."""
        world = World.of(data, self.config, self.reward)
        result = self._fit(world, "final", epochs=epochs)
        return Trained(world, result, online or world.online_settings(self.vectors("best")), None)

    def select(self, data: Interactions, truth: Float32Array) -> "Trained":
        """Train, keeping the parameters and the online settings that are best on the validation users."""
        world = World.of(data, self.config, self.reward)

        def precision(vectors: Vectors, online: OnlineSettings) -> float:
            return interactive_precision(world.online_model(vectors, online), truth, self.config.validate_rounds)

        def score(_: Team) -> float:
            vectors = self.vectors("now")
            return precision(vectors, world.online_settings(vectors))

        result = self._fit(world, "selection", score=score)
        vectors = self.vectors("best")
        online, best = world.online_settings(vectors), result.state.best_score
        if self.config.tune:
            online, best = tuned(online, lambda candidate: precision(vectors, candidate), self.config)
        return Trained(world, result, online, best)

    def select_and_refit(self, data: Interactions, held_out: np.ndarray[Any, np.dtype[np.integer]]) -> "Trained":
        """Choose on held-out users, then train on all users for as many epochs."""
        is_held_out = np.zeros(data.n_users, dtype=np.bool_)
        is_held_out[held_out] = True
        rest = data.subset(~is_held_out[data.user_idx])
        if len(rest) == 0:
            return self.train(data)
        chosen = self.select(rest, data.only_users(held_out).dense())
        final = self.train(data, epochs=chosen.result.state.best_epoch, online=chosen.online)
        return replace(final, precision=chosen.precision)

    def vectors(self, which: Which) -> Vectors:
        """Propagated vectors of now or of the best parameters."""
        return vectors_of(self.team, which, with_variances=self.config.total_variance)

    def _fit(
        self,
        world: "World",
        name: str,
        *,
        epochs: int | None = None,
        score: Callable[[Team], float] | None = None,
    ) -> Fit:
        path = None if self.folder is None else self.folder / f"{name}.safetensors"
        return fit(
            world.problem,
            self.config,
            team=self.team,
            epochs=epochs,
            score=score,
            checkpoint=path,
            resume=self.resume,
            progress=self.progress,
        )


@dataclass(frozen=True, eq=False)
class Trained:
    """A finished training and what was chosen."""

    world: World
    result: Fit
    online: OnlineSettings
    precision: float | None
    """Successes per validation user."""

    def model(self, *, seconds: float) -> Model:
        """The artifact with item variances and the record of how it came about."""
        config, state = self.world.config, self.result.state
        last = state.history[-1] if state.history else {}
        metadata = {
            "settings": config.as_dict(),
            "data": {
                "name": self.world.data.name,
                "fingerprint": self.world.problem.fingerprint,
                "users": self.world.data.n_users,
                "items": self.world.data.n_items,
                "reactions": len(self.world.data),
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
        vectors = vectors_of(self.result.team, "best", with_variances=True)
        return self.world.online_model(vectors, self.online, metadata=metadata)


def vectors_of(team: Team, which: Which, *, with_variances: bool) -> Vectors:
    """The vectors of the current or the best parameters, from all workers."""
    vectors = team.call(Shard.vectors, which=which, with_variances=with_variances)
    assert isinstance(vectors, Vectors)  # noqa: S101
    return vectors
