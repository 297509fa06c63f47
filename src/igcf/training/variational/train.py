"""Training loop of the graph model: epochs on the negative evidence lower bound, validation, checkpoints."""

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path

from igcf.config import GraphConfig
from igcf.training.progress import Progress, Watch
from igcf.training.variational.checkpoint import read_checkpoint, write_checkpoint
from igcf.training.variational.parameters import Parameters
from igcf.training.variational.trainer import Trainer
from igcf.training.variational.training_pairs import TrainingPairs


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

    @property
    def parameters(self) -> Parameters:
        """Parameters that were best on the validation users, or the last ones without any."""
        return self.trainer.best


def fit(
    training_pairs: TrainingPairs,
    config: GraphConfig,
    *,
    epochs: int | None = None,
    score: Callable[[Trainer], float] | None = None,
    checkpoint: Path | None = None,
    resume: bool = False,
    progress: Watch | None = None,
) -> Fit:
    """Train for `epochs` of the schedule of `config` (all of them unless given), or until `score` stops growing.

    The random numbers of a step depend on the seed and the number of the step only: a run that was interrupted and
    resumed ends with the same parameters as one that was not.
    """
    begun = time.perf_counter()
    last_epoch = config.epochs if epochs is None else min(epochs, config.epochs)
    steps_per_epoch = 1 if config.batch_size is None else -(-training_pairs.n_pairs // config.batch_size)
    trainer = Trainer(training_pairs, config)
    state = FitState()
    if resume and checkpoint is not None and checkpoint.exists():
        state = FitState(**read_checkpoint(checkpoint, trainer))
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
        if checkpoint is not None and (state.finished or state.epoch % config.validate_every == 0):
            write_checkpoint(checkpoint, trainer, asdict(state))
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
