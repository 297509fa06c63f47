"""The training loop: steps on the negative evidence lower bound, looks at validation users, checkpoints."""

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from igcf.arrays import Float32Array, IntArray
from igcf.config import PretrainConfig
from igcf.errors import TrainingDivergedError
from igcf.graph import sampled_products
from igcf.pretrain import objective
from igcf.pretrain.checkpoint import read_checkpoint, write_checkpoint
from igcf.pretrain.operators import Operators
from igcf.pretrain.pairs import Pairs
from igcf.pretrain.parameters import Parameters, initial_parameters
from igcf.pretrain.sampling import sample_and_kl

SMALL = 1 << 22
"""Numbers below which torch computes in one thread: its threads spin, and gain little beside the sparse products."""
LOWEST_RATE = 0.05
"""Where the cosine schedule ends, as a share of the learning rate."""


@dataclass(frozen=True, eq=False)
class Problem:
    """What is learned from: pairs with their rewards, and the operators of the graph."""

    n_users: int
    n_items: int
    user_idx: IntArray
    item_idx: IntArray
    targets: Float32Array
    operators: Operators
    fingerprint: str
    """Of the log, so that a checkpoint is only continued on the data that it began with."""

    @cached_property
    def all_pairs(self) -> Pairs:
        """All pairs as one batch."""
        return self._pairs(slice(None))

    def batches(self, config: PretrainConfig, epoch: int) -> Iterator[Pairs]:
        """The batches of one epoch; their order depends on the seed and the epoch only."""
        if config.batch_size is None:
            yield self.all_pairs
            return
        order = np.arange(len(self.targets))
        if config.shuffle:
            order = np.random.default_rng([config.seed, epoch]).permutation(len(order))
        for start in range(0, len(order), config.batch_size):
            yield self._pairs(order[start : start + config.batch_size])

    def predictions(self, users: Float32Array, items: Float32Array) -> Float32Array:
        """users[u] . items[i] for the pairs of `all_pairs`."""
        return sampled_products(self.all_pairs.indptr, self.all_pairs.items, users, items)

    def _pairs(self, rows: slice | IntArray) -> Pairs:
        return Pairs.of(self.n_users, self.n_items, self.user_idx[rows], self.item_idx[rows], self.targets[rows])


@dataclass(frozen=True)
class StepStats:
    """Per observed pair: the negative log likelihood, the weighted KL and their sum."""

    loss: float
    nll: float
    kl: float


@dataclass(frozen=True)
class Progress:
    """One line of the live display."""

    epoch: int
    epochs: int
    stats: StepStats | None
    """None where the fit is exact and there is no loss to watch."""
    validation: float | None
    """Successes per validation user at the last look."""
    best: float | None
    seconds: float
    what: str = "pretraining"


@dataclass
class FitState:
    """Everything that a continued run needs beside the tensors."""

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
    """The parameters that were best on the validation users (or the last ones without any), and how they came about."""

    parameters: Parameters
    state: FitState


def elbo_terms(
    parameters: Parameters, batch: Pairs, problem: Problem, config: PretrainConfig, *, generator: torch.Generator
) -> tuple[Tensor, Tensor]:
    """Negative log likelihood of `batch` under one posterior sample and the KL of all parameters, both per pair."""
    sample, kl = sample_and_kl(parameters.mean, parameters.rho, config.prior_std, generator=generator)
    nodes = problem.operators.propagate(sample)
    U, V = torch.split(nodes, [problem.n_users, problem.n_items])
    scores = problem.operators.scores(batch, U, V)
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
    return nll / len(batch), kl / len(problem.targets)


def train_step(
    parameters: Parameters,
    batch: Pairs,
    optimiser: torch.optim.Optimizer,
    problem: Problem,
    config: PretrainConfig,
    *,
    generator: torch.Generator,
) -> StepStats:
    """Take one step on the negative evidence lower bound; the only caller of `step()`."""
    optimiser.zero_grad(set_to_none=True)
    nll, kl = elbo_terms(parameters, batch, problem, config, generator=generator)
    loss = nll + config.kl_weight * kl
    if not math.isfinite(loss.item()):
        raise TrainingDivergedError(
            f"training diverged: the loss became {loss.item()} (likelihood {nll.item():.3g}, KL {kl.item():.3g}); "
            f"lower learning_rate, now {config.learning_rate:g}, or raise noise_std, now {config.noise_std:g}"
        )
    loss.backward()  # type: ignore[no-untyped-call]
    optimiser.step()
    return StepStats(loss.item(), nll.item(), config.kl_weight * kl.item())


def fit(
    problem: Problem,
    config: PretrainConfig,
    *,
    epochs: int | None = None,
    score: Callable[[Parameters], float] | None = None,
    checkpoint: Path | None = None,
    resume: bool = False,
    progress: Callable[[Progress], None] | None = None,
) -> Fit:
    """Train for `epochs` of the schedule of `config` (all of them unless given), or until `score` stops growing.

    The random numbers of a step depend on the seed and the number of the step only, so that a run that was
    interrupted and resumed ends with the same parameters as one that was not.
    """
    with step_threads(problem, config):
        return _fit(problem, config, epochs, score, checkpoint, resume, progress)


@contextmanager
def step_threads(problem: Problem, config: PretrainConfig) -> Iterator[None]:
    """For small tensors, waking other threads takes longer than the work."""
    before = torch.get_num_threads()
    n_numbers = (problem.n_users + problem.n_items) * config.dim
    torch.set_num_threads(1 if n_numbers < SMALL else before)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _fit(
    problem: Problem,
    config: PretrainConfig,
    epochs: int | None,
    score: Callable[[Parameters], float] | None,
    checkpoint: Path | None,
    resume: bool,
    progress: Callable[[Progress], None] | None,
) -> Fit:
    begun = time.perf_counter()
    last_epoch = config.epochs if epochs is None else min(epochs, config.epochs)
    generator = torch.Generator(device=config.device)
    start = torch.Generator().manual_seed(config.seed)
    n_nodes = problem.n_users + problem.n_items
    parameters = initial_parameters(n_nodes, config.dim, config.start, generator=start, device=config.device)
    best, state = parameters.copied(), FitState()
    optimiser = make_optimiser(parameters, config)
    if resume and checkpoint is not None and checkpoint.exists():
        saved = read_checkpoint(checkpoint, parameters, best, optimiser, config, problem.fingerprint)
        state = FitState(**saved)
    before = state.seconds
    steps_per_epoch = 1 if config.batch_size is None else math.ceil(len(problem.targets) / config.batch_size)
    while state.epoch < last_epoch and not state.finished:
        total = np.zeros(3)
        for batch in problem.batches(config, state.epoch):
            for group in optimiser.param_groups:
                group["lr"] = learning_rate(config, state.steps / (steps_per_epoch * config.epochs))
            generator.manual_seed((config.seed + 1) * 1_000_003 + state.steps)
            stats = train_step(parameters, batch, optimiser, problem, config, generator=generator)
            total += len(batch) / len(problem.targets) * np.array([stats.loss, stats.nll, stats.kl])
            state.steps += 1
        state.epoch += 1
        mean = StepStats(*total.tolist())
        is_last = state.epoch == last_epoch
        validation = None
        if score is not None and (state.epoch % config.validate_every == 0 or is_last):
            validation = score(parameters)
            _remember(state, validation, parameters, best, config)
        state.seconds = before + time.perf_counter() - begun
        state.history.append({"epoch": state.epoch, "validation": validation, **asdict(mean)})
        state.finished = state.finished or is_last
        if checkpoint is not None and (state.finished or state.epoch % config.validate_every == 0):
            write_checkpoint(checkpoint, parameters, best, optimiser, config, problem.fingerprint, asdict(state))
        if progress is not None:
            progress(Progress(state.epoch, last_epoch, mean, validation, state.best_score, state.seconds))
    if score is None:
        state.best_epoch = state.epoch
        return Fit(parameters.copied(), state)
    return Fit(best, state)


def _remember(
    state: FitState, validation: float, parameters: Parameters, best: Parameters, config: PretrainConfig
) -> None:
    """Keep the parameters unless earlier ones were better; count the looks that brought nothing."""
    has_gained = state.best_score is None or validation > state.best_score
    if state.best_score is None or validation >= state.best_score:
        state.best_score, state.best_epoch = validation, state.epoch
        best.mean.copy_(parameters.mean.detach())
        best.rho.copy_(parameters.rho.detach())
    state.looks_without_gain = 0 if has_gained else state.looks_without_gain + 1
    state.finished = state.looks_without_gain >= config.patience


def learning_rate(config: PretrainConfig, done: float) -> float:
    """The learning rate after the share `done` of all steps."""
    if config.schedule == "constant":
        return config.learning_rate
    return config.learning_rate * (LOWEST_RATE + (1 - LOWEST_RATE) * 0.5 * (1 + math.cos(math.pi * done)))


def make_optimiser(parameters: Parameters, config: PretrainConfig) -> torch.optim.Optimizer:
    """Plain SGD as in alg:pretrain, or Adam."""
    if config.optimiser == "sgd":
        return torch.optim.SGD(parameters.tensors(), lr=config.learning_rate)
    return torch.optim.Adam(parameters.tensors(), lr=config.learning_rate, fused=True)
