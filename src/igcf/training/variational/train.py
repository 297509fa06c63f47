"""Training of the graph model (alg:pretrain): steps on the evidence lower bound, epochs, validation, checkpoints."""

import json
import math
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from igcf.config import GraphConfig
from igcf.errors import TrainingDivergedError
from igcf.threads import at_most_threads
from igcf.training.checkpoint import NO_CHECKPOINT, Checkpoint
from igcf.training.progress import Progress, StepStats, Watch
from igcf.training.variational import objective
from igcf.training.variational.objective import Parameters, initial_parameters, sample_and_kl, standard_normal
from igcf.training.variational.pairs import Pairs, TrainingPairs, pair_scores, propagated
from igcf.training.variational.population import Vectors, user_sums

SMALL = 1 << 22
"""Number of entries below which torch uses one thread: its threads spin, and gain little beside sparse products."""
LOWEST_RATE = 0.05  # share of the learning rate at which the cosine schedule ends


class Trainer:
    """The current and the best parameters of a training, and the optimiser that changes the current ones."""

    def __init__(self, training_pairs: TrainingPairs, config: GraphConfig) -> None:
        self.config, self.training_pairs = config, training_pairs
        self.parameters = initial_parameters(training_pairs.n_nodes, config)
        self.best = Parameters(*(tensor.detach().clone() for tensor in self.parameters.tensors()))
        self.optimiser = make_optimiser(self.parameters, config)

    def epoch(self, number: int, first_step: int) -> StepStats:
        """Take the steps of one epoch and return the mean terms of the loss."""
        config, n_pairs = self.config, self.training_pairs.n_pairs
        n_steps = math.ceil(n_pairs / (config.batch_size or n_pairs)) * config.epochs
        mean = np.zeros(3)
        with step_threads(self.training_pairs, config):
            for step, batch in enumerate(self.training_pairs.batches(config, number), start=first_step):
                for group in self.optimiser.param_groups:
                    group["lr"] = learning_rate(config, step / n_steps)
                stats = self.step(batch, step)
                mean += len(batch) / n_pairs * np.array([stats.loss, stats.nll, stats.kl])
        return StepStats(*mean.tolist())

    def step(self, batch: Pairs, number: int) -> StepStats:
        """Take one step on the negative evidence lower bound of a batch."""
        self.optimiser.zero_grad(set_to_none=True)
        nll, kl = self.elbo_terms(batch, number)
        config = self.config
        loss = nll + config.kl_weight * kl
        if not math.isfinite(loss.item()):
            raise TrainingDivergedError(
                f"training diverged: the loss became {loss.item()} (likelihood {nll.item():.3g}, KL {kl.item():.3g}); "
                f"lower learning_rate, now {config.learning_rate:g}, or raise noise_std, now {config.noise_std:g}"
            )
        loss.backward()  # type: ignore[no-untyped-call]
        self.optimiser.step()
        return StepStats(loss.item(), nll.item(), config.kl_weight * kl.item())

    def elbo_terms(self, batch: Pairs, step: int) -> tuple[Tensor, Tensor]:
        """Compute the negative log likelihood of `batch` under one sample and the KL, both per pair."""
        config, training_pairs, parameters = self.config, self.training_pairs, self.parameters
        noise = standard_normal(training_pairs.n_nodes, config.dim, seed=(config.seed, step + 1))
        sample, kl = sample_and_kl(parameters.mean, parameters.rho, noise, config.prior_std)
        nodes = propagated(training_pairs.propagation, sample)
        U, V = torch.split(nodes, [training_pairs.n_users, training_pairs.n_items])
        scores = pair_scores(batch, U, V)
        targets = torch.from_numpy(batch.targets)
        noise_var, weight = config.noise_std**2, config.missing_weight
        if config.feedback == "continuous" and config.missing == "zero":
            nll = objective.full_gaussian(U, V, scores, targets, noise_var=noise_var, missing_weight=weight)
        elif config.feedback == "continuous":
            nll = objective.observed_gaussian(scores, targets, noise_var=noise_var)
        elif config.missing == "zero":
            nll = objective.full_bernoulli_bound(U, V, scores, targets, missing_weight=weight)
        else:
            nll = objective.observed_bernoulli(scores, targets)
        # the KL belongs to the whole log: a batch of |S_b| pairs carries the share |S_b| / |S| of it
        return nll / len(batch), kl / training_pairs.n_pairs

    def remember(self) -> None:
        """Copy the current parameters to the best ones."""
        self.best.mean.copy_(self.parameters.mean.detach())
        self.best.rho.copy_(self.parameters.rho.detach())

    def vectors(self, parameters: Parameters, *, with_variances: bool = False) -> Vectors:
        """Return propagated means and, if asked for, variances, which take as long as many steps."""
        pairs = self.training_pairs
        users, items = np.split(pairs.propagation.apply(parameters.mean.detach().numpy()), [pairs.n_users])
        sums = user_sums(users, items, pairs.all_pairs)
        if not with_variances:
            return Vectors(items, sums)
        variances = pairs.propagation.variances(parameters.std.detach().numpy() ** 2, rng=np.random.default_rng(0))
        return Vectors(items, sums, variances[pairs.n_users :])

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Return what is needed to resume training here; parameters share their memory."""
        states = self.optimiser.state_dict()["state"]
        tensors = {
            "mean": self.parameters.mean.detach(),
            "rho": self.parameters.rho.detach(),
            "best_mean": self.best.mean,
            "best_rho": self.best.rho,
            **{
                f"optimiser.{index}.{name}": value
                for index, values in states.items()
                for name, value in values.items()
                if isinstance(value, Tensor)
            },
        }
        return {name: tensor.numpy() for name, tensor in tensors.items()}

    def restore(self, saved: dict[str, npt.NDArray[Any]]) -> None:
        """Take over what `arrays` returned."""
        for index, tensor in enumerate(self.parameters.tensors()):
            prefix = f"optimiser.{index}."
            own = {name.removeprefix(prefix): each for name, each in saved.items() if name.startswith(prefix)}
            state = {name: torch.from_numpy(each) for name, each in own.items()}
            if state:
                self.optimiser.state[tensor] = state
        for name, array in self.arrays().items():
            if not name.startswith("optimiser."):
                array[...] = saved[name]


def learning_rate(config: GraphConfig, done: float) -> float:
    """Return the learning rate after the share `done` of all steps."""
    if config.schedule == "constant":
        return config.learning_rate
    return config.learning_rate * (LOWEST_RATE + (1 - LOWEST_RATE) * 0.5 * (1 + math.cos(math.pi * done)))


def make_optimiser(parameters: Parameters, config: GraphConfig) -> torch.optim.Optimizer:
    """Make the optimiser of the settings: plain SGD as in alg:pretrain, or Adam."""
    if config.optimiser == "sgd":
        return torch.optim.SGD(parameters.tensors(), lr=config.learning_rate)
    return torch.optim.Adam(parameters.tensors(), lr=config.learning_rate, fused=True)


def step_threads(training_pairs: TrainingPairs, config: GraphConfig) -> AbstractContextManager[None]:
    """Keep torch in one thread for small tensors, where waking other threads takes longer than the work."""
    is_small = training_pairs.n_nodes * config.dim < SMALL
    return at_most_threads(1 if is_small else torch.get_num_threads(), ("torch",))


@dataclass
class FitState:
    """State of a training run, beside its tensors, that a resumed run needs."""

    epoch: int = 0
    steps: int = 0
    best_epoch: int = 0
    best_score: float | None = None
    looks_without_gain: int = 0
    seconds: float = 0.0
    history: list[dict[str, float | None]] = field(default_factory=list)
    finished: bool = False


@dataclass(frozen=True, eq=False)
class Fit:
    """A finished training: the trainer with the best parameters, and the history of the run."""

    trainer: Trainer
    state: FitState


def fit(
    training_pairs: TrainingPairs,
    config: GraphConfig,
    *,
    epochs: int | None = None,
    score: Callable[[Trainer], float] | None = None,
    checkpoint: Checkpoint = NO_CHECKPOINT,
    stage: str = "final",
    progress: Watch | None = None,
) -> Fit:
    """Train for `epochs` of the schedule of `config` (all of them unless given), or until `score` stops growing.

    The random numbers of a step depend on the seed and the number of the step only: a run that was interrupted and
    resumed, from what is `kept` of its `stage`, ends with the same parameters as one that was not.
    """
    begun = time.perf_counter()
    last_epoch = config.epochs if epochs is None else min(epochs, config.epochs)
    steps_per_epoch = 1 if config.batch_size is None else -(-training_pairs.n_pairs // config.batch_size)
    trainer = Trainer(training_pairs, config)
    state = FitState()
    if (saved := checkpoint.load(stage)) is not None:
        state = FitState(**json.loads(str(saved.pop("state"))))
        trainer.restore(saved)
    before = state.seconds
    while state.epoch < last_epoch and not state.finished:
        mean = trainer.epoch(state.epoch, state.steps)
        state.steps += steps_per_epoch
        state.epoch += 1
        is_last = state.epoch == last_epoch
        validation = None
        if score is not None and (state.epoch % config.validate_every == 0 or is_last):
            validation = score(trainer)
            _remember(state, validation, trainer)
        elif score is None and is_last:
            trainer.remember()
            state.best_epoch = state.epoch
        state.seconds = before + time.perf_counter() - begun
        state.history.append({"epoch": state.epoch, "validation": validation, **asdict(mean)})
        state.finished = state.finished or is_last
        if state.finished or state.epoch % config.validate_every == 0:
            checkpoint.save(stage, {"state": np.array(json.dumps(asdict(state))), **trainer.arrays()})
        if progress is not None:
            progress(Progress(state.epoch, last_epoch, mean, validation, state.best_score, state.seconds))
    return Fit(trainer, state)


def _remember(state: FitState, validation: float, trainer: Trainer) -> None:
    """Remember the parameters unless earlier ones were better, and count the validations without improvement."""
    has_gained = state.best_score is None or validation > state.best_score
    if state.best_score is None or validation >= state.best_score:
        state.best_score, state.best_epoch = validation, state.epoch
        trainer.remember()
    state.looks_without_gain = 0 if has_gained else state.looks_without_gain + 1
    state.finished = state.looks_without_gain >= trainer.config.patience
