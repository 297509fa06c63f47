"""One worker's share of a training: its columns of all parameters, and the likelihood of its users.

The whole training of one process is the share of a single worker, so there is one way to take a step.
"""

import math
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from igcf.config import GraphConfig
from igcf.errors import TrainingDivergedError
from igcf.threads import at_most_threads
from igcf.training.cluster.exchange import rows_of_columns
from igcf.training.cluster.group import Group, gather_columns, scatter_columns
from igcf.training.cluster.layout import Layout
from igcf.training.progress import StepStats
from igcf.training.variational import objective
from igcf.training.variational.operators import make_operators
from igcf.training.variational.pairs import Pairs
from igcf.training.variational.parameters import Parameters, column_noise, initial_parameters
from igcf.training.variational.population import Vectors, user_sums
from igcf.training.variational.sampling import sample_and_kl
from igcf.training.variational.training_pairs import TrainingPairs

SMALL = 1 << 22
"""Number of entries below which torch uses one thread: its threads spin, and gain little beside sparse products."""
LOWEST_RATE = 0.05
"""Share of the learning rate at which the cosine schedule ends."""
ROW_BLOCK = 1 << 16
"""Rows of a tensor that are in memory in all dimensions when a checkpoint is written or read."""
Which = Literal["now", "best"]


class Shard:
    """One worker's share of a training; the whole training where there is no `group`.

    The public methods are collective: all workers of a group call the same ones in the same order.
    """

    def __init__(
        self,
        training_pairs: TrainingPairs,
        config: GraphConfig,
        *,
        layout: Layout | None = None,
        group: Group | None = None,
    ) -> None:
        self.config, self.group = config, group
        self.layout = layout or Layout(config.dim, training_pairs.n_users, training_pairs.n_items)
        rank = 0 if group is None else group.rank
        self.columns = self.layout.columns(rank)
        self.training_pairs = training_pairs.for_users(self.layout.users(rank))
        self.operators = make_operators(training_pairs.propagation, config)
        self.parameters = initial_parameters(training_pairs.n_nodes, config, self.columns)
        self.best = self.parameters.copied()
        self.optimiser = make_optimiser(self.parameters, config)

    def epoch(self, number: int, first_step: int) -> StepStats:
        """Take the steps of one epoch and return the mean terms of the loss over all workers."""
        config, n_pairs = self.config, self.training_pairs.n_pairs
        batch_size = config.batch_size or n_pairs
        n_steps = math.ceil(n_pairs / batch_size) * config.epochs
        mean = np.zeros(3)
        with step_threads(self.training_pairs, config):
            for index, batch in enumerate(self.training_pairs.batches(config, number)):
                step = first_step + index
                for group in self.optimiser.param_groups:
                    group["lr"] = learning_rate(config, step / n_steps)
                size = min(batch_size, n_pairs - index * batch_size)
                stats = self.step(batch, step, size=size)
                mean += size / n_pairs * np.array([stats.loss, stats.nll, stats.kl])
        return StepStats(*mean.tolist())

    def step(self, batch: Pairs, number: int, *, size: int) -> StepStats:
        """Take one step on the negative evidence lower bound of a batch that has `size` pairs over all workers."""
        self.optimiser.zero_grad(set_to_none=True)
        own = self.elbo_terms(batch, number, size=size)
        nll, kl = self._total(own[0].item(), own[1].item())
        config = self.config
        loss = nll + config.kl_weight * kl
        if not math.isfinite(loss):
            raise TrainingDivergedError(
                f"training diverged: the loss became {loss} (likelihood {nll:.3g}, KL {kl:.3g}); "
                f"lower learning_rate, now {config.learning_rate:g}, or raise noise_std, now {config.noise_std:g}"
            )
        (own[0] + config.kl_weight * own[1]).backward()  # type: ignore[no-untyped-call]
        self.optimiser.step()
        return StepStats(loss, nll, config.kl_weight * kl)

    def elbo_terms(self, batch: Pairs, step: int, *, size: int) -> tuple[Tensor, Tensor]:
        """Compute the negative log likelihood of `batch` under one sample and the KL of the columns, both per pair.

        The terms of all workers add up to those of the whole.
        """
        config, training_pairs, parameters = self.config, self.training_pairs, self.parameters
        noise = column_noise(training_pairs.n_nodes, self.columns, seed=(config.seed, step + 1), device=config.device)
        sample, kl = sample_and_kl(parameters.mean, parameters.rho, noise, config.prior_std)
        nodes = self.operators.propagate(sample)
        U, V = rows_of_columns(nodes, self.layout, self.group)
        scores = self.operators.scores(batch, U, V)
        targets = torch.from_numpy(batch.targets).to(nodes.device)
        noise_var, weight = config.noise_std**2, config.missing_weight
        if config.feedback == "continuous" and config.missing == "zero":
            nll = objective.full_gaussian(U, V, scores, targets, noise_var=noise_var, missing_weight=weight)
        elif config.feedback == "continuous":
            nll = objective.observed_gaussian(scores, targets, noise_var=noise_var)
        elif config.missing == "zero":
            nll = objective.full_bernoulli_bound(U, V, scores, targets, missing_weight=weight, total=self._total)
        else:
            nll = objective.observed_bernoulli(scores, targets)
        # the KL belongs to the whole log: a batch of |S_b| pairs carries the share |S_b| / |S| of it
        return nll / size, kl / training_pairs.n_pairs

    def remember(self) -> None:
        """Copy the current parameters to the best ones."""
        self.best.mean.copy_(self.parameters.mean.detach())
        self.best.rho.copy_(self.parameters.rho.detach())

    def vectors(self, which: Which, with_variances: bool) -> Vectors | None:
        """Return propagated means and, if asked for, variances, which take as long as many steps; None off rank 0."""
        training_pairs, propagation = self.training_pairs, self.training_pairs.propagation
        parameters = self.best if which == "best" else self.parameters
        nodes = torch.from_numpy(propagation.apply(parameters.mean.detach().cpu().numpy()))
        U, V = rows_of_columns(nodes, self.layout, self.group)
        sums = user_sums(U.numpy(), V.numpy(), training_pairs.all_pairs)
        if self.group is not None:
            sums = sums.added_up(self.group.total)
        items = gather_columns(nodes[training_pairs.n_users :], self.layout, self.group)
        del nodes, U, V
        item_variances = user_variance = None
        if with_variances:
            variances = propagation.variances(
                parameters.std.detach().cpu().numpy() ** 2,
                rng=np.random.default_rng(0),
                first_column=self.columns.start,
            )
            of_users = variances[: training_pairs.n_users].mean(axis=0, dtype=np.float64, keepdims=True)
            user_variance = gather_columns(torch.from_numpy(of_users), self.layout, self.group)
            item_variances = gather_columns(
                torch.from_numpy(variances[training_pairs.n_users :]), self.layout, self.group
            )
        if items is None:
            return None
        return Vectors(
            items.numpy(),
            sums,
            None if item_variances is None else item_variances.numpy(),
            None if user_variance is None else user_variance.numpy()[0],
        )

    def tensors(self) -> dict[str, Tensor]:
        """Return the tensors of a checkpoint: (nodes, columns), or single numbers that are the same at all workers."""
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

    def collect(self, name: str) -> Iterator[Tensor | None]:
        """Yield a tensor in all dimensions, one block of rows at a time, at rank 0; None at the other ranks."""
        for block in torch.split(self.tensors()[name], ROW_BLOCK):
            yield gather_columns(block.cpu(), self.layout, self.group)

    def restore(
        self,
        names: list[str],
        numbers: dict[str, float],
        blocks: Callable[[str], Iterator[Tensor]] | None = None,
    ) -> None:
        """Load saved tensors; rank 0 has their `blocks` of rows."""
        for index, tensor in enumerate(self.parameters.tensors()):
            prefix = f"optimiser.{index}."
            state = {name: torch.empty_like(tensor).detach() for name in names if name.startswith(prefix)} | {
                name: torch.tensor(number) for name, number in numbers.items() if name.startswith(prefix)
            }
            if state:
                self.optimiser.state[tensor] = {name.removeprefix(prefix): each for name, each in state.items()}
        mine = self.tensors()
        for name in names:
            saved = blocks(name) if blocks is not None else None
            for into in torch.split(mine[name], ROW_BLOCK):
                scatter_columns(next(saved) if saved is not None else None, into, self.layout, self.group)

    def _total(self, *numbers: float) -> tuple[float, ...]:
        """Return the sums over all workers."""
        if self.group is None:
            return numbers
        return tuple(self.group.total(np.array(numbers, dtype=np.float64)).tolist())


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
