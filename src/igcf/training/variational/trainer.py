"""One training of the graph model: parameters, optimiser and the steps on the evidence lower bound."""

import math
from contextlib import AbstractContextManager
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from igcf.config import GraphConfig
from igcf.errors import TrainingDivergedError
from igcf.threads import at_most_threads
from igcf.training.progress import StepStats
from igcf.training.variational import objective
from igcf.training.variational.operators import make_operators
from igcf.training.variational.pairs import Pairs
from igcf.training.variational.parameters import Parameters, initial_parameters, standard_normal
from igcf.training.variational.population import Vectors, user_sums
from igcf.training.variational.sampling import sample_and_kl
from igcf.training.variational.training_pairs import TrainingPairs

SMALL = 1 << 22
"""Number of entries below which torch uses one thread: its threads spin, and gain little beside sparse products."""
LOWEST_RATE = 0.05
"""Share of the learning rate at which the cosine schedule ends."""
Which = Literal["now", "best"]


class Trainer:
    """The current and the best parameters of a training, and the optimiser that changes the current ones."""

    def __init__(self, training_pairs: TrainingPairs, config: GraphConfig) -> None:
        self.config, self.training_pairs = config, training_pairs
        self.operators = make_operators(training_pairs.propagation, config)
        self.parameters = initial_parameters(training_pairs.n_nodes, config)
        self.best = self.parameters.copied()
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
        noise = standard_normal(training_pairs.n_nodes, config.dim, seed=(config.seed, step + 1), device=config.device)
        sample, kl = sample_and_kl(parameters.mean, parameters.rho, noise, config.prior_std)
        nodes = self.operators.propagate(sample)
        U, V = torch.split(nodes, [training_pairs.n_users, training_pairs.n_items])
        scores = self.operators.scores(batch, U, V)
        targets = torch.from_numpy(batch.targets).to(nodes.device)
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

    def vectors(self, which: Which, *, with_variances: bool) -> Vectors:
        """Return propagated means and, if asked for, variances, which take as long as many steps."""
        pairs, parameters = self.training_pairs, self.best if which == "best" else self.parameters
        users, items = np.split(pairs.propagation.apply(parameters.mean.detach().cpu().numpy()), [pairs.n_users])
        sums = user_sums(users, items, pairs.all_pairs)
        if not with_variances:
            return Vectors(items, sums)
        variances = pairs.propagation.variances(
            parameters.std.detach().cpu().numpy() ** 2, rng=np.random.default_rng(0)
        )
        of_users, of_items = np.split(variances, [pairs.n_users])
        return Vectors(items, sums, of_items, of_users.mean(axis=0, dtype=np.float64))

    def tensors(self) -> dict[str, Tensor]:
        """Return the tensors of a checkpoint."""
        states = self.optimiser.state_dict()["state"]
        return {
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

    def restore(self, saved: dict[str, Tensor]) -> None:
        """Load the tensors of a checkpoint."""
        for index, tensor in enumerate(self.parameters.tensors()):
            prefix = f"optimiser.{index}."
            state = {name.removeprefix(prefix): each for name, each in saved.items() if name.startswith(prefix)}
            if state:
                self.optimiser.state[tensor] = state
        for name, tensor in self.tensors().items():
            if not name.startswith("optimiser."):
                tensor.copy_(saved[name])


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
