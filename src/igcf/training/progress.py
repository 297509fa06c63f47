"""What training reports while it runs, and how that is shown."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeAlias

from igcf.progress import show_progress


@dataclass(frozen=True)
class StepStats:
    """Terms of the graph model's loss per observed pair: negative log likelihood, weighted KL, and their sum."""

    loss: float
    nll: float
    kl: float


@dataclass(frozen=True)
class Progress:
    """State of a training after one of its steps."""

    epoch: int  # number of steps done in the current stage: epochs, iterations or candidates
    epochs: int  # number of steps of the current stage
    stats: StepStats | None  # loss of the last epoch; None where the fit is exact and there is no loss to watch
    validation: float | None  # successes per validation user, where this step measured them
    best: float | None  # largest number of successes per validation user so far
    seconds: float  # seconds since training began
    what: str = "pretraining"  # name of the current stage


Watch: TypeAlias = Callable[[Progress], None]  # function that is called with the state of training after every step


@contextmanager
def watching(progress: Watch | bool) -> Iterator[Watch]:
    """Turn the `progress` argument of `pretrain` into a function to call: True shows it on standard error."""
    if not isinstance(progress, bool):
        yield progress
    elif not progress:
        yield _silent
    else:
        with show_progress() as report:
            yield lambda step: report(_described(step), step.epoch, step.epochs)


def _described(step: Progress) -> str:
    best = "" if step.best is None else f"  validation best {step.best:.2f}"
    loss = "" if step.stats is None else f"  loss {step.stats.loss:.4f}  KL {step.stats.kl:.4f}"
    return f"{step.what}{loss}{best}"


def _silent(_: Progress) -> None:
    pass
